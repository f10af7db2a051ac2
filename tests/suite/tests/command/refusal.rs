//! What is refused, with which status, and that nothing has run then.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;
use xioflow_kit::{Deadline, Stage, each_user, running_as_root, wait};

use crate::{fixture, run, run_alone, text};

const USAGE: i32 = 64;
const UNAVAILABLE: i32 = 69;
const CANNOT_OPEN: i32 = 73;
const BUSY: i32 = 75;
const CONFLICT: i32 = 76;

#[test]
fn words_that_make_no_sense_are_64() {
    let stage = Stage::new();
    let cases: [&[&str]; 11] = [
        &["run", "--lease", "", "--", "true"],
        &["run", "--lease", "workspace:write:", "--", "true"],
        &[],
        &["no-such-verb"],
        &["run"],
        &["run", "--"],
        &["run", "--no-such-option", "--", "true"],
        &["run", "--timeout", "soon", "--", "true"],
        &["run", "--max-output", "much", "--", "true"],
        &["run", "--descendants", "sometimes", "--", "true"],
        &["show"],
    ];
    for words in cases {
        let finished = stage.xioflow().args(words).finish();
        finished.assert_code(USAGE).assert_stdout("");
        assert!(!finished.stderr.is_empty(), "{finished}");
    }
}

#[test]
fn a_program_is_told_of_its_own_mistakes_in_a_document() {
    let stage = Stage::new();
    for words in [
        &["run", "--timeout", "soon", "--json", "--", "true"][..],
        &["list", "--json", "--limit", "few"],
        &["sho", "x", "--json"],
    ] {
        let finished = stage.xioflow().args(words).finish();
        finished.assert_code(USAGE);
        let error = &finished.json()["error"];
        assert_eq!(error["kind"], "usage");
        assert_eq!(error["exitCode"], USAGE);
        let message = error["message"].as_str().expect("a sentence");
        assert!(!message.contains("error:"), "{message}");
        finished.assert_complains(message.split('\'').next().expect("its beginning"));
    }
    // Its command's option is not ours.
    let words = ["run", "--timeout", "soon", "--", "x", "--json"];
    stage.xioflow().args(words).finish().assert_stdout("");
}

/// Options that need what this release or this host does not have.
const BEYOND: [&[&str]; 2] = [&["--confine"], &["--confine=landlock"]];

#[test]
fn what_cannot_be_enforced_is_69_and_nothing_runs() {
    each_user(|stage| {
        for options in BEYOND {
            let trace = stage.path("trace");
            let finished = run(stage, options, &["touch", text(&trace)]).finish();
            finished.assert_code(UNAVAILABLE).assert_stdout("");
            let name = options[0].split('=').next().expect("an option");
            finished.assert_complains(name);
            assert!(!trace.exists(), "{finished}");
            assert!(!stage.domain().exists(), "{finished}");
        }
    });
}

/// A domain that has been used once.
fn used_domain(stage: &Stage) -> std::path::PathBuf {
    run_alone(stage, &[], &["true"]).finish().assert_code(0);
    stage.domain().join("domain.db")
}

/// Checks that a run is refused with 73, names the file, changes nothing of it and runs nothing.
fn assert_refused_unchanged(stage: &Stage, file: &std::path::Path) {
    let before = fs::read(file).expect("the database");
    let trace = stage.path("trace");
    let finished = run(stage, &[], &["touch", text(&trace)]).finish();
    finished
        .assert_code(CANNOT_OPEN)
        .assert_stdout("")
        .assert_complains("domain");
    assert!(!trace.exists(), "{finished}");
    assert_eq!(
        fs::read(file).expect("the database"),
        before,
        "the file was changed"
    );
}

#[test]
fn a_corrupt_database_is_refused() {
    each_user(|stage| {
        let file = used_domain(stage);
        let garbage: Vec<u8> = b"this is no database at all\n".repeat(500);
        fs::write(&file, garbage).expect("a file of the stage");
        assert_refused_unchanged(stage, &file);
    });
}

