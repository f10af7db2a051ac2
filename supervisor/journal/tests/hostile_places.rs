//! Places where a domain cannot live, or only be read: read-only, full, somebody else's. Each
//! needs a child process as another user or in a mount namespace of its own; where the host
//! does not allow that, the test says so.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::print_stdout, reason = "a test that is skipped says why")]

mod support;

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use serde_json::json;
use support::*;
use xioflow_journal::{
    Change, CommitError, Fault, Finish, Journal, OpenError, OpenOptions, Outcome, Output, Query,
    ReadError, Reader, Stream,
};

/// An ordinary user that owns nothing.
const NOBODY: u32 = 65534;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Runs an ignored test of this file after `prepare`, a line of shell, in a mount namespace of
/// its own. `false`, with the reason printed, where namespaces are not to be had.
fn in_namespace(prepare: &str, test: &str, folder: &Path) -> bool {
    let flags = if is_root() { "-m" } else { "-rm" };
    let probe = Command::new("unshare")
        .args([flags, "mount", "-t", "tmpfs", "none", "/mnt"])
        .output();
    match probe {
        Ok(output) if output.status.success() => {}
        other => {
            println!("skipped: no mount namespace to be had here ({other:?})");
            return false;
        }
    }
    let script = format!("{prepare} && shift && exec \"$@\"");
    let mut command = Command::new("unshare");
    command
        .args([flags, "sh", "-ec", &script, "sh"])
        .arg(folder);
    command
        .arg(std::env::current_exe().unwrap())
        .args(child_arguments(test));
    must_pass(command.env("XIOFLOW_TEST_FOLDER", folder));
    true
}

/// Runs an ignored test of this file as an ordinary user, who already owns `folder` if this is
/// root. `false`, with the reason printed, where that user cannot run this program.
fn as_nobody(test: &str, folder: &Path) -> bool {
    let mut command = child(test, folder);
    if is_root() {
        command.uid(NOBODY).gid(NOBODY).current_dir("/");
    }
    let probe = command.arg("--list").output();
    if !probe.as_ref().is_ok_and(|output| output.status.success()) {
        println!("skipped: another user cannot run this test program ({probe:?})");
        return false;
    }
    let mut command = child(test, folder);
    if is_root() {
        command.uid(NOBODY).gid(NOBODY).current_dir("/");
    }
    must_pass(&mut command);
    true
}

fn must_pass(command: &mut Command) {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success() && text(&output.stdout).contains("1 passed"),
        "{command:?}\n{}\n{}",
        text(&output.stdout),
        text(&output.stderr)
    );
}

/// Gives a folder and all in it to the ordinary user, if this is root.
fn give_away(folder: &Path) {
    if !is_root() {
        return;
    }
    let mut todo = vec![folder.to_owned()];
    while let Some(path) = todo.pop() {
        chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
        if path.is_dir() {
            todo.extend(fs::read_dir(&path).unwrap().map(|e| e.unwrap().path()));
        }
    }
}

fn fault(error: &OpenError) -> Option<Fault> {
    match error {
        OpenError::Storage(storage) => Some(storage.fault),
        _ => None,
    }
}

fn names(folder: &Path) -> Vec<OsString> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    names.sort();
    names
}

fn open_here() -> Result<Journal, OpenError> {
    Journal::open(child_folder(), &OpenOptions::default())
}

