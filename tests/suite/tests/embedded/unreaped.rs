//! A process that has ended and that nobody may wait for yet: traced from outside the tree.

use nix::sys::ptrace;
use nix::sys::wait::waitpid;
use nix::unistd::Pid;
use xioflow_kernel::TreeSettlement;
use xioflow_kernel::journal::{Outcome, Query};
use xioflow_kit::{Deadline, Stage, wait};

use crate::{open, text};

#[test]
fn a_zombie_of_a_foreign_tracer_is_no_residual() {
    let stage = Stage::new();
    let domain = open(&stage);
    let (ready, gate) = (stage.path("ready"), stage.path("gate"));
    let script = format!(
        "{} --ready {} --exit 0 daemonise 1; until [ -e {} ]; do :; done",
        text(&stage.fixture()),
        text(&ready),
        text(&gate)
    );
    let operation = domain
        .operation(crate::shell(&stage, &script))
        .expect("a builder");
    let handle = operation.id("traced").lease("x").start().expect("a thread");
    let pids = stage.wait_ready(&ready);
    let daemon = *pids.last().expect("a daemon");
    let traced = Pid::from_raw(i32::try_from(daemon).expect("a pid"));
    // By this thread, which then does not wait for it.
    ptrace::seize(traced, ptrace::Options::empty()).expect("it is ours to trace");
    std::fs::write(&gate, "").expect("a file of the stage");
    let result = handle.wait().expect("a result");
    assert_eq!(result.status, Outcome::Succeeded, "{result:#?}");
    assert_eq!(result.tree_settlement, Some(TreeSettlement::Reaped));
    assert_eq!(result.unreaped_pids, [daemon]);
    assert_eq!(result.residual_pids, [0_u32; 0]);
    assert_eq!(result.survivors[0].end, "unreaped");
    assert_eq!(domain.journal().leases().expect("readable"), []);
    waitpid(traced, None).expect("its tracer is told of its end");
    assert!(wait::pid_gone(daemon, Deadline::usual()));
}
