//! Groups that a command makes inside its leaf: deep, wide, badly named, threaded, made meanwhile.

use std::ffi::OsStr;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

use rustix::fs::{CWD, Mode, OFlags};
use xioflow_cgroup::{Leaf, RemoveError};

use crate::support::{Inmate, LONG, Place};

/// Takes away what a leaf sets against too many groups, as a command of the same user can.
fn lift_guards(leaf: &Leaf) {
    for file in ["cgroup.max.descendants", "cgroup.max.depth"] {
        fs::write(leaf.place().directory.join(file), "max").expect("the owner may lift it");
    }
}

/// A chain of groups, each in the one before.
fn chain(leaf: &Leaf, depth: u32) {
    let open = |at: &OwnedFd| {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::openat(at, "deep", flags, Mode::empty()).expect("it was just made")
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut at = rustix::fs::openat(CWD, &leaf.place().directory, flags, Mode::empty())
        .expect("the leaf is there");
    for _ in 0..depth {
        rustix::fs::mkdirat(&at, "deep", Mode::RWXU).expect("a group in a group");
        at = open(&at);
    }
}

#[test]
fn a_deep_chain_goes_with_its_leaf() {
    let Some(place) = Place::new() else { return };
    let leaf = place.leaf();
    lift_guards(&leaf);
    // Deeper than any path can name, and than a process usually may have descriptors.
    chain(&leaf, 1100);
    assert!(leaf.processes().expect("nobody is in it").is_empty());
    assert_eq!(leaf.remove().expect("it is empty").nested, 1100);
    assert!(!leaf.place().directory.exists());
}

#[test]
fn a_wide_one_goes_with_its_leaf() {
    let Some(place) = Place::new() else { return };
    let leaf = place.leaf();
    for number in 0..500 {
        let group = leaf.place().directory.join(format!("{number}/inner"));
        fs::create_dir_all(group).expect("groups in a leaf");
    }
    assert_eq!(leaf.remove().expect("it is empty").nested, 1000);
}

#[test]
fn names_are_bytes() {
    let Some(place) = Place::new() else { return };
    let leaf = place.leaf();
    let long = "x".repeat(255);
    let names: [&[u8]; 7] = [
        b"-rf",
        b"a b\tc",
        b"\xff\xfe",
        b"...",
        b"*",
        b"xioflow-host",
        long.as_bytes(),
    ];
    for name in names {
        let group = leaf.place().directory.join(OsStr::from_bytes(name));
        fs::create_dir_all(group.join("inner")).expect("the kernel takes all but newlines");
    }
    assert_eq!(leaf.remove().expect("it is empty").nested, 14);
}

#[test]
fn more_than_the_guard_allows_cannot_be_made() {
    let Some(place) = Place::new() else { return };
    let leaf = place.leaf();
    let deepest = (0..65).fold(leaf.place().directory.clone(), |path, _| path.join("d"));
    let refused = fs::create_dir_all(deepest).expect_err("64 levels and no more");
    assert_eq!(
        refused.raw_os_error(),
        Some(rustix::io::Errno::AGAIN.raw_os_error())
    );
    assert_eq!(leaf.remove().expect("it is empty").nested, 64);
}

#[test]
fn who_hides_in_a_nested_group_is_listed_and_ended() {
    let Some(place) = Place::new() else { return };
    let leaf = place.leaf();
    let hiding = leaf.place().directory.join("a/b/c");
    fs::create_dir_all(&hiding).expect("groups in a leaf");
    let mut outer = Inmate::idle(&leaf.place().directory);
    let mut inner = Inmate::idle(&hiding);
    let mut both = [outer.pid(), inner.pid()];
    both.sort_unstable();
    assert_eq!(leaf.processes().expect("a list"), both);

    leaf.kill().expect("all are ended");
    assert!(leaf.wait_empty(LONG).expect("its state"));
    assert!(!outer.wait() && !inner.wait());
    assert_eq!(leaf.remove().expect("it is empty").nested, 3);
}

#[test]
fn a_nested_group_with_a_process_keeps_the_leaf() {
    let Some(place) = Place::new() else { return };
    let leaf = place.leaf();
    let hiding = leaf.place().directory.join("full");
    fs::create_dir_all(&hiding).expect("a group in a leaf");
    let mut inmate = Inmate::idle(&hiding);
    let refused = leaf.remove().expect_err("somebody is in it");
    assert!(
        matches!(refused, RemoveError::Populated { .. }),
        "{refused:?}"
    );
    assert!(inmate.is_alive());
    assert!(hiding.is_dir());
}

#[test]
fn a_threaded_subtree_is_ended_and_removed() {
    let Some(place) = Place::new() else { return };
    let leaf = place.leaf();
    let directory = &leaf.place().directory;
    let threads = directory.join("threads");
    fs::create_dir(&threads).expect("a group in a leaf");
    let mut inmate = Inmate::idle(directory);
    fs::write(threads.join("cgroup.type"), "threaded").expect("a leaf can be its domain");
    fs::write(threads.join("cgroup.threads"), inmate.pid().to_string()).expect("it takes a thread");
    let unreadable = fs::read(threads.join("cgroup.procs")).expect_err("threads, not processes");
    let unsupported = rustix::io::Errno::OPNOTSUPP.raw_os_error();
    assert_eq!(unreadable.raw_os_error(), Some(unsupported));

    assert_eq!(leaf.processes().expect("a list"), [inmate.pid()]);
    leaf.kill().expect("all are ended");
    assert!(leaf.wait_empty(LONG).expect("its state"));
    assert!(!inmate.wait());
    assert_eq!(leaf.remove().expect("it is empty").nested, 1);
}

#[test]
fn groups_that_are_made_meanwhile_do_not_keep_the_leaf() {
    let Some(place) = Place::new() else { return };
    let leaf = place.leaf();
    lift_guards(&leaf);
    let make = |number: u32| {
        for count in 0..300 {
            let group = leaf.place().directory.join(format!("{number}-{count}"));
            let made = fs::create_dir(&group).and_then(|()| fs::create_dir(group.join("inner")));
            // Once the leaf is gone there is nothing to make them in.
            if made.is_err() && !leaf.place().directory.exists() {
                break;
            }
        }
    };
    // Something to begin with, so that the first try cannot be the last.
    fs::create_dir_all(leaf.place().directory.join("first/inner")).expect("groups in a leaf");
    std::thread::scope(|scope| {
        scope.spawn(|| make(0));
        scope.spawn(|| make(1));
        leaf.remove().expect("nobody lives in it");
    });
    assert!(!leaf.place().directory.exists());
}

/// Unmounts when dropped.
struct Mounted<'a>(&'a Path);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let status = Command::new("umount").arg(self.0).status();
        assert!(
            status.is_ok_and(|status| status.success()),
            "it was mounted"
        );
    }
}

#[test]
fn what_is_mounted_in_a_leaf_is_not_entered() {
    let Some(place) = Place::new() else { return };
    let leaf = place.leaf();
    let (outside, inside) = (
        place.directory().join("outside"),
        leaf.place().directory.join("in"),
    );
    fs::create_dir_all(outside.join("empty")).expect("a group of somebody else");
    fs::create_dir(&inside).expect("a group in a leaf");
    let mount = Command::new("mount")
        .arg("--bind")
        .args([&outside, &inside])
        .output();
    if !mount.is_ok_and(|output| output.status.success()) {
        println!("skipped: needs the right to mount");
        return;
    }
    let mounted = Mounted(&inside);
    let refused = leaf.remove().expect_err("something is mounted in it");
    assert!(
        outside.join("empty").is_dir(),
        "what is not inside is not touched"
    );
    assert!(matches!(refused, RemoveError::Look(_)), "{refused:?}");
    drop(mounted);
    assert_eq!(leaf.remove().expect("it is empty").nested, 1);
}
