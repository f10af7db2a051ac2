//! File systems whose locks do not work, as real system calls show them: strace answers fcntl(2) and
//! statfs(2) in their place. Without it these tests are skipped.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::fs;

use support::*;
use xioflow_journal::{Fault, Journal, OpenError, OpenOptions, OwnerState, Reader};

#[test]
#[ignore = "a child of the tests of locks"]
fn open_and_say() {
    match Journal::open(child_folder(), &OpenOptions::default()) {
        Ok(_) => println!("opened"),
        Err(OpenError::Storage(e)) => {
            println!(
                "{:?}: {e}: {}",
                e.fault,
                std::error::Error::source(&e).unwrap()
            );
        }
        Err(other) => println!("{other}"),
    }
}

/// What opening says where these calls on the lock file or the folder are answered by strace.
fn with_injected(inject: &str, name: &str, place: &Place) -> Option<String> {
    let path = place.root().join(name).display().to_string();
    let options = ["-e", inject, "-P", &path];
    let output = traced(&options, "open_and_say", &place.root())?;
    assert!(output.status.success(), "{output:?}");
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn a_file_system_that_grants_no_lock_is_refused() {
    for errno in ["ENOLCK", "ENOSYS", "EOPNOTSUPP", "EINVAL"] {
        let place = Place::new();
        // The folder is there, so that strace knows the file.
        drop(place.open());
        let inject = format!("inject=fcntl:error={errno}");
        let Some(said) = with_injected(&inject, "domain.lock", &place) else {
            return;
        };
        let fault = format!("{:?}: lock ", Fault::NoLocks);
        assert!(
            said.contains(&fault) && said.contains("XIOFLOW_DOMAIN"),
            "{errno}: {said}"
        );
        assert!(!said.contains("opened"));
    }
}

#[test]
fn a_file_system_that_grants_every_lock_is_refused() {
    let place = Place::new();
    let owner = place.open();
    let inject = "inject=fcntl:retval=0";
    let Some(said) = with_injected(inject, "domain.lock", &place) else {
        return;
    };
    assert!(
        said.contains("NoLocks") && said.contains("granted twice"),
        "{said}"
    );
    owner.commit(begin("r")).unwrap();
}

/// A refused opening leaves a folder as it was.
#[test]
fn a_place_without_locks_is_left_as_it_was() {
    let place = Place::new();
    fs::create_dir(place.root()).unwrap();
    let path = place.root().join("domain.lock").display().to_string();
    let options = ["-e", "inject=fcntl:error=ENOLCK", "-P", &path];
    let Some(output) = traced(&options, "open_and_say", &place.root()) else {
        return;
    };
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("NoLocks"),
        "{output:?}"
    );
    assert_eq!(fs::read_dir(place.root()).unwrap().count(), 0);
}

/// The answer of statfs(2) is changed on its way back: its first field is the type.
#[test]
fn a_folder_that_several_hosts_can_have_mounted_is_refused_by_name() {
    let place = Place::new();
    fs::create_dir(place.root()).unwrap();
    let nfs = "inject=statfs:poke_exit=@arg2=6969000000000000";
    let path = place.root().display().to_string();
    let Some(output) = traced(&["-e", nfs, "-P", &path], "open_and_say", &place.root()) else {
        return;
    };
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        said.contains(" is on NFS, ") && said.contains("--domain DIR"),
        "{said}"
    );
    assert_eq!(fs::read_dir(place.root()).unwrap().count(), 0);
}

/// A reader cannot tell then, and reads all the same.
#[test]
fn a_reader_cannot_tell_who_owns_a_domain_without_locks() {
    let place = Place::new();
    drop(place.open());
    let path = place.root().join("domain.lock").display().to_string();
    let options = ["-e", "inject=fcntl:error=ENOLCK", "-P", &path];
    let Some(output) = traced(&options, "ask_for_the_owner", &place.root()) else {
        return;
    };
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        said.contains("cannot tell: cannot ask about the lock"),
        "{said}"
    );
}

#[test]
#[ignore = "a child of a_reader_cannot_tell_who_owns_a_domain_without_locks"]
fn ask_for_the_owner() {
    match Reader::open(child_folder()).unwrap().owner_state() {
        OwnerState::CannotTell { why } => println!("cannot tell: {why}"),
        other => println!("{other:?}"),
    }
}
