//! `logs` gives any part of what was printed, exactly, from wherever it is stored.

use std::fs;

use rustix::process::Signal;
use xioflow_kit::{Deadline, Finished, Stage, each_user, wait};

use crate::{run, run_alone, shell, text};

/// Prints the numbers up to `last`, a line each, as the operation `op`.
fn print_numbers(stage: &Stage, last: u32, options: &[&str]) -> Vec<u8> {
    let script = format!("seq 1 {last}");
    let options = [&["--op", "op"], options].concat();
    run(stage, &options, &shell(&script))
        .finish()
        .assert_code(0);
    numbers(1, last)
}

fn numbers(first: u32, last: u32) -> Vec<u8> {
    (first..=last)
        .map(|number| format!("{number}\n"))
        .collect::<String>()
        .into_bytes()
}

fn logs(stage: &Stage, words: &[&str]) -> Finished {
    stage.xioflow().args(["logs", "op"]).args(words).finish()
}

#[test]
fn lines_out_of_the_middle_of_a_file() {
    each_user(|stage| {
        print_numbers(stage, 200_000, &[]);
        let some = logs(stage, &["--lines", "100000-100010"]);
        some.assert_code(0).assert_stdout(numbers(100_000, 100_010));
        some.assert_stderr("");
        logs(stage, &["--lines", "199999-"])
            .assert_code(0)
            .assert_stdout("199999\n200000\n");
        logs(stage, &["--lines", "1"]).assert_stdout("1\n");
    });
}

#[test]
fn bytes_end_before_their_end() {
    let stage = Stage::new();
    for (last, place) in [(1000, "in the journal"), (100_000, "in a file")] {
        let id = format!("of-{last}");
        let script = format!("seq 1 {last}");
        run(&stage, &["--op", &id], &shell(&script))
            .finish()
            .assert_code(0);
        let all = numbers(1, last);
        let len = all.len();
        for (from, to) in [
            (0, 1),
            (0, len),
            (5, 700),
            (len - 1, len),
            (len / 2, len + 99),
        ] {
            let range = format!("{from}-{to}");
            let finished = stage
                .xioflow()
                .args(["logs", &id, "--bytes", &range])
                .finish();
            finished.assert_code(0).assert_stderr("");
            assert_eq!(finished.stdout, all[from..to.min(len)], "{range} {place}");
        }
        let rest = stage
            .xioflow()
            .args(["logs", &id, "--bytes", "7-"])
            .finish();
        rest.assert_stdout(&all[7..]);
    }
}

#[test]
fn the_last_lines_of_anything() {
    let stage = Stage::new();
    let all = print_numbers(&stage, 100_000, &[]);
    logs(&stage, &["--tail", "3"]).assert_stdout("99998\n99999\n100000\n");
    logs(&stage, &["--tail", "0"])
        .assert_code(0)
        .assert_stdout("");
    logs(&stage, &["--tail", "99999999999"]).assert_stdout(all);
    let script = "printf 'one\\ntwo\\nunfinished'; echo err >&2";
    run(&stage, &["--op", "open"], &shell(script))
        .finish()
        .assert_code(0);
    let tail = |words: &[&str]| stage.xioflow().args(["logs", "open"]).args(words).finish();
    tail(&["--tail", "2"]).assert_stdout("two\nunfinished");
    tail(&["--tail", "1", "--stderr"]).assert_stdout("err\n");
}

#[test]
fn what_is_past_the_end_is_said_and_prints_nothing() {
    let stage = Stage::new();
    print_numbers(&stage, 9, &[]);
    let bytes = logs(&stage, &["--bytes", "18-30"]);
    bytes
        .assert_code(0)
        .assert_stdout("")
        .assert_complains("18 bytes");
    let lines = logs(&stage, &["--lines", "10-12"]);
    lines
        .assert_code(0)
        .assert_stdout("")
        .assert_complains("9 lines");
    let none = logs(&stage, &["--stderr", "--lines", "1"]);
    none.assert_code(0)
        .assert_stdout("")
        .assert_complains("0 lines");
}

#[test]
fn a_part_that_makes_no_sense_is_refused() {
    let stage = Stage::new();
    print_numbers(&stage, 9, &[]);
    for words in [
        &["--bytes", "5-5"][..],
        &["--lines", "0-3"],
        &["--lines", "3-2"],
        &["--lines", "1-2", "--tail", "1"],
        &["--bytes", "0-2", "--follow"],
    ] {
        let finished = logs(&stage, words);
        finished.assert_code(64).assert_stdout("");
        assert!(!finished.stderr.is_empty(), "{finished}");
    }
}

