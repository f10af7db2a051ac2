//! What is still read of the pipes when the tree is gone, and for how long.

use std::time::Duration;

use xioflow_kernel::Command;
use xioflow_kernel::journal::{Outcome, Query};
use xioflow_kit::{Deadline, Stage, wait};

use crate::{hold_stdout, open, shell, text};

/// Says that it runs, and ends when the stage's file `gate` is there.
fn until_gate(stage: &Stage) -> Command {
    let (ready, gate) = (stage.path("ready"), stage.path("gate"));
    let script = format!(
        "echo begun; : > {}; until [ -e {} ]; do :; done",
        text(&ready),
        text(&gate)
    );
    shell(stage, &script)
}

/// Its own output is in the pipes when the tree is gone; that is nothing to wait for. Which of them is
/// looked at first is a matter of chance, so there are many, side by side.
#[test]
fn without_any_time_everything_is_there_all_the_same() {
    const THREADS: usize = 8;
    const TURNS: usize = 100;
    let stage = Stage::new();
    let domain = open(&stage);
    let run = |turn| {
        let command = shell(&stage, "head -c 200000 /dev/zero; echo end >&2");
        let operation = domain.operation(command).expect("a builder");
        let result = operation
            .drain_timeout(Duration::ZERO)
            .run()
            .expect("a result");
        assert_eq!(
            (result.status, result.stdout_bytes, result.stderr.as_str()),
            (Outcome::Succeeded, 200_000, "end\n"),
            "turn {turn}: {:?}",
            result.reason
        );
    };
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| (0..TURNS).for_each(run));
        }
    });
}

/// Nothing is left that a signal could end, but whoever stops it does not wait for strangers.
#[test]
fn a_stop_ends_a_wait_for_a_stranger() {
    let stage = Stage::new();
    let domain = open(&stage);
    let operation = domain.operation(until_gate(&stage)).expect("a builder");
    let running = operation
        .id("held")
        .drain_timeout(Duration::MAX)
        .start()
        .expect("a thread");
    let canceller = running.canceller();
    wait::file(&stage.path("ready"), Deadline::usual());
    let held = hold_stdout(&domain, "held");
    let pid = domain
        .journal()
        .operation("held")
        .expect("readable")
        .and_then(|held| held.process_identity)
        .and_then(|identity| identity["pid"].as_u64())
        .and_then(|pid| u32::try_from(pid).ok())
        .expect("it runs");
    std::fs::write(stage.path("gate"), "").expect("a file of the stage");
    wait::until("the end of its tree", Deadline::usual(), || {
        wait::state(pid).is_none()
    });
    // Until it has ended: the helper's word of the empty tree may still be on its way.
    wait::until("a stop that is heard", Deadline::usual(), || {
        canceller.cancel().is_err()
    });
    let result = running.wait().expect("a result");
    assert_eq!(
        (result.status, result.exit_code, result.stdout.as_str()),
        (Outcome::Indeterminate, Some(0), "begun\n")
    );
    drop(held);
}
