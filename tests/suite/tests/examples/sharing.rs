//! One id and several clients: the command runs once, and each gets all of it.

use std::fs;

use crate::{each_client, facts, shell};

#[test]
fn two_clients_of_one_id_share_one_execution() {
    each_client(|stage, client| {
        stage.run("mkfifo").arg("gate").finish().assert_code(0);
        let command = shell("echo once >>runs; echo begun; cat gate; echo ended; echo err >&2");
        let run = || client.run(stage, &["--op", "shared"], &command).start();
        let mut clients = [run(), run()];
        for client in &mut clients {
            // Also the one that comes when that was printed long ago.
            client.wait_for_output(b"begun\n");
        }
        fs::write(stage.path("gate"), "through\n").expect("the command reads it");
        for client in clients {
            let finished = client.finish();
            finished
                .assert_code(0)
                .assert_stdout("begun\nthrough\nended\n");
            let said = facts("shared", "succeeded", "0");
            finished.assert_stderr(format!("err\n{said}"));
        }
        let runs = fs::read_to_string(stage.path("runs")).expect("it ran");
        assert_eq!(runs, "once\n");
    });
}

#[test]
fn one_of_two_may_leave() {
    each_client(|stage, client| {
        stage.run("mkfifo").arg("gate").finish().assert_code(0);
        let command = shell("echo begun; cat gate");
        let run = || client.run(stage, &["--op", "shared"], &command).start();
        let mut first = run();
        first.wait_for_output(b"begun\n");
        let mut second = run();
        second.wait_for_output(b"begun\n");
        second.signal(rustix::process::Signal::INT);
        let left = second.finish();
        left.assert_code(130).assert_complains("join_abandoned: ");
        fs::write(stage.path("gate"), "through\n").expect("the command reads it");
        first
            .finish()
            .assert_code(0)
            .assert_stdout("begun\nthrough\n");
    });
}

#[test]
fn an_id_that_is_used_again_is_answered_from_the_record_or_refused() {
    each_client(|stage, client| {
        let command = shell("echo once | tee -a runs; echo err >&2; exit 4");
        for _ in 0..2 {
            let finished = client.run(stage, &["--op", "again"], &command).finish();
            finished.assert_code(4).assert_stdout("once\n");
            let said = facts("again", "failed", "4");
            finished.assert_stderr(format!("err\n{said}"));
        }
        let runs = fs::read_to_string(stage.path("runs")).expect("it ran");
        assert_eq!(runs, "once\n");
        let other = client.run(stage, &["--op", "again"], &shell("echo other"));
        let refused = other.finish();
        refused.assert_code(76).assert_stdout("");
        refused.assert_complains(
            "client: operation_id_conflict: operation again exists with other inputs",
        );
    });
}
