//! `doctor --domain`: what is wrong with a domain is named, with the command that mends it, and nothing changes.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::{Value, json};
use xioflow_kit::{Finished, Stage, each_user};

use crate::{assert_fields, run, run_alone, shell, text};

/// Prints 108894 bytes, which stay in a file.
fn print(stage: &Stage, id: &str) {
    run(stage, &["--op", id, "--quiet"], &shell("seq 1 20000"))
        .finish()
        .assert_code(0);
}

fn artifact(stage: &Stage, id: &str) -> PathBuf {
    stage.domain().join(format!("artifacts/{id}-stdout.log"))
}

fn doctor(stage: &Stage) -> (Finished, Value) {
    let finished = stage
        .xioflow()
        .args(["doctor", "--domain", "--json"])
        .finish();
    let document = finished.json();
    (finished, document)
}

fn check<'a>(document: &'a Value, id: &str) -> &'a Value {
    let checks = document["checks"].as_array().expect("checks");
    let found = checks.iter().find(|check| check["id"] == id);
    found.unwrap_or_else(|| panic!("no check {id} in {document:#}"))
}

fn assert_verdict(document: &Value, id: &str, verdict: &str, detail: &str) {
    let check = check(document, id);
    assert_eq!(check["verdict"], verdict, "{check:#}");
    let said = check["detail"].as_str().expect("a sentence");
    assert!(said.contains(detail), "{said}");
}

#[test]
fn a_domain_that_is_well_is_called_sound_also_beside_its_owner() {
    each_user(|stage| {
        print(stage, "op");
        for owned in [true, false] {
            let (finished, document) = doctor(stage);
            finished.assert_code(0).assert_stderr("");
            assert_eq!(document["ready"], true);
            for check in document["checks"].as_array().expect("checks") {
                let low_on_disk = check["id"] == "free-space" && check["verdict"] == "weaker";
                assert!(check["verdict"] == "ready" || low_on_disk, "{check:#}");
            }
            let owner = if owned {
                "the arbiter, process"
            } else {
                "nobody owns it"
            };
            assert_verdict(&document, "owner", "ready", owner);
            let expected =
                json!({ "files": 1, "bytes": 108_894, "withoutHash": 0, "wrongTotal": 0 });
            assert_fields(&check(&document, "stored-output")["facts"], &expected);
            stage.end_arbiters();
        }
        let domain = stage.domain();
        let people = stage
            .xioflow()
            .args(["doctor", "--domain", text(&domain)])
            .finish();
        let said = String::from_utf8_lossy(&people.assert_code(0).stdout).into_owned();
        assert!(
            said.contains("✓ stored output            ready        1 file, 106.3 KiB"),
            "{said}"
        );
        assert!(said.contains("\nThis domain is sound ("), "{said}");
    });
}

#[test]
fn files_that_differ_from_their_records_are_named() {
    each_user(|stage| {
        for id in ["gone", "short", "altered", "link", "folder", "whole"] {
            print(stage, id);
        }
        stage.end_arbiters();
        fs::remove_file(artifact(stage, "gone")).expect("removed");
        let file = |id| {
            File::options()
                .write(true)
                .open(artifact(stage, id))
                .expect("a file")
        };
        file("short").set_len(1000).expect("cut");
        file("altered").write_all_at(b"X", 50_000).expect("written");
        let outside = stage.write("outside", "x", 0o600);
        fs::remove_file(artifact(stage, "link")).expect("removed");
        symlink(&outside, artifact(stage, "link")).expect("a link");
        fs::remove_file(artifact(stage, "folder")).expect("removed");
        fs::create_dir(artifact(stage, "folder")).expect("a folder");
        fs::write(stage.domain().join("artifacts/notes"), "12345").expect("a stranger's");

        let (finished, document) = doctor(stage);
        finished.assert_code(1);
        assert_verdict(&document, "stored-output", "missing", "5 of 6 files");
        let wrong = &check(&document, "stored-output")["facts"]["wrong"];
        let of = |id: &str| {
            let mut all = wrong.as_array().expect("files").iter();
            all.find(|it| it["operationId"] == id)
                .map(|it| it["problem"].clone())
        };
        let problems = ["gone", "short", "altered", "link", "folder", "whole"].map(of);
        let expected = ["missing", "length", "altered", "unreadable", "unreadable"];
        assert_eq!(problems[..5], expected.map(|it| Some(json!(it))));
        assert_eq!(problems[5], None);
        assert_verdict(
            &document,
            "other-files",
            "weaker",
            "1 that nothing in the record explains (5 bytes): notes",
        );
        assert_verdict(
            &document,
            "other-files",
            "weaker",
            "link-stdout.log is a link",
        );
        assert_eq!(document["ready"], false);
    });
}

#[test]
fn what_an_owner_left_and_what_waits_for_a_decision_come_with_their_commands() {
    let stage = Stage::new();
    let id = "it's $HOME";
    let mut started = run_alone(&stage, &["--op", id], &shell("echo up; exec sleep 600")).start();
    started.wait_for_output(b"up");
    let (finished, document) = doctor(&stage);
    finished.assert_code(0);
    assert_verdict(&document, "unfinished", "ready", "1 runs: it's $HOME");
    started.signal(Signal::KILL);
    drop(started.finish());
    let (_, document) = doctor(&stage);
    assert_verdict(
        &document,
        "unfinished",
        "weaker",
        "1 was left by an owner that is gone",
    );
    let remedy = check(&document, "unfinished")["remedy"]
        .as_str()
        .expect("a command");
    assert_eq!(
        remedy,
        format!("xioflow --domain {} recover", stage.domain().display())
    );
    assert!(stage.wait_empty(xioflow_kit::Deadline::usual()));
}

