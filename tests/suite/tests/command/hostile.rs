//! Operation ids of every kind, and things planted in the folders of a domain: each ends in an answer with a name, and nothing
//! outside of the domain is touched.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;
use serde_json::Value;
use xioflow_kit::{Deadline, Stage, each_user, wait};

use crate::{run, run_alone, shell, text};

/// Prints 108894 bytes, which stay in a file, and a line of its own.
const SCRIPT: &str = "seq 1 20000; echo \"$0\" >&2";

/// Everything below a folder.
fn below(folder: &Path) -> BTreeSet<PathBuf> {
    let mut all = BTreeSet::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() && !path.is_symlink() {
            all.extend(below(&path));
        }
        all.insert(path);
    }
    all
}

/// Ids that mean something to a file system, a terminal, a shell, a pattern or a person.
fn ids() -> Vec<String> {
    let mut ids: Vec<String> = [
        "../../../escape",
        "/etc/passwd",
        "..",
        ".",
        "a/b",
        "~",
        "-rf",
        "--help-me",
        "a b",
        "\n",
        "a\tb",
        "\u{1b}[31mred",
        "\u{7f}",
        "😀",
        "\u{202e}gnp.exe",
        "*",
        "$(touch pwned)",
        "';--",
        "op",
        "OP",
        "é",
        "e\u{301}",
        "con",
        "op-stdout.log",
        "op-stdout.log-stderr.log",
        "%s%n",
        "\\",
        "nul\u{0001}",
    ]
    .map(str::to_owned)
    .into();
    ids.push("x".repeat(4096));
    ids.push("é".repeat(2048));
    ids.push("n".repeat(121));
    ids
}

#[test]
fn every_id_is_an_operation_of_its_own_and_stays_in_the_domain() {
    each_user(|stage| {
        let around = |stage: &Stage| -> BTreeSet<PathBuf> {
            below(stage.root())
                .into_iter()
                .filter(|it| !it.starts_with(stage.domain()))
                .collect()
        };
        run(stage, &[], &["true"]).finish().assert_code(0);
        let before = around(stage);
        let ids = ids();
        for id in &ids {
            let option = format!("--op={id}");
            let command = ["sh", "-c", SCRIPT, id];
            run(stage, &[&option], &command).finish().assert_code(0);
        }
        for id in &ids {
            let option = format!("--op={id}");
            let again = run(stage, &["--json", &option], &["sh", "-c", SCRIPT, id]).finish();
            let result = again.assert_code(0).json();
            assert_eq!(
                (&result["operationId"], &result["replayed"]),
                (&Value::from(id.as_str()), &Value::Bool(true))
            );
            assert_eq!(result["stderr"], format!("{id}\n"), "its own output");
            let words = ["logs", "--tail", "1", "--", id];
            stage
                .xioflow()
                .args(words)
                .finish()
                .assert_code(0)
                .assert_stdout("20000\n");
            let shown = stage.xioflow().args(["show", "--", id]).finish();
            let said = String::from_utf8_lossy(&shown.assert_code(0).stdout).into_owned();
            assert!(!said.contains(['\u{1b}', '\u{7f}', '\t']), "{said:?}");
        }
        assert_eq!(around(stage), before);
        let stored = below(&stage.domain().join("artifacts")).len();
        assert_eq!(stored, ids.len(), "a file for each");
        let pruned = stage
            .xioflow()
            .args(["prune", "--max-bytes", "0", "--json"])
            .finish();
        let pruned = pruned.assert_code(0).json();
        assert_eq!(pruned["removedTotal"]["files"], stored);
        assert_eq!(
            pruned["unknownTotal"]["files"], 0,
            "each was known by its name"
        );
    });
}

#[test]
fn what_is_no_id_is_refused_and_what_is_no_operation_is_not_found() {
    let stage = Stage::new();
    run(&stage, &[], &["true"]).finish().assert_code(0);
    let too_long = "x".repeat(4097);
    for none in ["", &too_long] {
        let refused = run(&stage, &[&format!("--op={none}")], &["touch", "trace"]).finish();
        refused
            .assert_code(64)
            .assert_complains("an operation id has 1 to 4096 bytes");
    }
    let not_text = OsStr::from_bytes(b"a\xff\xfeb");
    let refused = stage
        .xioflow()
        .arg("run")
        .arg("--op")
        .arg(not_text)
        .args(["--", "touch", "trace"])
        .finish();
    refused.assert_code(64).assert_complains("UTF-8");
    for verb in ["show", "logs", "attach", "cancel"] {
        let refused = stage.xioflow().arg(verb).arg(not_text).finish();
        refused.assert_code(64).assert_complains("UTF-8");
        for id in ids() {
            let unknown = stage.xioflow().args([verb, "--", &id]).finish();
            unknown
                .assert_code(1)
                .assert_complains("there is no operation");
            let said = String::from_utf8_lossy(&unknown.stderr).into_owned();
            assert!(!said.contains(['\u{1b}', '\u{7f}', '\t']), "{said:?}");
        }
    }
    assert!(!stage.path("trace").exists());
}

