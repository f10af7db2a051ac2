//! What recovery and adjudication do in a world of real processes: whom they end, whom they leave alone,
//! and what they free. `left` makes what they find.

mod adjudication;
mod group;
mod left;
mod namespace;
mod runs;
mod stop;
mod strangers;

use std::path::Path;
use std::process::{Child, Command, Stdio};

use xioflow_kernel::journal::{Outcome, Query};
use xioflow_kernel::{
    Decision, Domain, DomainOptions, ExecuteError, OperationResult, stored_result,
};
use xioflow_kit::{Deadline, Stage, wait};

use left::{ID, LEASE};

/// Opens the stage's domain, which recovers it.
fn open(stage: &Stage) -> Domain {
    DomainOptions::default()
        .helper(stage.program("xioflow-reaper"))
        .open(stage.domain())
        .unwrap_or_else(|error| panic!("open {}: {error:?}", stage.domain().display()))
}

/// The one decision that recovery made.
fn decision(domain: &Domain) -> &Decision {
    match domain.recovered() {
        [decision] => decision,
        other => panic!("{other:?}"),
    }
}

fn result(domain: &Domain, id: &str) -> OperationResult {
    let journal = domain.journal();
    let operation = journal.operation(id).expect("readable").expect("recorded");
    let outputs = journal.outputs(id).expect("readable");
    let artifacts = domain.folder().join("artifacts");
    stored_result(&operation, &outputs, &artifacts, 1024 * 1024).expect("a result")
}

/// Nothing is known of how the operation ended, and it holds what it held.
fn assert_isolated(stage: &Stage, domain: &Domain) {
    let result = result(domain, ID);
    assert_eq!(result.status, Outcome::Indeterminate);
    assert_eq!((result.exit_code, result.signal.as_deref()), (None, None));
    let guidance = result.recovery_guidance.unwrap_or_default();
    assert!(guidance.contains("xioflow adjudicate op "), "{guidance}");
    let next = domain.operation(true_command(stage)).expect("a builder");
    let error = next.lease(LEASE).run().expect_err("the lease is held");
    let ExecuteError::ResourceConflict { holder, .. } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(holder, ID);
}

fn assert_free(stage: &Stage, domain: &Domain) {
    let next = domain.operation(true_command(stage)).expect("a builder");
    let result = next.lease(LEASE).run().expect("the lease is free");
    assert_eq!(result.exit_code, Some(0));
}

fn true_command(stage: &Stage) -> xioflow_kernel::Command {
    xioflow_kernel::Command::new("/bin/true").cwd(stage.path(""))
}

/// A command of the fixture as a supervisor's helper starts one, in a session of its own; here as a child
/// of the test. Its processes, itself first.
fn command(stage: &Stage, name: &str, mode: &[&str]) -> (Child, Vec<u32>) {
    let ready = stage.path(name);
    let child = Command::new("/usr/bin/setsid")
        .arg(stage.fixture())
        .args(["--ttl", "120", "--ready", text(&ready)])
        .args(mode)
        .env_clear()
        .envs(stage.environment())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the fixture starts");
    let pids = stage.wait_ready(&ready);
    assert_eq!(pids[0], child.id(), "setsid(1) has not forked");
    (child, pids)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of a stage is text")
}

/// Waits until a process has ended and can be waited for.
fn is_over(pid: u32) -> bool {
    wait::pid_gone(pid, Deadline::usual())
}
