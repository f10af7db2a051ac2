//! The steps on the way into a PID namespace, as the subject of a failed launch names them.

/// A step of [`crate::Stage::Namespace`]. What is refused there depends on the host, and so does the remedy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamespaceStep {
    /// A user namespace, which gives the right to make the others. ENOSPC: `user.max_user_namespaces`.
    /// EPERM: forbidden by a system call filter, in a changed root, or by a setting of the
    /// distribution.
    UserNamespace,
    /// Giving up to change groups, without which no group can be mapped.
    Setgroups,
    /// The user's own id in the namespace.
    UserMap,
    /// The group's.
    GroupMap,
    /// The PID namespace. EPERM right after a user namespace was made: the distribution lets some
    /// programs make one and gives them no rights in it.
    PidNamespace,
    /// Its first process.
    Init,
    /// A mount namespace, so that the tree has a `/proc` of its own.
    MountNamespace,
    /// Keeping the tree's mounts to itself.
    Propagation,
    /// That `/proc`. EPERM: the host's own is partly hidden, as in most containers.
    Proc,
    /// Giving up the rights that come with a user namespace.
    Capabilities,
}

impl NamespaceStep {
    /// All of them, in their order.
    pub const ALL: [Self; 10] = [
        Self::UserNamespace,
        Self::Setgroups,
        Self::UserMap,
        Self::GroupMap,
        Self::PidNamespace,
        Self::Init,
        Self::MountNamespace,
        Self::Propagation,
        Self::Proc,
        Self::Capabilities,
    ];

    /// The call or file that refuses, which is the subject of the failure.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::UserNamespace => "unshare(CLONE_NEWUSER)",
            Self::Setgroups => "/proc/self/setgroups",
            Self::UserMap => "/proc/self/uid_map",
            Self::GroupMap => "/proc/self/gid_map",
            Self::PidNamespace => "unshare(CLONE_NEWPID)",
            Self::Init => "init of the PID namespace",
            Self::MountNamespace => "unshare(CLONE_NEWNS)",
            Self::Propagation => "mount(/, MS_SLAVE)",
            Self::Proc => "mount(/proc)",
            Self::Capabilities => "capset",
        }
    }

    /// The step that a failure's subject names; `None` for what a later release says.
    #[must_use]
    pub fn of_subject(subject: &[u8]) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|step| step.name().as_bytes() == subject)
    }
}