/// Offsets in the header of an SQLite file (sqlite.org/fileformat.html, section 1.3).
const USER_VERSION_AT: usize = 60;
const APPLICATION_ID_AT: usize = 68;

fn patch(file: &std::path::Path, at: usize, value: u32) {
    let mut bytes = fs::read(file).expect("the database");
    assert_ne!(
        bytes[at..at + 4],
        value.to_be_bytes(),
        "the patch has to change something"
    );
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
    fs::write(file, bytes).expect("a file of the stage");
}

#[test]
fn a_database_of_another_program_is_refused() {
    let stage = Stage::new();
    let file = used_domain(&stage);
    patch(&file, APPLICATION_ID_AT, 0x1234_5678);
    assert_refused_unchanged(&stage, &file);
}

#[test]
fn a_database_of_a_later_release_is_refused() {
    let stage = Stage::new();
    let file = used_domain(&stage);
    patch(&file, USER_VERSION_AT, 1_000_000);
    assert_refused_unchanged(&stage, &file);
    let finished = run(&stage, &[], &["true"]).finish();
    finished.assert_complains("1000000");
}

#[test]
fn a_folder_that_cannot_be_written_is_refused() {
    let stage = Stage::ordinary();
    let closed = stage.folder("closed");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o500)).expect("chmod");
    let finished = run(&stage, &[], &["true"])
        .env("XIOFLOW_DOMAIN", closed.join("domain"))
        .finish();
    finished.assert_code(CANNOT_OPEN).assert_complains("closed");
    let finished = run(&stage, &[], &["true"])
        .env("XIOFLOW_DOMAIN", &closed)
        .finish();
    finished.assert_code(CANNOT_OPEN).assert_complains("closed");
}

#[test]
fn a_file_in_the_place_of_the_folder_is_refused() {
    let stage = Stage::new();
    let file = stage.write("file", "", 0o600);
    let finished = run(&stage, &[], &["true"])
        .env("XIOFLOW_DOMAIN", &file)
        .finish();
    finished.assert_code(CANNOT_OPEN).assert_complains("file");
}

/// The file system is mounted in a name space of its own, which ends with the command.
#[test]
fn a_full_file_system_is_refused() {
    if !running_as_root() {
        eprintln!("skipped: needs root, to mount a small file system");
        return;
    }
    let stage = Stage::new();
    let (xioflow, small) = (stage.program("xioflow"), stage.folder("small"));
    let script = "mount -t tmpfs -o size=16k none \"$2\" && head -c 16384 /dev/zero > \"$2/full\"
                  exec \"$1\" --domain \"$2/domain\" run -- echo ran";
    let words = [
        "--mount",
        "sh",
        "-c",
        script,
        "sh",
        text(&xioflow),
        text(&small),
    ];
    let finished = stage.run("/usr/bin/unshare").args(words).finish();
    finished
        .assert_code(CANNOT_OPEN)
        .assert_stdout("")
        .assert_complains("domain");
}

#[test]
fn a_domain_in_use_is_75_and_names_its_owner() {
    each_user(|stage| {
        let (words, ready) = fixture(stage, &["sleep"]);
        let first = run_alone(stage, &[], &words).start();
        stage.wait_ready(&ready);
        let second = run(stage, &[], &["echo", "ran"]).finish();
        second.assert_code(BUSY).assert_stdout("");
        second.assert_complains(&first.pid().to_string());
        first.signal(Signal::INT);
        first.finish().assert_code(130);
        run(stage, &[], &["echo", "ran"])
            .finish()
            .assert_code(0)
            .assert_stdout("ran\n");
    });
}

