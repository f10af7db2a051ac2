//! What the facts about the own group amount to. Pure.
//!
//! Neighbours: `delegation` gathers the facts, `remedy` has the command that mends each case.

use std::path::PathBuf;

use crate::answer::Answer;
use crate::controller::Controllers;
use crate::hierarchy::Hierarchy;
use crate::host::Host;
use crate::own_group::{GroupType, OwnGroup};
use crate::remedy;
use crate::unit::Delegated;

/// What control groups can do for the calling process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Children can be made in this group, with every controller.
    Ready {
        /// The delegated root.
        directory: PathBuf,
    },
    /// Children can be made, so a tree can be held and killed as a whole, but something is missing.
    Partial {
        /// The delegated root.
        directory: PathBuf,
        /// What is missing; never empty.
        shortfalls: Vec<Shortfall>,
        /// The command that mends the first of them, if there is one.
        remedy: Option<String>,
    },
    /// No children can be made.
    Missing {
        /// Why.
        reason: Reason,
        /// The command that mends it, if there is one.
        remedy: Option<String>,
    },
    /// The system did not let us look.
    CannotTell {
        /// What could not be looked at.
        subject: PathBuf,
        /// The error number; null when the content was not understood.
        errno: Option<i32>,
    },
}

impl Verdict {
    /// The command that mends it, if there is one.
    #[must_use]
    pub fn remedy(&self) -> Option<&str> {
        match self {
            Self::Partial { remedy, .. } | Self::Missing { remedy, .. } => remedy.as_deref(),
            Self::Ready { .. } | Self::CannotTell { .. } => None,
        }
    }
}

/// Something that a delegated group lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shortfall {
    /// systemd manages the group and has not given it away: it may take controllers back, so no
    /// limit can rest on them.
    Managed,
    /// Version 1 holds these controllers.
    HeldByV1(Controllers),
    /// These controllers were not handed down to the group.
    NotDelegated(Controllers),
    /// The list of controllers could not be read.
    ControllersUnknown,
    /// The group holds processes outside the caller's pid namespace. They cannot be named and so not
    /// be moved, and a group with processes hands no controllers to its children.
    HiddenProcesses(usize),
    /// There is no `cgroup.kill` (before Linux 5.14).
    NoKill,
}

/// Why no children can be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// Control groups are not mounted.
    NoHierarchy,
    /// Only version 1 is mounted.
    LegacyOnly,
    /// The own group is not visible through any mount: it lies outside the control group
    /// namespace or outside the part that is mounted.
    NotVisible {
        /// The group as `/proc/self/cgroup` names it.
        path: PathBuf,
    },
    /// The mount is read-only, as is usual in containers.
    ReadOnly {
        /// The mount point.
        mount: PathBuf,
    },
    /// The group belongs to somebody else.
    NotWritable {
        /// Its directory.
        directory: PathBuf,
        /// Its owner; null when that could not be read.
        owner_uid: Option<u32>,
    },
    /// A group of this type takes no ordinary children.
    Threaded(GroupType),
}

/// Judges. `own_path` is the group as `/proc/self/cgroup` names it; null without version 2.
pub(crate) fn judge(
    hierarchy: &Hierarchy,
    own_path: Option<&PathBuf>,
    own: Option<&OwnGroup>,
    host: &Host,
) -> Verdict {
    match (hierarchy, own) {
        (Hierarchy::None, _) => missing(Reason::NoHierarchy, host),
        (Hierarchy::LegacyOnly, _) => missing(Reason::LegacyOnly, host),
        (_, None) => {
            let path = own_path.cloned().unwrap_or_default();
            missing(Reason::NotVisible { path }, host)
        }
        (_, Some(own)) => judge_group(hierarchy, own, host),
    }
}

fn judge_group(hierarchy: &Hierarchy, own: &OwnGroup, host: &Host) -> Verdict {
    if let Some(blocked) = blocked(hierarchy, own, host) {
        return blocked;
    }
    let directory = own.directory.clone();
    let shortfalls = shortfalls(hierarchy.held_by_v1(), own, host);
    match shortfalls.first() {
        None => Verdict::Ready { directory },
        Some(first) => {
            let remedy = remedy::for_shortfall(first, host);
            Verdict::Partial {
                directory,
                shortfalls,
                remedy,
            }
        }
    }
}

