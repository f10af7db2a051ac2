//! Where in a guest, and what: the places, the suites, and the list that the guest goes through.

/// Where in the guest something runs. `tests/vm/guest/enter` goes there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    UserScope,
    Service,
    RootShell,
    UserShell,
    CgroupNamespace,
}

impl Place {
    pub(crate) const ALL: [Self; 5] = [
        Self::UserScope,
        Self::Service,
        Self::RootShell,
        Self::UserShell,
        Self::CgroupNamespace,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::UserScope => "user-scope",
            Self::Service => "service",
            Self::RootShell => "root-shell",
            Self::UserShell => "user-shell",
            Self::CgroupNamespace => "cgroup-namespace",
        }
    }

    pub(super) fn named(name: &str) -> Result<Self, String> {
        let place = Self::ALL.into_iter().find(|place| place.name() == name);
        place.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("no place {name:?}; there are {names}")
        })
    }
}

/// The test programs that belong together, and where CI has them run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Suite {
    pub(crate) name: String,
    pub(crate) programs: Programs,
    pub(crate) places: &'static [Place],
    /// Words for the test program, unless somebody gives others.
    pub(crate) arguments: &'static [&'static str],
}

/// How cargo calls the programs of a suite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Programs {
    /// One target of tests, by its name.
    Target(String),
    /// All tests of some packages.
    Packages(&'static [&'static str]),
    /// The crash matrix, which is built with hooks.
    Matrix,
}

/// The crates that speak with the kernel themselves.
const CRATES: &[&str] = &["xioflow-cgroup", "xioflow-landlock", "xioflow-sys"];

/// The suite of that name. One that is not of the lane's own is a target of tests somewhere in the workspace.
pub(crate) fn suite(name: &str) -> Suite {
    use Place::{CgroupNamespace, Service, UserScope};
    let target = || Programs::Target(name.to_owned());
    let (programs, places, arguments): (_, &[Place], &[&str]) = match name {
        "doctor" => (Programs::Target("places".to_owned()), &Place::ALL, &[]),
        "crates" => (Programs::Packages(CRATES), &[UserScope, Service], &[]),
        "cgroup" => (target(), &[UserScope, Service, CgroupNamespace], &[]),
        // Each contract once; the other ways cost three times that.
        "conformance" => (target(), &[UserScope], &["--way", "embedded"]),
        "matrix" => (Programs::Matrix, &[UserScope], &["--sample", "1"]),
        _ => (target(), &[UserScope], &[]),
    };
    Suite {
        name: name.to_owned(),
        programs,
        places,
        arguments,
    }
}

/// What CI has run in the oldest guest.
pub(crate) fn usual() -> Vec<Suite> {
    ["doctor", "crates", "cgroup", "conformance", "matrix"]
        .map(suite)
        .to_vec()
}

/// One line of the guest's list.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) place: Place,
    pub(crate) name: String,
    pub(crate) seconds: u32,
    pub(crate) words: Vec<String>,
}

/// The list as the guest reads it: one entry a line, tabs between the words.
pub(super) fn text(entries: &[Entry]) -> Result<String, String> {
    let mut text = String::new();
    for entry in entries {
        let seconds = entry.seconds.to_string();
        let head = [entry.place.name(), &entry.name, &seconds];
        let words: Vec<&str> = head
            .into_iter()
            .chain(entry.words.iter().map(String::as_str))
            .collect();
        if let Some(word) = words
            .iter()
            .find(|word| word.is_empty() || word.contains(['\t', '\n']))
        {
            return Err(format!(
                "a word that is empty or has tabs or lines cannot go to the guest: {word:?}"
            ));
        }
        text.push_str(&words.join("\t"));
        text.push('\n');
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_places() {
        for place in Place::ALL {
            assert_eq!(Place::named(place.name()), Ok(place));
        }
    }

    #[test]
    fn a_line_has_all_words_and_none_that_the_guest_would_take_apart() {
        let entry = |word: &str| Entry {
            place: Place::Service,
            name: "command".to_owned(),
            seconds: 7,
            words: vec!["/lane/tests/command".to_owned(), word.to_owned()],
        };
        let line = "service\tcommand\t7\t/lane/tests/command\ta b\n";
        assert_eq!(text(&[entry("a b"), entry("a b")]), Ok(line.repeat(2)));
        for wrong in ["", "a\tb", "a\nb"] {
            assert!(text(&[entry(wrong)]).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn what_is_no_suite_of_the_lane_is_a_target_for_the_delegated_user() {
        let holder = suite("holder");
        assert_eq!(holder.programs, Programs::Target("holder".to_owned()));
        assert_eq!(holder.places, [Place::UserScope]);
    }
}
