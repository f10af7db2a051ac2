//! A leaf from its making to its removal.

use std::fs;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::FdFlags;
use xioflow_cgroup::{Answer, Changes, Events, GroupError, Limits, Removed};

use crate::support::{Inmate, LONG, Place};

/// Waits for news, and reads them.
fn news(events: &mut Events) -> Changes {
    let long = Timespec::try_from(LONG).expect("it fits");
    let mut fds = [PollFd::new(&*events, PollFlags::IN)];
    assert_eq!(
        rustix::event::poll(&mut fds, Some(&long)),
        Ok(1),
        "nothing was told"
    );
    events.read().expect("what changed can be read")
}

#[test]
fn it_is_empty_then_full_then_empty_and_each_is_told() {
    let Some(place) = Place::new() else { return };
    let leaf = place.leaf();
    let mut events = leaf.events().expect("a leaf can be watched");
    let first = events
        .read()
        .expect("a look")
        .group
        .expect("the first look gives all");
    assert!(!first.populated);
    assert_eq!(events.read().expect("a look"), Changes::default());
    assert_eq!(leaf.populated(), Answer::No);

    let mut inmate = Inmate::idle(&leaf.place().directory);
    assert_eq!(
        news(&mut events).group.map(|group| group.populated),
        Some(true)
    );
    assert_eq!(leaf.populated(), Answer::Yes);
    assert_eq!(leaf.processes().expect("a list"), [inmate.pid()]);

    leaf.kill().expect("it is ended");
    assert!(leaf.wait_empty(LONG).expect("its state"));
    assert!(!inmate.wait());
    assert_eq!(
        news(&mut events).group.map(|group| group.populated),
        Some(false)
    );

    let removed = leaf.remove().expect("it is empty");
    assert_eq!(
        removed,
        Removed {
            was_there: true,
            nested: 0
        }
    );
    assert!(news(&mut events).gone);
}

#[test]
fn a_full_leaf_is_waited_for_no_longer_than_asked_and_is_not_removed() {
    let Some(place) = Place::new() else { return };
    let leaf = place.leaf();
    let mut inmate = Inmate::idle(&leaf.place().directory);
    assert!(!leaf.wait_empty(Duration::ZERO).expect("its state"));
    assert!(
        !leaf
            .wait_empty(Duration::from_millis(20))
            .expect("its state")
    );
    let refused = leaf.remove().expect_err("somebody is in it");
    assert!(
        refused.to_string().contains("still holds a process"),
        "{refused}"
    );
    assert!(inmate.is_alive());
}

#[test]
fn the_frozen_stand_still_until_they_are_thawed_and_can_be_killed() {
    let Some(place) = Place::new() else { return };
    let leaf = place.leaf();
    let mut inmate = Inmate::run(&leaf.place().directory, "while :; do :; done");
    leaf.freeze(true).expect("it freezes");
    assert!(leaf.wait_frozen(true, LONG).expect("its state"));
    assert_eq!(leaf.is_frozen(), Answer::Yes);
    let used = leaf
        .usage()
        .cpu_user_us
        .expect("cpu.stat needs no controller");
    assert_eq!(leaf.usage().cpu_user_us, Some(used), "it stands still");

    leaf.freeze(false).expect("it thaws");
    assert!(leaf.wait_frozen(false, LONG).expect("its state"));
    leaf.freeze(true).expect("it freezes");
    leaf.kill().expect("it is ended");
    assert!(leaf.wait_empty(LONG).expect("its state"));
    assert!(!inmate.wait());
}

#[test]
fn a_leaf_that_is_gone_has_nobody_and_takes_no_harm() {
    let Some(place) = Place::new() else { return };
    let leaf = place.leaf();
    fs::remove_dir(&leaf.place().directory).expect("somebody removes it");
    assert_eq!(leaf.populated(), Answer::No);
    assert!(leaf.processes().expect("nobody").is_empty());
    leaf.kill().expect("there is nobody to end");
    assert!(leaf.wait_empty(Duration::ZERO).expect("its state"));
    assert!(leaf.wait_frozen(true, Duration::ZERO).expect("its state"));
    assert!(!leaf.remove().expect("nothing is left to do").was_there);
    assert_eq!(leaf.usage(), xioflow_cgroup::Usage::default());
    assert!(leaf.freeze(true).is_err(), "what is gone cannot be frozen");
}

#[test]
fn its_descriptor_is_a_directory_that_no_program_inherits() {
    let Some(place) = Place::new() else { return };
    let leaf = place.leaf();
    let flags = rustix::io::fcntl_getfd(leaf.directory_fd()).expect("an open descriptor");
    assert!(flags.contains(FdFlags::CLOEXEC));
    let stat = rustix::fs::fstat(leaf.directory_fd()).expect("an open descriptor");
    assert_eq!(stat.st_ino, leaf.place().id);
    let events = leaf.events().expect("a leaf can be watched");
    let flags = rustix::io::fcntl_getfd(&events).expect("an open descriptor");
    assert!(flags.contains(FdFlags::CLOEXEC));
}

#[test]
fn without_the_controller_a_limit_is_refused_and_leaves_no_leaf() {
    let Some(place) = Place::new() else { return };
    let domain = place.domain();
    let limits = Limits {
        pids_max: Some(16),
        ..Limits::default()
    };
    // Nothing was prepared, so the domain's group has no controller wherever this runs.
    let refused = domain.leaf(&limits).expect_err("nothing was handed down");
    assert!(
        matches!(refused, GroupError::NotHandedDown { .. }),
        "{refused:?}"
    );
    assert_eq!(domain.leaves().expect("a list").count(), 0);
}

#[test]
fn what_cannot_be_meant_is_refused_before_anything_is_made() {
    let Some(place) = Place::new() else { return };
    let domain = place.domain();
    let limits = Limits {
        memory_max_bytes: Some(0),
        ..Limits::default()
    };
    let refused = domain.leaf(&limits).expect_err("nothing could run");
    assert!(matches!(refused, GroupError::Limit(_)), "{refused:?}");
    assert_eq!(domain.leaves().expect("a list").count(), 0);
}