/// What stands under the name that an operation is about to use is somebody's: the command runs, its output passes
/// through, and the result says that it was not stored.
#[test]
fn what_was_planted_under_the_name_of_output_is_not_written_to() {
    each_user(|stage| {
        run(stage, &[], &["true"]).finish().assert_code(0);
        let artifacts = stage.domain().join("artifacts");
        let outside = stage.write("outside", "not ours", 0o600);
        let at = |id: &str| artifacts.join(format!("{id}-stdout.log"));
        symlink(&outside, at("link")).expect("a link");
        symlink(stage.path("not-there"), at("dangling")).expect("a link");
        fs::create_dir(at("folder")).expect("a folder");
        fs::write(at("file"), "somebody's").expect("a file");
        mknodat(CWD, at("fifo"), FileType::Fifo, Mode::from(0o600), 0).expect("a FIFO");
        for id in ["link", "dangling", "folder", "file", "fifo"] {
            let finished = run(stage, &["--op", id], &shell("seq 1 20000")).finish();
            finished
                .assert_code(0)
                .assert_complains("output was not stored");
            finished.assert_complains(&format!("{id}-stdout.log"));
            assert_eq!(finished.stdout.len(), 108_894, "{id}");
            let logs = stage.xioflow().args(["logs", id]).finish();
            logs.assert_code(70).assert_complains("not stored whole");
        }
        assert_eq!(fs::read(&outside).expect("there"), b"not ours");
        assert_eq!(fs::read(at("file")).expect("there"), b"somebody's");
        assert!(!stage.path("not-there").exists());
    });
}

/// A file of the record that was replaced is not read, followed or waited for.
#[test]
fn what_was_put_in_the_place_of_output_is_not_read() {
    each_user(|stage| {
        let secret = stage.write("secret", "secret", 0o600);
        let artifacts = stage.domain().join("artifacts");
        for (id, plant) in [
            ("gone", None),
            ("link", Some("link")),
            ("folder", Some("folder")),
            ("fifo", Some("fifo")),
        ] {
            run(stage, &["--op", id, "--quiet"], &shell("seq 1 20000"))
                .finish()
                .assert_code(0);
            let file = artifacts.join(format!("{id}-stdout.log"));
            fs::remove_file(&file).expect("removed");
            match plant {
                Some("link") => symlink(&secret, &file).expect("a link"),
                Some("folder") => fs::create_dir(&file).expect("a folder"),
                Some(_) => {
                    mknodat(CWD, &file, FileType::Fifo, Mode::from(0o600), 0).expect("a FIFO")
                }
                None => {}
            }
            let logs = stage.xioflow().args(["logs", id]).finish();
            logs.assert_code(70)
                .assert_stdout("")
                .assert_complains(&format!("{id}-stdout.log"));
            let shown = stage.xioflow().args(["show", id, "--json"]).finish();
            let result = &shown.assert_code(0).json()["result"];
            let error = result["stdoutSpillError"].as_str().expect("it is told");
            assert!(error.contains(&format!("{id}-stdout.log")), "{error}");
            assert_eq!(
                (&result["stdout"], &result["stdoutBytes"]),
                (
                    &"\n[... truncated 108894 bytes ...]\n".into(),
                    &108_894.into()
                )
            );
            let again = run(stage, &["--op", id, "--json"], &shell("seq 1 20000")).finish();
            assert_eq!(again.assert_code(0).json()["status"], "succeeded");
        }
    });
}

/// Last words are read where one is needed, and what is none of ours is neither followed nor removed.
#[test]
fn what_was_planted_among_the_last_words_decides_nothing() {
    each_user(|stage| {
        run_alone(stage, &[], &["true"]).finish().assert_code(0);
        let holders = stage.domain().join("holders");
        let outside = stage.write("outside", "not ours", 0o600);
        symlink(&outside, holders.join("stranger")).expect("a link");
        fs::create_dir(holders.join("folder")).expect("a folder");
        mknodat(
            CWD,
            holders.join("fifo"),
            FileType::Fifo,
            Mode::from(0o600),
            0,
        )
        .expect("a FIFO");

        let ready = stage.path("ready");
        let script = format!(": > {}; exec sleep 600", text(&ready));
        let started = run_alone(stage, &["--op", "../lost"], &shell(&script)).start();
        wait::file(&ready, Deadline::usual());
        started.signal(Signal::KILL);
        drop(started.finish());
        run_alone(stage, &["--wait", "20s"], &["true"])
            .finish()
            .assert_code(0);
        let shown = stage.xioflow().args(["show", "../lost", "--json"]).finish();
        let reason = shown.json()["result"]["terminationReason"].clone();
        assert_eq!(reason, "crash_detected", "settled by its own last word");
        for planted in ["stranger", "folder", "fifo"] {
            assert!(
                holders.join(planted).symlink_metadata().is_ok(),
                "{planted}"
            );
        }
        assert_eq!(fs::read(&outside).expect("there"), b"not ours");
        let doctor = stage.xioflow().args(["doctor", "--domain"]).finish();
        let said = String::from_utf8_lossy(&doctor.stdout).into_owned();
        assert!(said.contains("3 that say nothing"), "{said}");
    });
}
