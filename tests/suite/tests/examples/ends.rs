//! How a command ended, and what a client does where it cannot even begin.

use rustix::process::{Pid, Signal, kill_process};
use xioflow_kit::{Deadline, Stage};

use crate::{each_client, each_client_and_user, facts, shell, text};

#[test]
fn the_exit_status_is_the_commands() {
    each_client(|stage, client| {
        for (id, script, code, status, exit_code) in [
            ("ok", "exit 0", 0, "succeeded", "0"),
            ("seven", "exit 7", 7, "failed", "7"),
            ("killed", "kill -KILL $$", 137, "failed", "null"),
        ] {
            let finished = client.run(stage, &["--op", id], &shell(script)).finish();
            finished.assert_code(code).assert_stdout("");
            finished.assert_stderr(facts(id, status, exit_code));
        }
        let finished = client.run(stage, &[], &["not-there"]).finish();
        finished
            .assert_code(127)
            .assert_complains("cannot execute not-there: ");
    });
}

#[test]
fn ctrl_c_is_passed_on_to_the_whole_tree() {
    each_client_and_user(|stage, client| {
        for (id, signal, code) in [("int", Signal::INT, 130), ("term", Signal::TERM, 143)] {
            let ready = stage.path(id);
            let fixture = stage.fixture();
            let words = [
                text(&fixture),
                "--ready",
                text(&ready),
                "spawn-tree",
                "flat",
                "2",
            ];
            let running = client.run(stage, &["--op", id], &words).start();
            stage.wait_ready(&ready);
            running.signal(signal);
            let finished = running.finish();
            finished
                .assert_code(code)
                .assert_complains("status cancelled");
            let living = stage.living().into_iter();
            // The arbiter keeps a helper ready for the next command.
            let commands: Vec<_> = living
                .filter(|one| !one.contains("xioflow-reaper"))
                .collect();
            assert!(commands.is_empty(), "{commands:?} live");
        }
    });
}

#[test]
fn without_an_arbiter_it_says_what_to_run() {
    each_client(|stage, client| {
        stage.end_arbiters();
        let finished = client.run(stage, &[], &["true"]).finish();
        finished.assert_code(73).assert_stdout("");
        let hint = format!("xioflow --domain {} arbiter", text(&stage.domain()));
        finished
            .assert_complains("no arbiter serves")
            .assert_complains(&hint);
        // The socket of one that was killed is still there.
        let again = stage.xioflow().args(["run", "--", "true"]).finish();
        again.assert_code(0);
        kill_arbiter(stage);
        assert!(stage.domain().join("kernel.sock").exists());
        let finished = client.run(stage, &[], &["true"]).finish();
        finished
            .assert_code(73)
            .assert_complains("no arbiter serves");
    });
}

#[test]
fn an_arbiter_that_dies_is_told_of() {
    each_client(|stage, client| {
        let command = shell("echo begun; exec sleep 300");
        let mut running = client.run(stage, &[], &command).start();
        running.wait_for_output(b"begun\n");
        kill_arbiter(stage);
        let finished = running.finish();
        finished
            .assert_code(70)
            .assert_complains("the arbiter went away");
        assert!(stage.wait_empty(Deadline::usual()), "{:?}", stage.living());
    });
}

fn kill_arbiter(stage: &Stage) {
    for pid in stage.arbiters() {
        let number = i32::try_from(pid).expect("a pid");
        let named = Pid::from_raw(number).expect("a pid is not 0");
        kill_process(named, Signal::KILL).expect("it lives");
        assert!(xioflow_kit::wait::pid_gone(pid, Deadline::usual()));
    }
}

#[test]
fn a_domain_may_have_a_long_path() {
    each_client(|stage, client| {
        let domain = stage.folder("x".repeat(100)).join("y".repeat(100));
        let named = ["--domain", text(&domain)];
        let first = stage.xioflow().args(named).args(["run", "--", "true"]);
        first.finish().assert_code(0);
        let finished = client.run(stage, &named, &["echo", "there"]).finish();
        finished.assert_code(0).assert_stdout("there\n");
    });
}

#[test]
fn a_folder_that_others_may_write_is_not_trusted() {
    each_client_and_user(|stage, client| {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(stage.domain(), mode).expect("chmod");
        let finished = client.run(stage, &[], &["true"]).finish();
        finished
            .assert_code(73)
            .assert_complains("is not ours alone");
    });
}