#[test]
fn rights_of_others_are_told() {
    let stage = Stage::new();
    print(&stage, "op");
    fs::set_permissions(stage.domain(), fs::Permissions::from_mode(0o755)).expect("chmod");
    let (finished, document) = doctor(&stage);
    finished.assert_code(0);
    assert_verdict(
        &document,
        "folder",
        "weaker",
        "has mode 0755: others can look into it",
    );
    let remedy = format!("chmod -R go= {}", stage.domain().display());
    assert_eq!(check(&document, "folder")["remedy"], remedy);
}

/// Each kind of a database that cannot be used is named, by its header alone, and is as it was afterwards.
#[test]
fn a_database_that_cannot_be_read_is_named_and_not_touched() {
    let stage = Stage::new();
    let (_, document) = doctor(&stage);
    assert_verdict(&document, "database", "missing", "there is no domain");
    // Of the domain that was named, wherever somebody stands.
    let begin = format!("xioflow --domain {} run -- true", text(&stage.domain()));
    assert_eq!(check(&document, "folder")["remedy"], begin);
    assert_eq!(check(&document, "database")["remedy"], begin);
    assert!(!stage.domain().exists(), "none was made");

    print(&stage, "op");
    stage.end_arbiters();
    let database = stage.domain().join("domain.db");
    let whole = fs::read(&database).expect("a database");
    let changed = |at: usize, bytes: &[u8]| {
        let mut changed = whole.clone();
        changed[at..at + bytes.len()].copy_from_slice(bytes);
        changed
    };
    for (content, problem) in [
        (
            b"no database at all, but a text of some length".to_vec(),
            "not_sqlite",
        ),
        (changed(68, b"ABCD"), "foreign"),
        (changed(60, &[0, 0, 0, 99]), "newer"),
        (whole[..whole.len() - 4096].to_vec(), "truncated"),
        (changed(16, &[0, 3]), "damaged"),
    ] {
        fs::write(&database, &content).expect("written");
        let (finished, document) = doctor(&stage);
        finished.assert_code(1);
        let check = check(&document, "database");
        assert_eq!(check["facts"]["problem"], problem, "{check:#}");
        let can_be_rescued = !["foreign", "newer"].contains(&problem);
        assert_eq!(check["remedy"].is_string(), can_be_rescued, "{check:#}");
        assert_eq!(document["ready"], false);
        assert!(
            fs::read(&database).expect("there") == content,
            "{problem}: it was changed"
        );
    }
}

/// The header is whole and a page is not: SQLite opens it, and only the check of all of it finds that.
#[test]
fn damage_inside_of_the_database_is_found() {
    let stage = Stage::new();
    for at in 0..20 {
        print(&stage, &format!("op-{at}"));
    }
    stage.end_arbiters();
    let (finished, document) = doctor(&stage);
    finished.assert_code(0);
    assert_verdict(&document, "integrity", "ready", "every page");
    let database = stage.domain().join("domain.db");
    let file = File::options().write(true).open(&database).expect("there");
    let len = file.metadata().expect("its length").len();
    // Page 2 is the first table; what is written is no page of a tree.
    for page in 2..len / 4096 {
        file.write_all_at(&[0xab; 64], page * 4096)
            .expect("written");
    }
    let (finished, document) = doctor(&stage);
    finished.assert_code(1);
    let checks = document["checks"].as_array().expect("checks");
    let broken = |it: &&Value| it["verdict"] == "missing" && it["remedy"].is_string();
    let broken: Vec<&Value> = checks.iter().filter(broken).map(|it| &it["id"]).collect();
    assert!(
        broken.contains(&&json!("integrity")) || broken.contains(&&json!("database")),
        "{document:#}"
    );
}

/// The steps that are given for a damaged database, carried out as they are written.
#[test]
fn the_rescue_of_a_damaged_database_works() {
    let stage = Stage::new();
    if std::process::Command::new("sqlite3")
        .arg("--version")
        .output()
        .is_err()
    {
        eprintln!("skipped: needs sqlite3");
        return;
    }
    for at in 0..20 {
        print(&stage, &format!("op-{at}"));
    }
    stage.end_arbiters();
    let database = stage.domain().join("domain.db");
    let len = fs::metadata(&database).expect("there").len();
    // Cut off behind the header: what is left of the pages can be read.
    File::options()
        .write(true)
        .open(&database)
        .and_then(|it| it.set_len(len - 4096))
        .expect("cut");
    let (_, document) = doctor(&stage);
    let remedy = check(&document, "database")["remedy"]
        .as_str()
        .expect("steps")
        .to_owned();
    let steps: Vec<&str> = remedy.lines().collect();
    let carry_out = |step: &str| {
        stage.run("sh").args(["-c", step]).finish().assert_code(0);
    };
    carry_out(steps[1]);
    let rescued = PathBuf::from(format!("{}.rescued", stage.domain().display()));
    let (recover, dump) = (steps[2], steps[3]);
    assert!(
        recover.contains(".recover") && dump.contains(".dump"),
        "{remedy}"
    );
    carry_out(recover);
    if fs::metadata(rescued.join("domain.db")).is_ok_and(|it| it.len() == 0) {
        carry_out(dump);
    }
    let words = ["doctor", "--domain", text(&rescued), "--json"];
    let document = stage.xioflow().args(words).finish().json();
    assert_verdict(&document, "database", "ready", "20 operations and");
    assert_verdict(&document, "stored-output", "ready", "20 files");
    assert_eq!(
        fs::metadata(&database).expect("there").len(),
        len - 4096,
        "it is as it was"
    );
}
