//! The command that mends each case, or the boot parameter. Pure; never run by us.
//!
//! Neighbours: `verdict` asks, `host` says which way is open. Where the ellipsis stands goes the
//! command that needs the limits.

use std::path::Path;

use crate::host::Host;
use crate::verdict::{Reason, Shortfall};

/// systemd hands users `memory` and `pids` only, unless it is told otherwise.
const DELEGATE_ALL: &str = "sudo mkdir -p /etc/systemd/system/user@.service.d && \
    printf '[Service]\\nDelegate=cpu cpuset io memory pids\\n' | \
    sudo tee /etc/systemd/system/user@.service.d/delegate.conf && \
    sudo systemctl daemon-reload && sudo systemctl restart user@$(id -u)";

pub(crate) fn for_reason(reason: &Reason, host: &Host) -> Option<String> {
    match reason {
        Reason::NoHierarchy => Some(mount_unified(host)),
        Reason::LegacyOnly => Some(leave_version_1(host)),
        Reason::ReadOnly { mount } => Some(as_root(
            host,
            &format!("mount -o remount,rw {}", quoted(mount)),
        )),
        Reason::NotWritable { directory, .. } => Some(own_scope(host).unwrap_or_else(|| {
            let child = directory.join("xioflow");
            hand_over(host, &child)
        })),
        // A fresh mount shows the group that is the root of the namespace, and what is below it.
        Reason::NotVisible { path } if !path.starts_with("/..") => Some(mount_unified(host)),
        Reason::NotVisible { .. } | Reason::Threaded(_) => own_scope(host),
    }
}

pub(crate) fn for_shortfall(shortfall: &Shortfall, host: &Host) -> Option<String> {
    match shortfall {
        Shortfall::HeldByV1(_) => Some(leave_version_1(host)),
        Shortfall::NotDelegated(_) if host.systemd && host.uid != 0 => {
            Some(DELEGATE_ALL.to_owned())
        }
        Shortfall::Managed | Shortfall::NotDelegated(_) | Shortfall::HiddenProcesses(_) => {
            own_scope(host)
        }
        // Reading again, or a newer kernel, is no command.
        Shortfall::ControllersUnknown | Shortfall::NoKill => None,
    }
}

/// A scope of one's own is a delegated group with nobody else in it.
fn own_scope(host: &Host) -> Option<String> {
    let command = match (host.systemd, host.uid, host.user_manager) {
        (false, _, _) => return None,
        (true, 0, _) => "systemd-run --scope -p Delegate=yes -- …",
        (true, _, true) => "systemd-run --user --scope -p Delegate=yes -- …",
        (true, _, false) => {
            "sudo loginctl enable-linger \"$(id -un)\" && \
             XDG_RUNTIME_DIR=/run/user/$(id -u) systemd-run --user --scope -p Delegate=yes -- …"
        }
    };
    Some(command.to_owned())
}

/// Without systemd: root makes a group, gives it away, and puts the caller's shell into it. Only
/// the directory and these files change hands, or the user could lift limits set from above.
fn hand_over(host: &Host, child: &Path) -> String {
    let script = "mkdir \"$1\" && cd \"$1\" && \
        chown \"$2\" . cgroup.procs cgroup.threads cgroup.subtree_control && \
        echo \"$3\" > cgroup.procs";
    as_root(
        host,
        &format!("sh -c '{script}' sh {} \"$(id -u)\" $$", quoted(child)),
    )
}

fn mount_unified(host: &Host) -> String {
    as_root(
        host,
        "mount -t cgroup2 -o nsdelegate cgroup2 /sys/fs/cgroup",
    )
}

/// Controllers come free only when every version 1 hierarchy is destroyed, which no command does
/// to a running system: it is decided at boot, and every boot loader has its own way to be told.
fn leave_version_1(host: &Host) -> String {
    let parameters = match host.systemd {
        true => "systemd.unified_cgroup_hierarchy=1 cgroup_no_v1=all",
        false => "cgroup_no_v1=all",
    };
    format!("boot with \"{parameters}\" on the kernel command line")
}

fn as_root(host: &Host, command: &str) -> String {
    match host.uid {
        0 => command.to_owned(),
        _ => format!("sudo {command}"),
    }
}

/// In quotes for a shell. What is not UTF-8 cannot be typed either.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy().replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::Controllers;
    use crate::own_group::GroupType;

    const ROOT: Host = Host {
        uid: 0,
        systemd: true,
        user_manager: false,
    };
    const USER: Host = Host {
        uid: 1000,
        systemd: true,
        user_manager: true,
    };
    const LOST_USER: Host = Host {
        uid: 1000,
        systemd: true,
        user_manager: false,
    };
    const BARE_USER: Host = Host {
        uid: 1000,
        systemd: false,
        user_manager: false,
    };

    fn not_writable(host: &Host) -> String {
        let reason = Reason::NotWritable {
            directory: "/c/it's".into(),
            owner_uid: Some(0),
        };
        for_reason(&reason, host).expect("a group of one's own can always be had")
    }

    #[test]
    fn a_scope_is_asked_of_the_manager_that_can_be_reached() {
        assert_eq!(
            not_writable(&ROOT),
            "systemd-run --scope -p Delegate=yes -- …"
        );
        assert_eq!(
            not_writable(&USER),
            "systemd-run --user --scope -p Delegate=yes -- …"
        );
        assert!(not_writable(&LOST_USER).starts_with("sudo loginctl enable-linger"));
    }

    #[test]
    fn without_systemd_root_hands_a_group_over() {
        let command = not_writable(&BARE_USER);
        assert!(command.starts_with("sudo sh -c"), "{command}");
        assert!(command.contains(r"'/c/it'\''s/xioflow'"), "{command}");
    }

    #[test]
    fn controllers_are_had_from_who_withholds_them() {
        let io = Controllers::parse("io");
        let v1 = for_shortfall(&Shortfall::HeldByV1(io), &USER).expect("a remedy");
        assert!(v1.contains("unified_cgroup_hierarchy=1"));
        let not_delegated = for_shortfall(&Shortfall::NotDelegated(io), &USER).expect("a remedy");
        assert!(not_delegated.contains("delegate.conf"));
    }

    #[test]
    fn a_fresh_mount_shows_what_lies_in_the_namespace_and_nothing_else() {
        let remedy = |path: &str| for_reason(&Reason::NotVisible { path: path.into() }, &ROOT);
        assert!(remedy("/a").is_some_and(|command| command.starts_with("mount -t cgroup2")));
        assert!(remedy("/../a").is_some_and(|command| command.contains("--scope")));
    }

    #[test]
    fn root_needs_no_sudo() {
        for reason in [Reason::NoHierarchy, Reason::ReadOnly { mount: "/c".into() }] {
            assert!(
                !for_reason(&reason, &ROOT)
                    .expect("a remedy")
                    .contains("sudo")
            );
            assert!(
                for_reason(&reason, &USER)
                    .expect("a remedy")
                    .starts_with("sudo")
            );
        }
    }

    #[test]
    fn where_nothing_helps_nothing_is_offered() {
        assert_eq!(for_shortfall(&Shortfall::NoKill, &USER), None);
        assert_eq!(
            for_reason(&Reason::Threaded(GroupType::Threaded), &BARE_USER),
            None
        );
    }
}
