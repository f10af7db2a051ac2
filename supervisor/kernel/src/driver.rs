//! In what the tree of a command is held, and what to do where a host refuses that. Pure.

use serde::{Deserialize, Serialize};
use xioflow_protocol::{Containment, NamespaceStep};

use crate::names::errno_name;
use crate::result::Scope;

/// In what the tree of a command is held.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Driver {
    /// What this host gives: [`Driver::ControlGroup`] where the group of the domain's owner is delegated, else
    /// [`Driver::Reaper`]. The result says which.
    #[default]
    #[serde(rename = "auto")]
    Auto,
    /// A helper that adopts every orphan.
    #[serde(rename = "reaper")]
    Reaper,
    /// The same, and a control group of its own, below that of the domain's owner: one write ends all of it, its
    /// being empty is one more proof, and what is left when supervisor and helper are killed at once is found
    /// by recovery. Where none can be made the launch is refused
    /// ([`ExecuteError::GroupRefused`](crate::ExecuteError::GroupRefused)).
    #[serde(rename = "cgroup")]
    ControlGroup,
    /// As [`Driver::Reaper`], and a pid namespace of its own: with its helper the kernel ends all of it, so nothing lives even
    /// when supervisor and helper are killed at once, pid_namespaces(7).
    ///
    /// The command sees other process ids. Where the supervisor has no privilege a user namespace comes
    /// with it, in which every user but the caller's is nobody and set-user-ID programs have no effect. A host that
    /// forbids it refuses the launch ([`ExecuteError::DriverRefused`](crate::ExecuteError::DriverRefused)).
    #[serde(rename = "pidns")]
    PidNamespace,
}

impl Driver {
    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Reaper => "reaper",
            Self::ControlGroup => "cgroup",
            Self::PidNamespace => "pidns",
        }
    }

    /// Which one holds where this one is asked for, with a control group or without; never [`Driver::Auto`].
    #[must_use]
    pub const fn resolved(self, in_group: bool) -> Self {
        match (self, in_group) {
            (Self::PidNamespace, _) => Self::PidNamespace,
            (Self::ControlGroup, _) | (Self::Auto, true) => Self::ControlGroup,
            (Self::Auto, false) | (Self::Reaper, _) => Self::Reaper,
        }
    }

    /// Whether a control group of its own belongs to it.
    pub(crate) const fn group(self) -> GroupUse {
        match self {
            Self::Reaper => GroupUse::None,
            Self::Auto | Self::PidNamespace => GroupUse::WhereThereIs,
            Self::ControlGroup => GroupUse::Required,
        }
    }

    /// What a statement about a tree rests on that it holds.
    pub(crate) const fn scope(self) -> Scope {
        match self {
            Self::Auto | Self::Reaper => Scope::SubreaperTree,
            Self::ControlGroup => Scope::ContainmentCgroup,
            Self::PidNamespace => Scope::PidNamespace,
        }
    }

    pub(crate) const fn containment(self) -> Containment {
        match self {
            Self::Auto | Self::Reaper | Self::ControlGroup => Containment::Subreaper,
            Self::PidNamespace => Containment::PidNamespace,
        }
    }
}

/// What a driver has to do with control groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GroupUse {
    /// None is made.
    None,
    /// One is made where the host has it.
    WhereThereIs,
    /// Without one nothing runs.
    Required,
}

impl std::fmt::Display for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What somebody can do about a host that refuses a pid namespace, by the call that was refused and its error.
/// The call is one of those that [`NamespaceStep`] names; of another one only what always helps is said.
#[must_use]
pub fn namespace_remedy(call: &str, errno: i32) -> &'static str {
    use NamespaceStep as Step;
    match errno_name(errno).as_str() {
        "ENOSPC" | "EUSERS" => {
            return "allow more of them with `sysctl -w user.max_user_namespaces=15000 \
                    user.max_pid_namespaces=15000 user.max_mnt_namespaces=15000`; or run it with `--driver reaper`";
        }
        "EAGAIN" | "ENOMEM" => {
            return "the host has no room for it at the moment: run it again, or with `--driver reaper`";
        }
        "ENOSYS" | "EINVAL" => {
            return "this kernel has no such namespaces: run it with `--driver reaper`";
        }
        _ => {}
    }
    match Step::of_subject(call.as_bytes()) {
        Some(Step::UserNamespace) => {
            "let ordinary users make them with `sysctl -w kernel.unprivileged_userns_clone=1` (Debian); in a container \
             start that with `--security-opt seccomp=unconfined`; below a changed root folder (chroot) nobody may, \
             so run it outside; or run it as root, or with `--driver reaper`"
        }
        Some(
            Step::Setgroups
            | Step::UserMap
            | Step::GroupMap
            | Step::PidNamespace
            | Step::MountNamespace,
        ) => {
            "give ordinary users their rights in them with `sysctl -w \
             kernel.apparmor_restrict_unprivileged_userns=0` (Ubuntu); or run it as root, or with `--driver reaper`"
        }
        Some(Step::Proc | Step::Propagation) => {
            "the /proc of this host is partly hidden, as in most containers: start that with `--security-opt \
             systempaths=unconfined`; or run it with `--driver reaper`"
        }
        Some(Step::Init | Step::Capabilities) | None => "run it with `--driver reaper`",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_name_is_the_one_that_is_written() {
        for driver in [
            Driver::Auto,
            Driver::Reaper,
            Driver::ControlGroup,
            Driver::PidNamespace,
        ] {
            let written = serde_json::to_value(driver).unwrap();
            assert_eq!(written, driver.as_str());
            assert_ne!(driver.resolved(true), Driver::Auto);
            assert_ne!(driver.resolved(false), Driver::Auto);
        }
    }

    #[test]
    fn a_group_makes_a_difference_to_auto_alone() {
        let both = |driver: Driver| [driver.resolved(false), driver.resolved(true)];
        assert_eq!(both(Driver::Auto), [Driver::Reaper, Driver::ControlGroup]);
        for driver in [Driver::Reaper, Driver::ControlGroup, Driver::PidNamespace] {
            assert_eq!(both(driver), [driver; 2]);
        }
    }

    #[test]
    fn every_refusal_has_a_way_out() {
        let steps = NamespaceStep::ALL.map(NamespaceStep::name);
        for call in steps.into_iter().chain(["something newer"]) {
            for errno in 1..134 {
                let remedy = namespace_remedy(call, errno);
                assert!(
                    remedy.contains("--driver reaper"),
                    "{call} {errno}: {remedy}"
                );
            }
        }
    }

    #[test]
    fn the_way_out_is_that_of_what_stands_in_the_way() {
        use rustix::io::Errno;
        for (step, errno, says) in [
            (
                NamespaceStep::UserNamespace,
                Errno::NOSPC,
                "user.max_user_namespaces",
            ),
            (
                NamespaceStep::UserNamespace,
                Errno::PERM,
                "unprivileged_userns_clone",
            ),
            (
                NamespaceStep::PidNamespace,
                Errno::PERM,
                "apparmor_restrict_unprivileged_userns",
            ),
            (NamespaceStep::Proc, Errno::PERM, "systempaths=unconfined"),
            (NamespaceStep::Init, Errno::AGAIN, "run it again"),
        ] {
            let remedy = namespace_remedy(step.name(), errno.raw_os_error());
            assert!(remedy.contains(says), "{step:?}: {remedy}");
        }
    }
}
