//! Real leaves of the root that this process was given. Skipped where it was given none.

#![expect(clippy::print_stdout, reason = "a test that is skipped says why")]

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use xioflow_cgroup::{Answer, DomainGroup, Found, GroupName, Leaf, Limits, Removed, Root};

/// Far more than anything here takes.
const LONG: Duration = Duration::from_secs(20);

fn domain(digest: u8) -> Option<DomainGroup> {
    let mut bytes = [digest; 8];
    bytes[..4].copy_from_slice(&std::process::id().to_be_bytes());
    match Root::find() {
        Ok(root) => Some(
            root.domain(GroupName::from_digest(&bytes))
                .expect("a group"),
        ),
        Err(unavailable) => {
            println!("skipped: {unavailable}");
            None
        }
    }
}

fn sleeper(leaf: &Leaf) -> std::process::Child {
    let child = Command::new("sleep")
        .arg("1000")
        .stdin(Stdio::null())
        .spawn()
        .expect("sleep");
    let procs = leaf.place().directory.join("cgroup.procs");
    fs::write(procs, child.id().to_string()).expect("a leaf takes a process");
    child
}

#[test]
fn a_leaf_is_made_filled_killed_and_removed() {
    let Some(domain) = domain(1) else { return };
    let leaf = domain.leaf(&Limits::default()).expect("a leaf");
    let mut events = leaf.events().expect("its events");
    assert_eq!(
        events
            .read()
            .expect("a look")
            .group
            .map(|group| group.populated),
        Some(false)
    );
    assert_eq!(leaf.populated(), Answer::No);

    let mut child = sleeper(&leaf);
    assert_eq!(leaf.populated(), Answer::Yes);
    assert_eq!(leaf.processes().expect("a list"), [child.id()]);
    let mut fds = [PollFd::new(&events, PollFlags::IN)];
    assert_eq!(rustix::event::poll(&mut fds, None).expect("a change"), 1);
    let changes = events.read().expect("a look");
    assert_eq!(changes.group.map(|group| group.populated), Some(true));
    assert_eq!(
        events.read().expect("a look"),
        xioflow_cgroup::Changes::default()
    );

    leaf.freeze(true).expect("freezes");
    assert!(leaf.wait_frozen(true, LONG).expect("a state"));
    assert_eq!(leaf.is_frozen(), Answer::Yes);
    assert!(!leaf.wait_empty(Duration::ZERO).expect("a state"));
    leaf.kill().expect("kills");
    assert!(leaf.wait_empty(LONG).expect("a state"));
    child.wait().expect("it was ours");
    assert!(leaf.usage().cpu_user_us.is_some());

    let Ok(Found::Leaf(again)) = Leaf::open(leaf.place()) else {
        panic!("it is there")
    };
    assert_eq!(again.place(), leaf.place());
    let nothing = Removed {
        was_there: true,
        nested: 0,
    };
    assert_eq!(leaf.remove().expect("it is empty"), nothing);
    assert!(matches!(Leaf::open(leaf.place()), Ok(Found::Gone)));
    assert_eq!(leaf.populated(), Answer::No);
    leaf.kill().expect("nobody to kill");
    assert!(domain.remove().expect("it has no leaf").was_there);
}