/// Another program (a backup, a browser of databases) holds a write transaction: that passes, so it is no fault of ours.
#[test]
fn a_database_that_another_program_keeps_locked_is_75_and_nothing_ran() {
    let stage = Stage::new();
    if std::process::Command::new("sqlite3")
        .arg("-version")
        .output()
        .is_err()
    {
        eprintln!("skipped: needs sqlite3");
        return;
    }
    run(&stage, &[], &["true"]).finish().assert_code(0);
    let (input, held) = (stage.path("input"), stage.path("held"));
    mknodat(CWD, &input, FileType::Fifo, Mode::from(0o600), 0).expect("a FIFO");
    let script = format!(
        "exec sqlite3 {}/domain.db < {}",
        stage.domain().display(),
        input.display()
    );
    let locking = stage.run("sh").args(["-c", &script]).start();
    let mut input = fs::File::options()
        .write(true)
        .open(&input)
        .expect("sqlite3 reads");
    let lock = format!(
        "BEGIN IMMEDIATE;\nSELECT writefile('{}', 'x');\n",
        held.display()
    );
    input.write_all(lock.as_bytes()).expect("it reads");
    wait::file(&held, Deadline::usual());

    let trace = stage.path("trace");
    let touch = ["touch", text(&trace)];
    let refused = run(&stage, &["--json"], &touch).finish();
    let document = refused.assert_code(BUSY).json();
    assert_eq!(
        document["error"]["kind"], "journal_busy",
        "through the arbiter"
    );
    refused.assert_complains("another program keeps the database locked");
    assert_eq!(document["error"]["hint"], serde_json::Value::Null);
    stage.xioflow().arg("list").finish().assert_code(0);
    stage.end_arbiters();
    let refused = run_alone(&stage, &["--json"], &touch).finish();
    let document = refused.assert_code(BUSY).json();
    assert_eq!(document["error"]["kind"], "journal_busy", "by itself");
    assert!(!trace.exists());

    drop(input);
    locking.finish().assert_code(0);
    run(&stage, &[], &touch).finish().assert_code(0);
    assert!(trace.exists());
}

#[test]
fn whoever_waits_gets_in_when_the_first_one_ends() {
    let stage = Stage::new();
    let (words, ready) = fixture(&stage, &["sleep"]);
    let first = run_alone(&stage, &[], &words).start();
    stage.wait_ready(&ready);
    let second = run_alone(&stage, &["--wait", "25s"], &["echo", "second"]).start();
    first.signal(Signal::INT);
    first.finish().assert_code(130);
    second.finish().assert_code(0).assert_stdout("second\n");
}

#[test]
fn a_wait_that_is_over_is_75() {
    let stage = Stage::new();
    let (words, ready) = fixture(&stage, &["sleep"]);
    let first = run_alone(&stage, &[], &words).start();
    stage.wait_ready(&ready);
    let second = run(&stage, &["--wait", "300ms"], &["echo", "ran"]).finish();
    second.assert_code(BUSY).assert_stdout("");
    assert!(
        second.elapsed >= std::time::Duration::from_millis(300),
        "{second}"
    );
    first.signal(Signal::INT);
    first.finish().assert_code(130);
}

#[test]
fn many_who_wait_all_get_their_turn() {
    let stage = Stage::new();
    let runs: Vec<_> = (0..6)
        .map(|number| run_alone(&stage, &["--wait", "25s"], &["echo", &number.to_string()]).start())
        .collect();
    for (number, started) in runs.into_iter().enumerate() {
        started
            .finish()
            .assert_code(0)
            .assert_stdout(format!("{number}\n"));
    }
}

#[test]
fn one_name_for_two_operations_is_76() {
    each_user(|stage| {
        run(stage, &["--op", "same"], &["echo", "first"])
            .finish()
            .assert_code(0);
        let trace = stage.path("trace");
        let other = run(stage, &["--op", "same"], &["touch", text(&trace)]).finish();
        other
            .assert_code(CONFLICT)
            .assert_stdout("")
            .assert_complains("same");
        assert!(!trace.exists(), "{other}");
        // The first one is as it was.
        let again = run(stage, &["--op", "same"], &["echo", "first"]).finish();
        again.assert_code(0).assert_stdout("first\n");
    });
}
