//! Reading beside an owner, after it, and after its death: right answers, and not one byte of
//! the database changed.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::fs;
use std::thread;
use std::time::Duration;

use support::*;
use xioflow_journal::{OperationStatus, Outcome, OwnerState, Query, Reader, RunStatus};

const LONG: Duration = Duration::from_secs(60);

/// Asks every question once.
fn ask_everything(reader: &Reader) {
    reader
        .operations(&xioflow_journal::OperationFilter::default())
        .unwrap();
    reader.unfinished().unwrap();
    reader.outputs("o").unwrap();
    reader.runs(None).unwrap();
    reader.task("t").unwrap();
    reader.events(0, None, None).unwrap();
    reader.leases().unwrap();
    reader.owner().unwrap();
}

#[test]
fn a_reader_beside_an_owner_sees_each_commit_and_changes_nothing() {
    let place = Place::new();
    let journal = place.open_with_run();
    let (database, log) = (journal.dir().database(), journal.dir().log());
    let reader = Reader::open(place.root()).unwrap();
    let before = (bytes_of(&database), bytes_of(&log));
    ask_everything(&reader);
    drop(Reader::open(place.root()).unwrap());
    assert_eq!((bytes_of(&database), bytes_of(&log)), before);

    journal
        .commit(vec![register("o", &[]), activate("o")])
        .unwrap();
    assert_eq!(
        reader.operation("o").unwrap().unwrap().status,
        OperationStatus::Active
    );
    journal
        .commit(vec![finish("o", Outcome::Succeeded)])
        .unwrap();
    assert_eq!(
        reader.operation("o").unwrap().unwrap().status,
        OperationStatus::Done
    );
    journal.verify_ownership().unwrap();
}

/// Closing any descriptor of the database drops the owner's locks on it, if both are in one
/// process. Another process could then remove the log under the owner; recent versions of SQLite
/// look twice before they do, so the lock itself is asked for.
#[test]
fn a_reader_in_the_owners_process_does_not_cost_it_its_locks() {
    let place = Place::new();
    let journal = place.open_with_run();
    drop(Reader::open(place.root()).unwrap());
    xioflow_journal::Journal::open(place.root(), &Default::default()).unwrap_err();
    let child = child("the_database_is_locked", &place.root())
        .output()
        .unwrap();
    assert!(child.status.success(), "{child:?}");
    journal.close().unwrap();
}

#[test]
#[ignore = "a child of a_reader_in_the_owners_process_does_not_cost_it_its_locks"]
fn the_database_is_locked() {
    use nix::fcntl::{FcntlArg, fcntl};
    use nix::libc;
    // Where SQLite locks a database for sharing: 510 bytes after two others at 1 GiB.
    let (l_start, l_len) = (0x4000_0002, 510);
    let (l_type, l_whence) = (
        i16::try_from(libc::F_WRLCK).unwrap(),
        i16::try_from(libc::SEEK_SET).unwrap(),
    );
    let mut question = libc::flock {
        l_type,
        l_whence,
        l_start,
        l_len,
        l_pid: 0,
    };
    let database = fs::File::open(child_folder().join("domain.db")).unwrap();
    fcntl(&database, FcntlArg::F_GETLK(&mut question)).unwrap();
    assert_eq!(
        i32::from(question.l_type),
        libc::F_RDLCK,
        "the owner has lost its lock"
    );
    assert_ne!(question.l_pid, 0);
}

#[test]
fn a_reader_after_a_clean_close_changes_nothing() {
    let place = Place::new();
    let journal = place.open_with_run();
    let database = journal.dir().database();
    journal.close().unwrap();
    let before = bytes_of(&database);
    let reader = Reader::open(place.root()).unwrap();
    ask_everything(&reader);
    assert_eq!(reader.run("r").unwrap(), Some(run("r")));
    drop(reader);
    assert_eq!(bytes_of(&database), before);
}

#[test]
fn a_reader_after_a_crash_sees_the_log_and_leaves_it() {
    let place = Place::new();
    let mut child = child("commit_until_killed", &place.root())
        .stdin_stdout()
        .spawn()
        .unwrap();
    let mut talk = Talk::with(&mut child);
    talk.expect("committed");
    let held = Reader::open(place.root()).unwrap().owner_state();
    assert!(
        matches!(&held, OwnerState::Held { note: Some(note) } if note.owner_pid == child.id()),
        "{held:?}"
    );
    child.kill().unwrap();
    child.wait().unwrap();

    let (database, log) = (
        place.root().join("domain.db"),
        place.root().join("domain.db-wal"),
    );
    let before = (bytes_of(&database), bytes_of(&log));
    assert!(!before.1.is_empty());
    let reader = Reader::open(place.root()).unwrap();
    ask_everything(&reader);
    assert_eq!(reader.unfinished().unwrap()[0].id, "o");
    assert_eq!(reader.owner_state(), OwnerState::Free);
    assert_eq!(reader.owner().unwrap().unwrap().released_at_ms, None);
    drop(reader);
    assert_eq!((bytes_of(&database), bytes_of(&log)), before);
}

