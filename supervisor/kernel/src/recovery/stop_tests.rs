//! Tests of `stop`: who is identified, and that nobody else is. How trees end is in `tests/suite/tests/crash`.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use super::*;
use crate::output::hex;

/// A process that leads a group, and who it is.
fn leader() -> (Child, ProcessIdentity) {
    let child = Command::new("sleep")
        .arg("60")
        .process_group(0)
        .stdin(Stdio::null())
        .spawn()
        .expect("sleep runs");
    let found = xioflow_facts::identity(child.id())
        .expect("readable")
        .expect("alive");
    let identity = ProcessIdentity {
        pid: found.pid,
        pgid: None,
        start_ticks: found.start_ticks,
        boot_id: hex(&found.boot_id),
        pidfd_inode: found.pidfd_inode,
        os_start_time: None,
        command_fingerprint: None,
        namespaces: None,
        pid_namespace: None,
        cgroup_path: None,
        cgroup_id: None,
        cgroup_namespace: None,
    };
    (child, identity)
}

/// The moment between the decision and the look at all processes: the number has changed hands.
#[test]
fn a_group_is_nobodys_once_its_number_is_anothers() {
    let (mut stranger, identity) = leader();
    for recorded in [
        ProcessIdentity {
            start_ticks: identity.start_ticks - 1,
            ..identity.clone()
        },
        ProcessIdentity {
            boot_id: "00".repeat(16),
            ..identity.clone()
        },
        ProcessIdentity {
            pidfd_inode: identity.pidfd_inode.map(|inode| inode + 1),
            ..identity.clone()
        },
    ] {
        if recorded == identity {
            continue;
        }
        let stopped = stop_all(&[&recorded]);
        assert_eq!(stopped[0].attempt, Attempt::NothingFound, "{recorded:?}");
        assert!(stopped[0].signalled.is_empty() && stopped[0].left.is_empty());
        assert!(
            stranger.try_wait().expect("a child").is_none(),
            "it was ended"
        );
    }
    let stopped = stop_all(&[&identity]);
    assert_eq!(stopped[0].attempt, Attempt::Confirmed);
    assert_eq!(stopped[0].signalled, [identity.pid]);
    stranger.wait().expect("a child");
}

#[test]
fn several_end_side_by_side() {
    let mut leaders: Vec<_> = (0..8).map(|_| leader()).collect();
    let roots: Vec<_> = leaders.iter().map(|(_, identity)| identity).collect();
    let stopped = stop_all(&roots);
    for (at, stopped) in stopped.iter().enumerate() {
        assert_eq!(stopped.attempt, Attempt::Confirmed);
        assert_eq!(stopped.signalled, [roots[at].pid]);
    }
    for (child, _) in &mut leaders {
        child.wait().expect("a child");
    }
}