/// The numbers of lines hold behind a part that is not stored, because all of them were counted.
#[test]
fn lines_keep_their_numbers_behind_a_gap() {
    let stage = Stage::new();
    print_numbers(&stage, 200_000, &["--max-stored", "256KiB"]);
    let head = logs(&stage, &["--lines", "500-510"]);
    head.assert_stdout(numbers(500, 510)).assert_stderr("");
    let tail = logs(&stage, &["--lines", "199990-199995"]);
    tail.assert_stdout(numbers(199_990, 199_995))
        .assert_stderr("");
    let missing = logs(&stage, &["--lines", "100000-100010"]);
    missing.assert_code(0).assert_stdout("");
    missing.assert_complains("were not stored");
    let last = logs(&stage, &["--tail", "5"]);
    last.assert_stdout(numbers(199_996, 200_000))
        .assert_stderr("");
}

/// Prints, says so, and goes on when it is told to.
const IN_TWO_PARTS: &str =
    "seq 1 50000; : > \"$1\"; until [ -e \"$2\" ]; do sleep 0.05; done; echo more; echo end";

#[test]
fn a_running_operation_is_read_and_followed_from_its_last_lines() {
    each_user(|stage| {
        let (printed, gate) = (stage.path("printed"), stage.path("gate"));
        let words = ["sh", "-c", IN_TWO_PARTS, "sh", text(&printed), text(&gate)];
        let owner = run(stage, &["--op", "op", "--json"], &words).start();
        wait::file(&printed, Deadline::usual());
        // The pipe is emptied into the file beside the command.
        let all = numbers(1, 50_000).len() as u64;
        let file = stage.domain().join("artifacts").join("op-stdout.log");
        let folder = stage.domain().join("artifacts");
        let written = || (fs::metadata(&file).ok()?.len() == all).then_some(());
        wait::in_folder(&folder, Deadline::usual(), written).expect("all of it");
        logs(stage, &["--lines", "40000-40001"]).assert_stdout("40000\n40001\n");
        logs(stage, &["--tail", "1"]).assert_stdout("50000\n");
        let beyond = logs(stage, &["--lines", "50001-50002"]);
        beyond.assert_stdout("").assert_complains("so far");
        let follow = ["logs", "op", "--follow", "--tail", "2"];
        let mut follower = stage.xioflow().args(follow).start();
        follower.wait_for_output(b"49999\n50000\n");
        fs::write(&gate, "").expect("a file of the stage");
        let followed = follower.finish();
        followed.assert_code(0);
        followed.assert_stdout("49999\n50000\nmore\nend\n");
        owner.finish().assert_code(0);
    });
}

#[test]
fn a_part_of_what_a_crash_left_can_be_read() {
    let stage = Stage::new();
    let (printed, gate) = (stage.path("printed"), stage.path("gate"));
    let words = ["sh", "-c", IN_TWO_PARTS, "sh", text(&printed), text(&gate)];
    let owner = run_alone(&stage, &["--op", "op"], &words).start();
    wait::file(&printed, Deadline::usual());
    owner.signal(Signal::KILL);
    drop(owner.finish());
    // Before and after it is settled.
    for _ in 0..2 {
        logs(&stage, &["--lines", "100-102"]).assert_stdout(numbers(100, 102));
        logs(&stage, &["--bytes", "0-4"]).assert_stdout("1\n2\n");
        run_alone(&stage, &["--quiet"], &["true"])
            .finish()
            .assert_code(0);
    }
}

/// Its length is not known, and nothing must not be taken for all.
#[test]
fn what_recovery_could_not_read_is_no_empty_output() {
    let stage = Stage::new();
    run_alone(&stage, &[], &["true"]).finish().assert_code(0);
    let started = run_alone(&stage, &["--op", "op"], &shell("seq 1 20000; sleep 300")).start();
    let file = stage.domain().join("artifacts/op-stdout.log");
    wait::file(&file, Deadline::usual());
    started.signal(Signal::KILL);
    drop(started.finish());
    fs::remove_file(&file).expect("the stored output");
    fs::create_dir(&file).expect("something else in its place");
    run_alone(&stage, &[], &["true"]).finish().assert_code(0);
    for words in [&[][..], &["--tail", "1"], &["--both"], &["--text"]] {
        let read = logs(&stage, words);
        read.assert_code(70).assert_stdout("");
        read.assert_complains("not stored whole");
    }
    logs(&stage, &["--stderr"]).assert_code(0);
}