/// What stands against making children at all.
fn blocked(hierarchy: &Hierarchy, own: &OwnGroup, host: &Host) -> Option<Verdict> {
    let rights = [
        own.can_make_children,
        own.can_move_processes,
        own.can_enable_controllers,
    ];
    let refused = rights.contains(&Answer::No);
    if refused && own.read_only_mount {
        let (Hierarchy::Unified { mount } | Hierarchy::Hybrid { mount, .. }) = hierarchy else {
            return None;
        };
        return Some(missing(
            Reason::ReadOnly {
                mount: mount.clone(),
            },
            host,
        ));
    }
    if refused {
        let reason = Reason::NotWritable {
            directory: own.directory.clone(),
            owner_uid: own.owner_uid,
        };
        return Some(missing(reason, host));
    }
    let unknown = rights.iter().find_map(|answer| match answer {
        Answer::CannotTell { errno } => Some(*errno),
        Answer::Yes | Answer::No => None,
    });
    if let Some(errno) = unknown {
        return Some(Verdict::CannotTell {
            subject: own.directory.clone(),
            errno: Some(errno),
        });
    }
    match own.group_type {
        Some(kind @ (GroupType::Threaded | GroupType::DomainInvalid)) => {
            Some(missing(Reason::Threaded(kind), host))
        }
        Some(GroupType::Domain | GroupType::DomainThreaded) | None => None,
    }
}

fn missing(reason: Reason, host: &Host) -> Verdict {
    let remedy = remedy::for_reason(&reason, host);
    Verdict::Missing { reason, remedy }
}

/// In the order of what is felt first: limits that cannot be had, then what stands in their way.
fn shortfalls(held_by_v1: Controllers, own: &OwnGroup, host: &Host) -> Vec<Shortfall> {
    let mut found = Vec::new();
    found.extend(is_managed(own, host).then_some(Shortfall::Managed));
    match own.available {
        None => found.push(Shortfall::ControllersUnknown),
        Some(available) => {
            let lacking = Controllers::all().without(available);
            let (v1, rest) = (lacking.and(held_by_v1), lacking.without(held_by_v1));
            found.extend((!v1.is_empty()).then_some(Shortfall::HeldByV1(v1)));
            found.extend((!rest.is_empty()).then_some(Shortfall::NotDelegated(rest)));
        }
    }
    // The real root is the one group that may hold processes and hand controllers down.
    let inner = !own.is_root.is_yes();
    let hidden = own.hidden_processes.filter(|count| inner && *count > 0);
    found.extend(hidden.map(Shortfall::HiddenProcesses));
    found.extend((inner && own.kill_file == Answer::No).then_some(Shortfall::NoKill));
    found
}

