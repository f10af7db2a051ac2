//! Standard input is what was asked for, and nothing by default.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use xioflow_kit::{Deadline, Stage, each_user, wait};

use crate::{run, shell, text};

#[test]
fn it_is_empty_by_default() {
    each_user(|stage| {
        run(stage, &[], &["cat"])
            .stdin("given")
            .finish()
            .assert_code(0)
            .assert_stdout("");
        let explicit = run(stage, &["--stdin", "null"], &["cat"])
            .stdin("given")
            .finish();
        explicit.assert_code(0).assert_stdout("");
    });
}

#[test]
fn it_can_be_inherited() {
    each_user(|stage| {
        let run = run(stage, &["--stdin", "inherit"], &["cat"])
            .stdin(b"given\xff\n")
            .finish();
        run.assert_code(0).assert_stdout(b"given\xff\n");
    });
}

#[test]
fn it_can_be_a_file() {
    each_user(|stage| {
        let file = stage.write("input", b"from a file\xff", 0o600);
        let named = run(stage, &["--stdin", text(&file)], &["cat"]).finish();
        named.assert_code(0).assert_stdout(b"from a file\xff");
        let relative = run(stage, &["--stdin", "input"], &["cat"]).finish();
        relative.assert_code(0).assert_stdout(b"from a file\xff");
    });
}

#[test]
fn a_missing_file_is_named_and_nothing_runs() {
    let stage = Stage::new();
    let trace = stage.path("trace");
    let finished = run(&stage, &["--stdin", "missing"], &["touch", text(&trace)]).finish();
    finished.assert_complains("missing");
    assert!(!finished.status.success(), "{finished}");
    assert!(!trace.exists());
}

#[test]
fn input_that_is_not_read_is_no_error() {
    let stage = Stage::new();
    let run = run(&stage, &["--stdin", "inherit"], &["true"])
        .stdin(vec![b'x'; 60_000])
        .finish();
    run.assert_code(0);
}

/// Descriptors 0 to 9 that the shell has open when it starts.
const OPEN: &str =
    "for n in 0 1 2 3 4 5 6 7 8 9; do if test -e /proc/$$/fd/$n; then echo $n; fi; done";

#[test]
fn it_can_be_none_at_all() {
    each_user(|stage| {
        let closed = run(stage, &["--stdin", "closed"], &shell(OPEN)).finish();
        closed.assert_code(0).assert_stdout("1\n2\n");
        let null = run(stage, &[], &shell(OPEN)).finish();
        null.assert_code(0).assert_stdout("0\n1\n2\n");
        let read = run(stage, &["--stdin", "closed"], &shell("read v; echo $?")).finish();
        assert_ne!(read.stdout, b"0\n", "{read}");
    });
}

#[test]
fn a_file_may_have_the_name_of_a_kind() {
    let stage = Stage::new();
    for name in ["closed", "null", "inherit"] {
        stage.write(name, name, 0o600);
        let path = format!("./{name}");
        let finished = run(&stage, &["--stdin", &path], &["cat"]).finish();
        finished.assert_code(0).assert_stdout(name);
    }
}

#[test]
fn it_can_be_read_by_its_name() {
    each_user(|stage| {
        let words = shell("cat /dev/stdin | wc -l");
        // The pipe is its user's own, as it is in a terminal: who made it may open it by name.
        let script = "printf 'a\\nb\\n' | \"$0\" run --stdin inherit -- \"$@\"";
        let xioflow = stage.program("xioflow");
        let piped = stage
            .run("/bin/sh")
            .args(["-c", script, text(&xioflow)])
            .args(words);
        piped.finish().assert_code(0).assert_stdout("2\n");
        stage.write("input", "a\nb\n", 0o600);
        let file = run(stage, &["--stdin", "input"], &words).finish();
        file.assert_code(0).assert_stdout("2\n");
        let empty = run(stage, &[], &words).finish();
        empty.assert_code(0).assert_stdout("0\n");
    });
}

fn fifo(stage: &Stage) {
    stage
        .run("mkfifo")
        .args(["-m", "666", "fifo"])
        .finish()
        .assert_code(0);
}

#[test]
fn a_fifo_is_waited_for() {
    each_user(|stage| {
        fifo(stage);
        let script = "(printf 'through a fifo' >fifo) & exec \"$0\" run --stdin fifo -- cat";
        let xioflow = stage.program("xioflow");
        let finished = stage
            .run("/bin/sh")
            .args(["-c", script, text(&xioflow)])
            .finish();
        finished.assert_code(0).assert_stdout("through a fifo");
        fs::remove_file(stage.path("fifo")).expect("a file of the stage");
    });
}

#[test]
fn a_fifo_without_a_writer_is_waited_for_no_longer_than_the_timeout() {
    each_user(|stage| {
        fifo(stage);
        let trace = stage.path("trace");
        let options = ["--op", "waits", "--stdin", "fifo", "--timeout", "200ms"];
        let finished = run(stage, &options, &["touch", text(&trace)]).finish();
        finished.assert_code(124).assert_complains("fifo");
        finished.assert_complains("nothing of the command ran");
        assert!(!trace.exists());
        let shown = stage.xioflow().args(["show", "waits"]).finish();
        shown.assert_code(0);
        let again = run(stage, &options, &["touch", text(&trace)]).finish();
        again.assert_code(124);
        fs::remove_file(stage.path("fifo")).expect("a file of the stage");
    });
}

/// Waits until the arbiter has the FIFO open and sleeps, as it does in its wait for a writer.
fn until_it_waits(stage: &Stage) {
    let has_it_open = |process: &Path| {
        let all = fs::read_dir(process.join("fd")).into_iter().flatten();
        all.flatten()
            .any(|it| fs::read_link(it.path()).is_ok_and(|to| to.ends_with("fifo")))
    };
    let sleeps = |process: &Path| {
        let stat = fs::read_to_string(process.join("stat")).unwrap_or_default();
        stat.rsplit_once(") ")
            .is_some_and(|(_, rest)| rest.starts_with('S'))
    };
    wait::until("a wait for the FIFO", Deadline::usual(), || {
        let arbiters = stage.arbiters().into_iter();
        let mut processes = arbiters.map(|pid| PathBuf::from(format!("/proc/{pid}")));
        processes.any(|process| has_it_open(&process) && sleeps(&process))
    });
}

#[test]
fn a_writer_is_noticed_when_it_comes_and_says_nothing_yet() {
    let stage = Stage::new();
    fifo(&stage);
    let words = shell("touch speaks; cat");
    let started = run(&stage, &["--stdin", "fifo", "--timeout", "20s"], &words).start();
    until_it_waits(&stage);
    let writer = File::options().write(true).open(stage.path("fifo"));
    let mut writer = writer.expect("a reader is there");
    wait::file(&stage.path("speaks"), Deadline::usual());
    writer.write_all(b"answer").expect("it reads");
    drop(writer);
    started.finish().assert_code(0).assert_stdout("answer");
}

#[test]
fn a_signal_ends_the_wait_for_a_fifo() {
    let stage = Stage::new();
    fifo(&stage);
    let started = run(&stage, &["--stdin", "fifo"], &["touch", "trace"]).start();
    until_it_waits(&stage);
    started.signal(Signal::INT);
    started
        .finish()
        .assert_code(130)
        .assert_complains("cancelled");
    assert!(!stage.path("trace").exists());
}

#[test]
fn a_device_is_no_reason_to_wait() {
    let stage = Stage::new();
    let finished = run(&stage, &["--stdin", "/dev/zero"], &["head", "-c", "3"]).finish();
    finished.assert_code(0).assert_stdout(b"\0\0\0");
}
