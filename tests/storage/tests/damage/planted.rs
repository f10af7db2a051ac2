//! Links, pipes and folders at names that are known beforehand.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;
use xioflow_kit::{Deadline, Stage, each_user};

use crate::Damaged;

const THEIRS: &str = "somebody else's";

/// What is put in the place of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Thing {
    Link,
    Pipe,
    Folder,
}

const THINGS: [Thing; 3] = [Thing::Link, Thing::Pipe, Thing::Folder];

/// Puts it there, in the place of what is there.
fn plant(thing: Thing, path: &Path, theirs: &Path) {
    if fs::symlink_metadata(path).is_ok_and(|it| it.is_dir()) {
        fs::remove_dir_all(path).expect("a folder of ours");
    } else if path.symlink_metadata().is_ok() {
        fs::remove_file(path).expect("a file of ours");
    }
    let planted = match thing {
        Thing::Link => symlink(theirs, path),
        Thing::Pipe => mknodat(CWD, path, FileType::Fifo, Mode::from(0o600), 0).map_err(Into::into),
        Thing::Folder => fs::create_dir(path),
    };
    planted.expect("something is planted");
}

/// Kills the supervisor of an operation `a` that runs, and holds a lease.
pub(crate) fn kill_supervisor(stage: &Stage) {
    let run = stage.xioflow().args(["run", "--no-arbiter", "--op", "a"]);
    let script = "echo ready; exec sleep 60";
    let run = run.args(["--lease", "disk", "--", "sh", "-c", script]);
    let mut started = run.start();
    started.wait_for_output(b"ready");
    started.signal(Signal::KILL);
    drop(started.finish());
}

#[test]
fn in_the_place_of_a_file_of_the_domain_each_is_told_and_none_is_followed() {
    each_user(|stage| {
        let theirs = stage.write("theirs", THEIRS, 0o600);
        for name in ["domain.db", "domain.db-wal", "domain.db-shm", "domain.lock"] {
            for thing in THINGS {
                let damaged = Damaged::new(stage, format!("{thing:?} at {name}"));
                plant(thing, &damaged.file(name), &theirs);
                let refused = damaged.each_answers("domain.");
                assert!(!refused.is_empty(), "{}: nobody noticed", damaged.title);
                let now = fs::read_to_string(&theirs).expect("still theirs");
                assert_eq!(now, THEIRS, "{}", damaged.title);
            }
        }
    });
}

/// The names of drafts are known, and what lies there is no draft of ours.
#[test]
fn in_the_place_of_a_draft_each_is_removed_or_refused() {
    each_user(|stage| {
        let theirs = stage.write("theirs", THEIRS, 0o600);
        for thing in THINGS {
            let damaged = Damaged::new(stage, format!("{thing:?} in the place of a draft"));
            fs::remove_file(damaged.file("domain.db")).expect("removed");
            plant(thing, &damaged.file("domain.db.new"), &theirs);
            let opened = damaged.xioflow("run --no-arbiter -- true");
            match thing {
                Thing::Folder => opened.assert_code(73).assert_complains("domain.db.new"),
                Thing::Link | Thing::Pipe => opened.assert_code(0),
            };
            let now = fs::read_to_string(&theirs).expect("still theirs");
            assert_eq!(now, THEIRS, "{}", damaged.title);
        }
    });
}

#[test]
fn in_the_place_of_a_folder_a_link_is_refused() {
    each_user(|stage| {
        let elsewhere = stage.folder("elsewhere");
        for name in ["artifacts", "holders"] {
            let damaged = Damaged::new(stage, format!("{name} is a link"));
            plant(Thing::Link, &damaged.file(name), &elsewhere);
            let refused = damaged.xioflow("run --no-arbiter -- seq 1 30000");
            refused.assert_code(73).assert_complains(name);
            let inside = fs::read_dir(&elsewhere).expect("a folder").count();
            assert_eq!(inside, 0, "{name}");
        }
    });
}

#[test]
fn in_the_place_of_stored_output_each_is_told_and_the_command_is_none_the_worse() {
    each_user(|stage| {
        let theirs = stage.write("theirs", THEIRS, 0o600);
        for thing in THINGS {
            let damaged = Damaged::new(stage, format!("{thing:?} in the place of output"));
            plant(thing, &damaged.file("artifacts/next-stdout.log"), &theirs);
            let next = damaged.xioflow("run --no-arbiter --op next -- seq 1 30000");
            next.assert_code(0).assert_complains("next-stdout.log");
            assert!(
                next.stdout.ends_with(b"30000\n"),
                "it passes through all the same"
            );
            plant(thing, &damaged.file("artifacts/big-stdout.log"), &theirs);
            let logs = damaged.xioflow("logs big");
            logs.assert_code(70)
                .assert_stdout("")
                .assert_complains("big-stdout.log");
            let now = fs::read_to_string(&theirs).expect("still theirs");
            assert_eq!(now, THEIRS, "{}", damaged.title);
        }
    });
}

/// A helper that opens a pipe for writing would wait for its reader for ever.
#[test]
fn in_the_place_of_a_last_word_each_is_replaced_or_told() {
    let stage = Stage::new();
    let theirs = stage.write("theirs", THEIRS, 0o600);
    for (name, thing) in [
        ("a.word.tmp", Thing::Link),
        ("a.word.tmp", Thing::Pipe),
        ("a.word.tmp", Thing::Folder),
        ("a.word", Thing::Link),
        ("a.word", Thing::Pipe),
        ("a.word", Thing::Folder),
    ] {
        let damaged = Damaged::new(&stage, format!("{thing:?} at {name}"));
        plant(thing, &damaged.file("holders").join(name), &theirs);
        kill_supervisor(&stage);
        let gone = stage.wait_empty(Deadline::usual());
        assert!(gone, "{}: a helper waits for somebody", damaged.title);
        damaged.xioflow("run --no-arbiter -- true").assert_code(0);
        let shown = damaged.xioflow("show a --json");
        let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).expect("a document");
        let expected = match thing {
            Thing::Folder => "indeterminate",
            Thing::Link | Thing::Pipe => "failed",
        };
        assert_eq!(shown["outcome"], expected, "{}: {shown}", damaged.title);
        let now = fs::read_to_string(&theirs).expect("still theirs");
        assert_eq!(now, THEIRS, "{}", damaged.title);
    }
}