#[test]
#[ignore = "a child of a_reader_after_a_crash_sees_the_log_and_leaves_it"]
fn commit_until_killed() {
    let journal = xioflow_journal::Journal::open(child_folder(), &Default::default()).unwrap();
    journal.commit(begin("r")).unwrap();
    journal
        .commit(vec![register("o", &["x"]), activate("o")])
        .unwrap();
    println!("committed");
    listen();
}

#[test]
fn a_reader_outlives_owners() {
    let place = Place::new();
    let journal = place.open_with_run();
    let reader = Reader::open(place.root()).unwrap();
    journal.close().unwrap();
    assert!(reader.run("r").unwrap().is_some());
    let next = place.open();
    next.commit(vec![end_run("r", RunStatus::Failed)]).unwrap();
    assert_eq!(reader.run("r").unwrap().unwrap().status, RunStatus::Failed);
}

#[test]
fn a_follower_is_woken_by_each_commit() {
    let place = Place::new();
    let journal = place.open_with_run();
    let reader = Reader::open(place.root()).unwrap();
    assert_eq!(
        reader.changed_since(0, Duration::from_millis(1)).unwrap(),
        None
    );
    thread::scope(|scope| {
        let follower = scope.spawn(|| {
            let mut seen = Vec::new();
            while seen.last() != Some(&50) {
                let after = seen.last().copied().unwrap_or(0);
                seen.push(
                    reader
                        .changed_since(after, LONG)
                        .unwrap()
                        .expect("a commit goes unnoticed"),
                );
            }
            seen
        });
        for n in 0..50 {
            journal
                .commit(vec![register(&format!("o{n}"), &[])])
                .unwrap();
        }
        assert!(follower.join().unwrap().is_sorted());
    });
    assert_eq!(
        reader.changed_since(49, Duration::ZERO).unwrap(),
        Some(50),
        "what is there needs no waiting"
    );
}

#[test]
fn a_follower_is_not_woken_by_what_has_no_event_and_sees_a_new_owner() {
    let place = Place::new();
    let journal = place.open_with_run();
    let reader = Reader::open(place.root()).unwrap();
    journal
        .commit(vec![xioflow_journal::Change::SaveTask(task())])
        .unwrap();
    assert_eq!(
        reader.changed_since(0, Duration::from_millis(20)).unwrap(),
        None
    );
    thread::scope(|scope| {
        let follower = scope.spawn(|| reader.changed_since(0, LONG).unwrap());
        journal.close().unwrap();
        let next = place.open();
        next.commit(vec![register("o", &[])]).unwrap();
        assert_eq!(follower.join().unwrap(), Some(1));
    });
}

#[test]
fn the_owners_folder_has_its_parts_with_private_modes() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let child = child("open_under_a_hostile_umask", &place.root())
        .output()
        .unwrap();
    assert!(child.status.success(), "{child:?}");
    let mode = |name: &str| {
        fs::metadata(place.root().join(name))
            .unwrap()
            .permissions()
            .mode()
            & 0o7777
    };
    for folder in ["", "artifacts", "holders"] {
        assert_eq!(mode(folder), 0o700, "{folder}");
    }
    for file in ["domain.db", "domain.lock", ".gitignore"] {
        assert_eq!(mode(file), 0o600, "{file}");
    }
    assert_eq!(fs::read(place.root().join(".gitignore")).unwrap(), b"*\n");
    // Opening again is no different.
    drop(place.open());
    assert_eq!(mode("domain.db"), 0o600);
}

#[test]
#[ignore = "a child of the_owners_folder_has_its_parts_with_private_modes"]
fn open_under_a_hostile_umask() {
    use std::os::unix::fs::PermissionsExt;
    let place = child_folder();
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o777));
    let journal = xioflow_journal::Journal::open(&place, &Default::default()).unwrap();
    journal.commit(begin("r")).unwrap();
    for file in ["domain.db-wal", "domain.db-shm"] {
        assert_eq!(
            fs::metadata(place.join(file)).unwrap().permissions().mode() & 0o7777,
            0o600,
            "{file}"
        );
    }
    journal.close().unwrap();
}

#[test]
fn a_folder_with_other_things_in_it_is_not_hidden_from_git() {
    let place = Place::new();
    fs::create_dir(place.root()).unwrap();
    fs::write(place.root().join("README"), b"mine").unwrap();
    drop(place.open());
    assert!(!place.root().join(".gitignore").exists());
}

#[test]
fn many_openings_at_once_make_one_domain() {
    let place = Place::new();
    let mut epochs = thread::scope(|scope| {
        let open = || {
            let options = xioflow_journal::OpenOptions {
                wait: LONG,
                ..Default::default()
            };
            xioflow_journal::Journal::open(place.root(), &options)
                .unwrap()
                .claim()
                .epoch
        };
        let all: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
        all.into_iter()
            .map(|one| one.join().unwrap())
            .collect::<Vec<_>>()
    });
    epochs.sort_unstable();
    assert_eq!(epochs, (1..=8).collect::<Vec<_>>());
}