/// The root of the hierarchy is systemd's own, wherever systemd runs.
pub(crate) fn is_managed(own: &OwnGroup, host: &Host) -> bool {
    let managed = match own.delegated {
        Delegated::No => true,
        Delegated::NoUnit => own.is_root.is_yes(),
        Delegated::Yes | Delegated::CannotTell => false,
    };
    host.systemd && managed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mountinfo::MountOptions;

    const USER: Host = Host {
        uid: 1000,
        systemd: true,
        user_manager: true,
    };

    fn group() -> OwnGroup {
        OwnGroup {
            path: "/a.scope".into(),
            directory: "/sys/fs/cgroup/a.scope".into(),
            is_root: Answer::No,
            group_type: Some(GroupType::Domain),
            can_make_children: Answer::Yes,
            can_move_processes: Answer::Yes,
            can_enable_controllers: Answer::Yes,
            owner_uid: Some(1000),
            available: Some(Controllers::all()),
            enabled: Some(Controllers::NONE),
            kill_file: Answer::Yes,
            other_processes: Some(0),
            hidden_processes: Some(0),
            read_only_mount: false,
            options: MountOptions::default(),
            delegated: Delegated::NoUnit,
        }
    }

    fn unified() -> Hierarchy {
        Hierarchy::Unified {
            mount: "/sys/fs/cgroup".into(),
        }
    }

    fn judged(own: OwnGroup) -> Verdict {
        judge(&unified(), Some(&own.path.clone()), Some(&own), &USER)
    }

    fn shortfalls_of(own: OwnGroup) -> Vec<Shortfall> {
        match judged(own) {
            Verdict::Partial { shortfalls, .. } => shortfalls,
            other => panic!("expected a partial verdict, got {other:?}"),
        }
    }

    #[test]
    fn a_delegated_group_is_ready() {
        assert_eq!(
            judged(group()),
            Verdict::Ready {
                directory: group().directory
            }
        );
    }

    #[test]
    fn each_refused_right_is_enough_to_be_missing() {
        let refusals: [fn(&mut OwnGroup); 3] = [
            |own| own.can_make_children = Answer::No,
            |own| own.can_move_processes = Answer::No,
            |own| own.can_enable_controllers = Answer::No,
        ];
        for refuse in refusals {
            let mut own = group();
            refuse(&mut own);
            let Verdict::Missing { reason, remedy } = judged(own) else {
                panic!("not missing")
            };
            assert!(matches!(
                reason,
                Reason::NotWritable {
                    owner_uid: Some(1000),
                    ..
                }
            ));
            assert!(remedy.is_some_and(|text| text.contains("Delegate=yes")));
        }
    }

    #[test]
    fn a_read_only_mount_is_named_as_such() {
        let own = OwnGroup {
            read_only_mount: true,
            can_make_children: Answer::No,
            ..group()
        };
        let Verdict::Missing { reason, .. } = judged(own) else {
            panic!("not missing")
        };
        assert_eq!(
            reason,
            Reason::ReadOnly {
                mount: "/sys/fs/cgroup".into()
            }
        );
    }

    #[test]
    fn what_cannot_be_asked_is_not_refused() {
        let own = OwnGroup {
            can_move_processes: Answer::CannotTell { errno: 5 },
            ..group()
        };
        let expected = Verdict::CannotTell {
            subject: group().directory,
            errno: Some(5),
        };
        assert_eq!(judged(own), expected);
    }

    #[test]
    fn a_refusal_outweighs_what_cannot_be_asked() {
        let own = OwnGroup {
            can_move_processes: Answer::CannotTell { errno: 5 },
            can_make_children: Answer::No,
            ..group()
        };
        assert!(matches!(judged(own), Verdict::Missing { .. }));
    }

    #[test]
    fn threaded_groups_take_no_children() {
        for kind in [GroupType::Threaded, GroupType::DomainInvalid] {
            let own = OwnGroup {
                group_type: Some(kind),
                ..group()
            };
            let Verdict::Missing { reason, .. } = judged(own) else {
                panic!("not missing")
            };
            assert_eq!(reason, Reason::Threaded(kind));
        }
    }

    #[test]
    fn controllers_are_told_apart_by_who_withholds_them() {
        let own = OwnGroup {
            available: Some(Controllers::parse("cpu")),
            ..group()
        };
        let held_by_v1 = Controllers::parse("memory");
        let hierarchy = Hierarchy::Hybrid {
            mount: "/sys/fs/cgroup/unified".into(),
            held_by_v1,
        };
        let verdict = judge(&hierarchy, Some(&own.path.clone()), Some(&own), &USER);
        let Verdict::Partial { shortfalls, .. } = verdict else {
            panic!("not partial")
        };
        let rest = Controllers::parse("pids io");
        assert_eq!(
            shortfalls,
            [
                Shortfall::HeldByV1(held_by_v1),
                Shortfall::NotDelegated(rest)
            ]
        );
    }

    #[test]
    fn unreadable_controllers_are_unknown_and_not_absent() {
        let own = OwnGroup {
            available: None,
            ..group()
        };
        assert_eq!(shortfalls_of(own), [Shortfall::ControllersUnknown]);
    }

    #[test]
    fn company_that_can_be_moved_does_not_stand_in_the_way() {
        let own = OwnGroup {
            other_processes: Some(3),
            ..group()
        };
        assert!(matches!(judged(own), Verdict::Ready { .. }));
    }

    #[test]
    fn company_that_cannot_be_named_does_except_in_the_real_root() {
        let crowded = OwnGroup {
            other_processes: Some(5),
            hidden_processes: Some(3),
            ..group()
        };
        assert_eq!(
            shortfalls_of(crowded.clone()),
            [Shortfall::HiddenProcesses(3)]
        );

        let root = OwnGroup {
            is_root: Answer::Yes,
            kill_file: Answer::No,
            ..crowded
        };
        let bare = Host {
            systemd: false,
            ..USER
        };
        let verdict = judge(&unified(), Some(&root.path.clone()), Some(&root), &bare);
        assert!(matches!(verdict, Verdict::Ready { .. }));
        assert_eq!(shortfalls_of(root), [Shortfall::Managed]);
    }

    #[test]
    fn what_systemd_keeps_is_partial_and_the_scope_of_ones_own_mends_it() {
        let own = OwnGroup {
            delegated: Delegated::No,
            ..group()
        };
        let Verdict::Partial {
            shortfalls, remedy, ..
        } = judged(own.clone())
        else {
            panic!("not partial")
        };
        assert_eq!(shortfalls, [Shortfall::Managed]);
        assert!(remedy.is_some_and(|command| command.contains("Delegate=yes")));
        for delegated in [Delegated::Yes, Delegated::CannotTell, Delegated::NoUnit] {
            let own = OwnGroup {
                delegated,
                ..group()
            };
            assert!(
                matches!(judged(own), Verdict::Ready { .. }),
                "{delegated:?}"
            );
        }
    }

    #[test]
    fn an_old_kernel_cannot_kill_a_group_at_once() {
        let own = OwnGroup {
            kill_file: Answer::No,
            ..group()
        };
        assert_eq!(shortfalls_of(own), [Shortfall::NoKill]);
    }

    #[test]
    fn without_a_group_the_hierarchy_decides() {
        let reason_for = |hierarchy: Hierarchy| match judge(&hierarchy, None, None, &USER) {
            Verdict::Missing { reason, .. } => reason,
            other => panic!("expected missing, got {other:?}"),
        };
        assert_eq!(reason_for(Hierarchy::None), Reason::NoHierarchy);
        assert_eq!(reason_for(Hierarchy::LegacyOnly), Reason::LegacyOnly);
        assert!(matches!(reason_for(unified()), Reason::NotVisible { .. }));
    }
}
