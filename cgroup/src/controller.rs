//! The controllers that limits need, and sets of them.

use std::fmt;

/// A controller of version 2 that xioflow has a use for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Controller {
    /// `cpu.max`: processor time per period.
    Cpu,
    /// `memory.max`: memory, with group out-of-memory kill.
    Memory,
    /// `pids.max`: number of processes and threads.
    Pids,
    /// `io.max`: bytes and operations per device.
    Io,
}

impl Controller {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Cpu, Self::Memory, Self::Pids, Self::Io];

    /// Its name in `cgroup.controllers`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Pids => "pids",
            Self::Io => "io",
        }
    }

    /// The controller of that name; version 1 called the last one `blkio`.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        match name {
            "blkio" => Some(Self::Io),
            name => Self::ALL
                .into_iter()
                .find(|controller| controller.name() == name),
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A set of controllers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Controllers(u8);

impl Controllers {
    /// No controller.
    pub const NONE: Self = Self(0);

    /// Every controller that xioflow has a use for.
    #[must_use]
    pub fn all() -> Self {
        Controller::ALL.into_iter().collect()
    }

    /// Reads `cgroup.controllers` or `cgroup.subtree_control`: names with spaces between them.
    /// Names of other controllers are left out.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        text.split_ascii_whitespace()
            .filter_map(Controller::from_name)
            .collect()
    }

    /// Whether it holds this one.
    #[must_use]
    pub const fn contains(self, controller: Controller) -> bool {
        self.0 & controller.bit() != 0
    }

    /// What is in this set and not in the other.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// What is in both sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Whether there is none in it.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Its members, in a fixed order.
    pub fn iter(self) -> impl Iterator<Item = Controller> {
        Controller::ALL
            .into_iter()
            .filter(move |controller| self.contains(*controller))
    }
}

impl FromIterator<Controller> for Controllers {
    fn from_iter<T: IntoIterator<Item = Controller>>(iter: T) -> Self {
        Self(
            iter.into_iter()
                .fold(0, |bits, controller| bits | controller.bit()),
        )
    }
}

impl fmt::Display for Controllers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.iter().map(Controller::name).collect();
        f.write_str(&names.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_what_the_kernel_lists() {
        let set = Controllers::parse("cpuset cpu io memory hugetlb pids rdma misc\n");
        assert_eq!(set, Controllers::all());
        assert_eq!(Controllers::parse("\n"), Controllers::NONE);
        assert_eq!(
            Controllers::parse("memory pids\n").to_string(),
            "memory pids"
        );
    }

    #[test]
    fn a_name_inside_another_is_not_taken() {
        assert!(Controllers::parse("cpuset cpuacct\n").is_empty());
    }

    #[test]
    fn version_1_names_are_known() {
        assert_eq!(Controller::from_name("blkio"), Some(Controller::Io));
        assert_eq!(Controller::from_name("name=systemd"), None);
    }

    proptest! {
        #[test]
        fn a_set_is_read_back_as_written(bits in 0u8..16) {
            let set = Controllers(bits);
            prop_assert_eq!(Controllers::parse(&set.to_string()), set);
            prop_assert_eq!(set.iter().collect::<Controllers>(), set);
        }

        #[test]
        fn parts_make_the_whole(a in 0u8..16, b in 0u8..16) {
            let (a, b) = (Controllers(a), Controllers(b));
            let whole: Controllers = a.without(b).iter().chain(a.and(b).iter()).collect();
            prop_assert_eq!(whole, a);
        }
    }
}
