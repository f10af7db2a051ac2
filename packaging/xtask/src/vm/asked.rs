//! What is asked of the lane: guests, places, suites, and words for the tests.

use super::guest::{self, GUESTS, Guest};
use super::plan::{self, Place, Suite};

pub(crate) const HELP: &str = "\
Usage: cargo xtask vm [OPTION...] [-- ARG...]

Boots a small Debian in a virtual machine and runs suites in it, in places that this host may not have: below a
service manager that has delegated a control group, in sessions without one, in a namespace. No network, no
privileges, no /dev/kvm needed. Arguments behind -- go to each test program, for example a name that picks tests.

  --guest NAME      bookworm (Debian 12, kernel 6.1), trixie (Debian 13, 6.12), newest, or all; default: bookworm
  --place NAME      where in the guest; may be repeated; default: the places that a suite is meant for
                      user-scope        an ordinary user, below systemd-run --user --scope -p Delegate=yes
                      service           root, a system service with Delegate=yes
                      root-shell        root, in a login session
                      user-shell        an ordinary user, in a login session: nothing is delegated
                      cgroup-namespace  root, in a cgroup namespace of its own
  --suite NAME      what is run; may be repeated; default: doctor, crates, cgroup, conformance, matrix;
                    others by their names: command, holder, embedded, crash, hosts, field, trees, ...
  --command TEXT    instead of a suite, a line for the guest's shell; the programs are in its PATH
  --shell           instead of a suite, a shell on the guest's serial console, in the one place that is named
  --slow FACTOR     the suites wait so many times longer before they give up; default: 4, or 1 with KVM
  --seconds N       the longest time of one suite in one place; default: 300
  --accel NAME      auto (KVM where it works), kvm or tcg; default: auto
  --static          link the tests statically, which is done by itself where this host's C library is the newer one

  cargo xtask vm --suite cgroup --place user-scope -- leaf     tests of the suite with leaf in their names
  cargo xtask vm --command 'xioflow doctor'                    in every place
  cargo xtask vm --shell --place user-scope                    look around

The guest's console is in target/vm/console-GUEST.log. Guests are kept in target/vm and made anew when their recipe
(tests/vm/image) changes; remove the folder to have newer packages.";

/// How the processor of the guest is had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Accel {
    Auto,
    Kvm,
    Tcg,
}

/// What is to be done in each place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Work {
    Suites(Vec<Suite>),
    Command(String),
    Shell,
}

/// The words of the command line, understood.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) guests: Vec<&'static Guest>,
    /// None: where each suite is meant to be.
    pub(crate) places: Vec<Place>,
    pub(crate) work: Work,
    pub(crate) slow: Option<u32>,
    pub(crate) seconds: u32,
    pub(crate) accel: Accel,
    pub(crate) links_statically: bool,
    pub(crate) arguments: Vec<String>,
}

/// Longest time of one suite in one place unless told, in seconds: far above what any takes where the processor is emulated.
const SECONDS: u32 = 300;

/// Reads the words; `Err` says what is wrong with them.
pub(crate) fn asked(words: &[String]) -> Result<Asked, String> {
    let (options, arguments) = match words.iter().position(|word| word == "--") {
        Some(at) => (&words[..at], words[at + 1..].to_vec()),
        None => (words, Vec::new()),
    };
    let mut asked = Asked {
        guests: Vec::new(),
        places: Vec::new(),
        work: Work::Suites(Vec::new()),
        slow: None,
        seconds: SECONDS,
        accel: Accel::Auto,
        links_statically: false,
        arguments,
    };
    let mut options = options.iter();
    while let Some(option) = options.next() {
        match option.as_str() {
            "--shell" => asked.work = Work::Shell,
            "--static" => asked.links_statically = true,
            _ => {
                let value = options
                    .next()
                    .ok_or_else(|| format!("{option} needs a value"));
                asked.take(option, value?)?;
            }
        }
    }
    asked.complete()
}

impl Asked {
    fn take(&mut self, option: &str, value: &str) -> Result<(), String> {
        match option {
            "--guest" if value == "all" => self.guests.extend(&GUESTS),
            "--guest" => self.guests.push(guest::named(value).ok_or_else(|| {
                let names: Vec<_> = GUESTS.iter().map(|guest| guest.name).collect();
                format!("no guest {value:?}; there are {}, all", names.join(", "))
            })?),
            "--place" => self.places.push(Place::named(value)?),
            "--suite" => {
                let suite = plan::suite(value);
                match &mut self.work {
                    Work::Suites(suites) => suites.push(suite),
                    Work::Command(_) | Work::Shell => {
                        return Err("a suite or a command, not both".to_owned());
                    }
                }
            }
            "--command" => self.work = Work::Command(value.to_owned()),
            "--slow" => self.slow = Some(number(option, value)?),
            "--seconds" => self.seconds = number(option, value)?,
            "--accel" => {
                self.accel = match value {
                    "auto" => Accel::Auto,
                    "kvm" => Accel::Kvm,
                    "tcg" => Accel::Tcg,
                    _ => return Err(format!("--accel is auto, kvm or tcg, not {value:?}")),
                }
            }
            _ => return Err(format!("vm has no option {option}; --help lists them")),
        }
        Ok(())
    }

    /// The places that were named, else the usual ones.
    pub(super) fn places_or<'a>(&'a self, usual: &'a [Place]) -> &'a [Place] {
        if self.places.is_empty() {
            usual
        } else {
            &self.places
        }
    }

    fn complete(mut self) -> Result<Self, String> {
        if self.guests.is_empty() {
            self.guests.push(&GUESTS[0]);
        }
        if let Work::Suites(suites) = &mut self.work
            && suites.is_empty()
        {
            suites.extend(plan::usual());
        }
        if self.work == Work::Shell && (self.places.len() != 1 || self.guests.len() != 1) {
            return Err("--shell is for one guest and one --place".to_owned());
        }
        Ok(self)
    }
}

fn number(option: &str, value: &str) -> Result<u32, String> {
    let number = value.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("{option} needs a whole number, at least 1, not {value:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(line: &str) -> Result<Asked, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        asked(&words)
    }

    #[test]
    fn without_words_the_oldest_guest_runs_what_ci_does() {
        let asked = by("").unwrap();
        assert_eq!(asked.guests, [&GUESTS[0]]);
        assert_eq!(asked.places, []);
        assert_eq!(asked.work, Work::Suites(plan::usual()));
    }

    #[test]
    fn words_behind_two_dashes_are_for_the_tests() {
        let asked = by("--suite command --place service -- --exact stop").unwrap();
        assert_eq!(asked.arguments, ["--exact", "stop"]);
        assert_eq!(asked.work, Work::Suites(vec![plan::suite("command")]));
        assert_eq!(asked.places, [Place::Service]);
    }

    #[test]
    fn all_guests_are_all() {
        assert_eq!(by("--guest all").unwrap().guests.len(), GUESTS.len());
    }

    #[test]
    fn words_without_a_meaning_are_named() {
        for (line, complaint) in [
            ("--guest potato", "bookworm, trixie, newest, all"),
            ("--place attic", "user-scope"),
            ("--seconds 0", "at least 1"),
            ("--slow", "needs a value"),
            ("--no-such x", "--no-such"),
            ("--accel fpga", "kvm or tcg"),
            ("--shell", "one --place"),
            ("--command x --suite doctor", "not both"),
        ] {
            let said = by(line).unwrap_err();
            assert!(said.contains(complaint), "{line}: {said}");
        }
    }
}
