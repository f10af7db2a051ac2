//! The kit's own promises: what it must notice, it notices.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Duration;

use xioflow_kit::{Deadline, Stage, running_as_root, wait};

fn message_of(panic: &(dyn std::any::Any + Send)) -> String {
    panic.downcast_ref::<String>().cloned().unwrap_or_default()
}

/// A child that its test has not ended fails the test, by name, and is gone afterwards.
#[test]
fn a_leftover_process_fails_its_stage() {
    let stage = Stage::new();
    let started = stage.run("/bin/sleep").arg("60").start();
    let pid = started.pid();
    drop(started);
    let panic = catch_unwind(AssertUnwindSafe(|| drop(stage))).expect_err("the stage objects");
    let message = message_of(&*panic);
    assert!(
        message.contains(&pid.to_string()) && message.contains("sleep 60"),
        "{message}"
    );
    assert!(wait::pid_gone(pid, Deadline::usual()));
}

/// A process without the nonce is still found by where it stands.
#[test]
fn a_leftover_without_environment_is_found() {
    let stage = Stage::new();
    let script = "exec env -i /bin/sh -c ': > ready; exec /bin/sleep 60'";
    drop(stage.run("/bin/sh").args(["-c", script]).start());
    wait::file(&stage.path("ready"), Deadline::usual());
    let panic = catch_unwind(AssertUnwindSafe(|| drop(stage))).expect_err("the stage objects");
    assert!(message_of(&*panic).contains("left behind"));
}

#[test]
fn a_run_that_does_not_end_is_killed_and_reported() {
    let stage = Stage::new();
    let panic = catch_unwind(AssertUnwindSafe(|| {
        let script = "echo begun; setsid sleep 60 & exec sleep 60";
        stage
            .run("/bin/sh")
            .args(["-c", script])
            .deadline(Duration::from_millis(500))
            .finish()
    }))
    .expect_err("the run is over its deadline");
    let message = message_of(&*panic);
    assert!(message.contains("no end by the deadline"), "{message}");
    assert!(message.contains("begun"), "{message}");
    assert_eq!(stage.living(), Vec::<String>::new());
}

#[test]
fn a_report_names_command_folder_status_and_both_streams() {
    let stage = Stage::new();
    let run = stage
        .run("/bin/sh")
        .args(["-c", "echo out; echo err >&2; exit 3"])
        .finish();
    let report = run.to_string();
    for part in ["/bin/sh", "work", "exit 3", "out", "err"] {
        assert!(report.contains(part), "{part} is missing in\n{report}");
    }
    assert!(catch_unwind(AssertUnwindSafe(|| run.assert_code(0).status)).is_err());
    run.assert_code(3)
        .assert_stdout("out\n")
        .assert_stderr("err\n");
}

#[test]
fn input_arrives_and_ends() {
    let stage = Stage::new();
    stage
        .run("/bin/cat")
        .stdin("given")
        .finish()
        .assert_code(0)
        .assert_stdout("given");
    stage
        .run("/bin/cat")
        .finish()
        .assert_code(0)
        .assert_stdout("");
}

#[test]
fn the_environment_is_the_stages_own() {
    let stage = Stage::new();
    let run = stage.run("/usr/bin/env").finish();
    let text = String::from_utf8(run.stdout).expect("ASCII variables");
    let mut names: Vec<_> = text
        .lines()
        .filter_map(|line| line.split('=').next())
        .collect();
    names.sort_unstable();
    let expected = [
        "HOME",
        "LANG",
        "PATH",
        "TMPDIR",
        "XIOFLOW_ARBITER_IDLE",
        "XIOFLOW_DOMAIN",
        "XIOFLOW_TEST_NONCE",
    ];
    assert_eq!(names, expected);
}

#[test]
fn an_ordinary_stage_has_no_privilege() {
    let stage = Stage::ordinary();
    let run = stage
        .run("/bin/sh")
        .args(["-c", "id -u; id -G; touch here"])
        .finish();
    run.assert_code(0);
    if running_as_root() {
        run.assert_stdout("65534\n65534\n");
    }
    assert!(stage.path("here").exists());
}

#[test]
fn a_file_is_awaited_while_it_comes() {
    let stage = Stage::new();
    let path = stage.path("later");
    thread::scope(|scope| {
        scope.spawn(|| wait::file(&path, Deadline::usual()));
        fs::write(&path, "").expect("a file in the stage");
    });
    let never = catch_unwind(|| {
        wait::file(
            &stage.path("never"),
            Deadline::after(Duration::from_millis(20)),
        );
    });
    assert!(never.is_err());
}

/// Other tests of the same program start processes at any moment.
#[test]
fn a_program_that_was_written_can_be_executed_at_once() {
    let stage = Stage::new();
    let over = std::sync::atomic::AtomicBool::new(false);
    let started = |program: &std::path::Path| std::process::Command::new(program).status();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !over.load(std::sync::atomic::Ordering::Relaxed) {
                    started("/bin/true".as_ref()).expect("true starts");
                }
            });
        }
        let outcomes: Vec<_> = (0..200)
            .map(|_| started(&stage.write("tool", "#!/bin/true\n", 0o755)))
            .collect();
        over.store(true, std::sync::atomic::Ordering::Relaxed);
        for outcome in outcomes {
            assert!(outcome.expect("it starts").success());
        }
    });
}