#[test]
fn a_folder_without_write_permission() {
    let place = Place::new();
    place.open_with_run().close().unwrap();
    fs::set_permissions(
        place.root().parent().unwrap(),
        PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    give_away(&place.root());
    fs::set_permissions(place.root(), PermissionsExt::from_mode(0o500)).unwrap();
    as_nobody("denied_to_an_owner_but_not_to_a_reader", &place.root());
    fs::set_permissions(place.root(), PermissionsExt::from_mode(0o700)).unwrap();
}

#[test]
#[ignore = "a child of a_folder_without_write_permission"]
fn denied_to_an_owner_but_not_to_a_reader() {
    let before = names(&child_folder());
    let error = open_here().unwrap_err();
    assert_eq!(fault(&error), Some(Fault::Denied), "{error:?}");
    let reader = Reader::open(child_folder()).unwrap();
    assert_eq!(reader.run("r").unwrap(), Some(run("r")));
    assert_eq!(names(&child_folder()), before);
}

#[test]
fn a_folder_that_cannot_be_made() {
    let place = Place::new();
    let parent = place.root();
    fs::create_dir(&parent).unwrap();
    fs::set_permissions(parent.parent().unwrap(), PermissionsExt::from_mode(0o755)).unwrap();
    fs::set_permissions(&parent, PermissionsExt::from_mode(0o555)).unwrap();
    as_nobody("denied_the_making", &parent.join("a/b"));
    fs::set_permissions(&parent, PermissionsExt::from_mode(0o755)).unwrap();
}

#[test]
#[ignore = "a child of a_folder_that_cannot_be_made"]
fn denied_the_making() {
    let error = open_here().unwrap_err();
    assert_eq!(fault(&error), Some(Fault::Denied), "{error:?}");
}

#[test]
fn somebody_elses_domain() {
    if !is_root() {
        println!("skipped: only root can give a folder away");
        return;
    }
    let place = Place::new();
    place.open_with_run().close().unwrap();
    give_away(&place.root());
    let before = names(&place.root());
    let error = Journal::open(place.root(), &OpenOptions::default()).unwrap_err();
    assert!(
        matches!(
            error,
            OpenError::WrongOwner {
                owner_uid: NOBODY,
                our_uid: 0,
                ..
            }
        ),
        "{error:?}"
    );
    assert_eq!(names(&place.root()), before);
    // Reading somebody else's is fine, and leaves nothing that they could not open.
    let reader = Reader::open(place.root()).unwrap();
    assert!(reader.run("r").unwrap().is_some());
    for entry in fs::read_dir(place.root()).unwrap() {
        assert_eq!(entry.unwrap().metadata().unwrap().uid(), NOBODY);
    }
}

const READ_ONLY: &str = r#"mount --bind "$1" "$1" && mount -o remount,ro,bind "$1""#;

#[test]
fn a_read_only_file_system() {
    let place = Place::new();
    place.open_with_run().close().unwrap();
    in_namespace(READ_ONLY, "readable_and_not_writable", &place.root());
}

#[test]
#[ignore = "a child of a_read_only_file_system"]
fn readable_and_not_writable() {
    let error = open_here().unwrap_err();
    assert_eq!(fault(&error), Some(Fault::ReadOnly), "{error:?}");
    let reader = Reader::open(child_folder()).unwrap();
    assert_eq!(reader.run("r").unwrap(), Some(run("r")));
}

#[test]
fn a_read_only_file_system_after_a_crash() {
    let place = Place::new();
    crash_in(&place.root());
    in_namespace(READ_ONLY, "readable_with_its_log", &place.root());
}

#[test]
#[ignore = "a child of a_read_only_file_system_after_a_crash"]
fn readable_with_its_log() {
    let reader = Reader::open(child_folder()).unwrap();
    assert_eq!(reader.unfinished().unwrap()[0].id, "o");
}

/// Without the shared-memory file beside the log, SQLite cannot use the log where it cannot
/// write; an answer without the log would be wrong.
#[test]
fn a_log_that_cannot_be_opened() {
    let place = Place::new();
    crash_in(&place.root());
    fs::remove_file(place.root().join("domain.db-shm")).unwrap();
    in_namespace(READ_ONLY, "unreadable_without_its_log", &place.root());
}

#[test]
#[ignore = "a child of a_log_that_cannot_be_opened"]
fn unreadable_without_its_log() {
    let error = Reader::open(child_folder()).unwrap_err();
    assert!(
        matches!(&error, ReadError::LogUnreadable { path, .. } if path.ends_with("domain.db-wal")),
        "{error:?}"
    );
}

fn crash_in(folder: &Path) {
    kill_at("committed", "commit_until_killed", folder);
    assert!(in_log(folder));
}

fn in_log(folder: &Path) -> bool {
    fs::metadata(folder.join("domain.db-wal")).is_ok_and(|m| m.len() > 0)
}

#[test]
#[ignore = "a child of the tests of crashes"]
fn commit_until_killed() {
    let journal = open_here().unwrap();
    journal.commit(begin("r")).unwrap();
    journal
        .commit(vec![register("o", &["x"]), activate("o")])
        .unwrap();
    println!("committed");
    listen();
}

const SMALL: &str = r#"mkdir -p "$1" && mount -t tmpfs -o size=2m tmpfs "$1""#;

#[test]
fn a_full_disk_while_committing() {
    let place = Place::new();
    in_namespace(SMALL, "full_while_committing", &place.root());
}

/// An operation whose output takes 64 KiB in the database.
fn bulky(id: &str) -> Vec<Change> {
    let output = Output {
        stream: Stream::Stdout,
        total_bytes: 65536,
        lines: Some(1),
        sha256: None,
        artifact: None,
        content: Some(vec![7; 65536]),
        gap: None,
        spill_error: None,
        pruned_at_ms: None,
    };
    let finish = Finish {
        operation_id: id.into(),
        outcome: Outcome::Succeeded,
        result: json!({}),
        outputs: vec![output],
        release_resources: true,
    };
    vec![register(id, &[]), Change::FinishOperation(Box::new(finish))]
}

#[test]
#[ignore = "a child of a_full_disk_while_committing"]
fn full_while_committing() {
    let filler = child_folder().join("filler");
    fs::write(&filler, vec![0; 1280 * 1024]).unwrap();
    let journal = open_here().unwrap();
    journal.commit(begin("r")).unwrap();
    let mut kept = 0;
    let error = loop {
        match journal.commit(bulky(&format!("o{kept}"))) {
            Ok(_) => kept += 1,
            Err(error) => break error,
        }
        assert!(kept < 100, "the disk never filled up");
    };
    assert!(
        matches!(&error, CommitError::Storage(e) if e.fault == Fault::Full),
        "{error:?}"
    );
    assert!(error.to_string().contains("no space is left"), "{error}");
    assert!(kept > 0);
    let count = || journal.operations(&Default::default()).unwrap().len();
    assert_eq!(count(), kept, "what failed is not there, what succeeded is");
    journal.verify_ownership().unwrap();

    fs::remove_file(&filler).unwrap();
    journal.commit(bulky("after")).unwrap();
    assert_eq!(count(), kept + 1);
    journal.close().unwrap();
    assert_eq!(
        open_here().unwrap().last_seq().unwrap(),
        2 * i64::try_from(kept + 1).unwrap()
    );
}

#[test]
fn a_full_disk_while_opening() {
    let place = Place::new();
    in_namespace(SMALL, "full_while_opening", &place.root());
}

#[test]
#[ignore = "a child of a_full_disk_while_opening"]
fn full_while_opening() {
    let folder = child_folder();
    fill(&folder.join("filler"));
    let error = open_here().unwrap_err();
    assert_eq!(fault(&error), Some(Fault::Full), "{error:?}");
    assert_eq!(
        names(&folder),
        ["filler"],
        "a failed opening has left something"
    );
    fs::remove_file(folder.join("filler")).unwrap();
    let epoch = open_here().unwrap().claim().epoch;
    assert_eq!(epoch, 1);

    // Once more, with a domain in place.
    fill(&folder.join("filler"));
    let before = (bytes_of(&folder.join("domain.db")), names(&folder));
    let error = open_here().unwrap_err();
    assert_eq!(fault(&error), Some(Fault::Full), "{error:?}");
    assert_eq!(bytes_of(&folder.join("domain.db")), before.0);
    fs::remove_file(folder.join("filler")).unwrap();
    assert_eq!(open_here().unwrap().claim().epoch, 2);
}

/// Writes until nothing more fits.
fn fill(path: &Path) {
    let mut file = File::create(path).unwrap();
    loop {
        match file.write(&[0; 4096]) {
            Ok(_) => {}
            Err(e) if e.kind() == ErrorKind::StorageFull => return,
            Err(e) => panic!("{e}"),
        }
    }
}

/// A limit on file sizes makes writes fail with EFBIG, which SQLite calls an I/O error.
#[test]
fn a_failing_write_while_committing() {
    let place = Place::new();
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' XFSZ; ulimit -f 2048; exec \"$@\"", "sh"]);
    command.arg(std::env::current_exe().unwrap());
    command.args(child_arguments("broken_by_a_failing_write"));
    must_pass(command.env("XIOFLOW_TEST_FOLDER", place.root()));

    let journal = place.open();
    let kept: usize = fs::read_to_string(place.root().join("kept"))
        .unwrap()
        .parse()
        .unwrap();
    let found = journal.operations(&Default::default()).unwrap().len();
    // The commit that broke it may be there or not: that is what the error says.
    assert!(
        found == kept || found == kept + 1,
        "{kept} commits were confirmed, {found} are there"
    );
    journal.commit(bulky("after")).unwrap();
}

#[test]
#[ignore = "a child of a_failing_write_while_committing"]
fn broken_by_a_failing_write() {
    let journal = open_here().unwrap();
    journal.commit(begin("r")).unwrap();
    let mut kept = 0;
    let error = loop {
        match journal.commit(bulky(&format!("o{kept}"))) {
            Ok(_) => kept += 1,
            Err(error) => break error,
        }
        assert!(kept < 100, "the limit was never reached");
    };
    assert!(
        matches!(&error, CommitError::Broken(e) if e.fault == Fault::Device),
        "{error:?}"
    );
    let again = journal.commit(vec![register("small", &[])]).unwrap_err();
    assert!(matches!(again, CommitError::Broken(_)), "{again:?}");
    fs::write(child_folder().join("kept"), kept.to_string()).unwrap();
}
