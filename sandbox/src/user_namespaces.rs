//! The settings that keep ordinary users from making user namespaces, which bubblewrap needs.
//!
//! Read only after bubblewrap failed, to name the remedy: a setting alone proves nothing.

use std::path::Path;

/// The settings; null where the kernel does not have one or it cannot be read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UserNamespaces {
    /// `kernel.apparmor_restrict_unprivileged_userns` (Ubuntu since 23.10): 1 restricts.
    pub apparmor_restricts: Option<u64>,
    /// `kernel.unprivileged_userns_clone` (Debian, Arch): 0 forbids.
    pub unprivileged_clone: Option<u64>,
    /// `user.max_user_namespaces`: 0 forbids, for root too.
    pub max: Option<u64>,
}

impl UserNamespaces {
    /// Reads the settings of the running kernel.
    #[must_use]
    pub fn observe() -> Self {
        Self::read_from(Path::new("/proc/sys"))
    }

    fn read_from(sysctls: &Path) -> Self {
        let read = |name: &str| {
            std::fs::read_to_string(sysctls.join(name))
                .ok()?
                .trim()
                .parse()
                .ok()
        };
        Self {
            apparmor_restricts: read("kernel/apparmor_restrict_unprivileged_userns"),
            unprivileged_clone: read("kernel/unprivileged_userns_clone"),
            max: read("user/max_user_namespaces"),
        }
    }

    /// The command that lifts the restriction that is in force, if one is.
    #[must_use]
    pub fn remedy(self) -> Option<&'static str> {
        match self {
            Self { max: Some(0), .. } => Some("sudo sysctl -w user.max_user_namespaces=15000"),
            Self {
                unprivileged_clone: Some(0),
                ..
            } => Some("sudo sysctl -w kernel.unprivileged_userns_clone=1"),
            Self {
                apparmor_restricts: Some(1..),
                ..
            } => Some("sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_is_not_there_is_unknown() {
        let none = UserNamespaces::read_from(Path::new("/nonexistent"));
        assert_eq!(none, UserNamespaces::default());
        assert_eq!(none.remedy(), None);
    }

    #[test]
    fn settings_are_read_by_their_names() {
        let dir = tempfile::tempdir().expect("a folder");
        for folder in ["kernel", "user"] {
            fs::create_dir(dir.path().join(folder)).expect("a folder in it");
        }
        fs::write(dir.path().join("user/max_user_namespaces"), "63410\n").expect("a setting");
        fs::write(
            dir.path()
                .join("kernel/apparmor_restrict_unprivileged_userns"),
            "1\n",
        )
        .expect("a setting");
        let settings = UserNamespaces::read_from(dir.path());
        assert_eq!(settings.max, Some(63410));
        assert_eq!(settings.unprivileged_clone, None);
        assert!(
            settings
                .remedy()
                .is_some_and(|text| text.contains("apparmor"))
        );
    }

    #[test]
    fn each_restriction_has_its_remedy_and_the_widest_comes_first() {
        let open = UserNamespaces {
            apparmor_restricts: Some(0),
            unprivileged_clone: Some(1),
            max: Some(10),
        };
        assert_eq!(open.remedy(), None);
        let closed = UserNamespaces {
            apparmor_restricts: Some(1),
            unprivileged_clone: Some(0),
            max: Some(0),
        };
        assert!(
            closed
                .remedy()
                .is_some_and(|text| text.contains("max_user_namespaces"))
        );
    }
}
