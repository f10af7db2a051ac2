//! Moments at which somebody is killed, and the names of cases: `<scenario>/<label>#<n>/<whom>`.

use std::fmt;
use std::str::FromStr;

/// Who is killed at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Whom {
    /// The process that owns the domain.
    Owner,
    /// The helper of the operation.
    Helper,
    /// Both, the helper first.
    Both,
    /// Both, the owner first.
    OwnerFirst,
    /// The helper, before one of its own system calls.
    Step,
}

impl Whom {
    pub(crate) const ALL: [Self; 5] = [
        Self::Owner,
        Self::Helper,
        Self::Both,
        Self::OwnerFirst,
        Self::Step,
    ];

    /// As in names of cases, and as the armed program reads it.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Helper => "helper",
            Self::Both => "both",
            Self::OwnerFirst => "owner-first",
            Self::Step => "step",
        }
    }

    /// Whether the owner dies.
    pub(crate) const fn ends_owner(self) -> bool {
        matches!(self, Self::Owner | Self::Both | Self::OwnerFirst)
    }

    /// Whether the helper dies.
    pub(crate) const fn ends_helper(self) -> bool {
        !matches!(self, Self::Owner)
    }
}

impl FromStr for Whom {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|whom| whom.as_str() == name);
        found.ok_or_else(|| format!("nobody is called {name:?}"))
    }
}

/// One moment of one scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Point {
    pub(crate) label: String,
    /// From 1.
    pub(crate) nth: u32,
    /// Whether a helper held an operation then.
    pub(crate) has_helper: bool,
}

impl Point {
    /// Reads a line of a trace: `<label>#<n> <helper>`.
    pub(crate) fn from_trace(line: &str) -> Option<Self> {
        let (name, helper) = line.rsplit_once(' ')?;
        let (label, nth) = name.rsplit_once('#')?;
        Some(Self {
            label: label.to_owned(),
            nth: nth.parse().ok()?,
            has_helper: helper != "-",
        })
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.label, self.nth)
    }
}

/// A case by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CaseName {
    pub(crate) scenario: String,
    /// `<label>#<n>`.
    pub(crate) point: String,
    pub(crate) whom: Whom,
}

impl fmt::Display for CaseName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.scenario, self.point, self.whom.as_str())
    }
}

impl FromStr for CaseName {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let parts: Vec<&str> = name.split('/').collect();
        let [scenario, point, whom] = parts[..] else {
            return Err(format!("no name of a case: {name:?}"));
        };
        Ok(Self {
            scenario: scenario.to_owned(),
            point: point.to_owned(),
            whom: whom.parse()?,
        })
    }
}

/// How many times of one label are killed when it is passed often: the first ones, and the last.
const FIRST_TIMES: u32 = 3;

/// The points of a trace that are worth a case each. A flood writes its files in many pieces, and the
/// hundredth write is like the tenth.
pub(crate) fn chosen(trace: &str) -> Vec<Point> {
    let points: Vec<Point> = trace.lines().filter_map(Point::from_trace).collect();
    let times = |label: &str| points.iter().filter(|one| one.label == label).count();
    let is_chosen = |point: &&Point| {
        let last = u32::try_from(times(&point.label)).unwrap_or(u32::MAX);
        point.nth <= FIRST_TIMES || point.nth == last
    };
    points.iter().filter(is_chosen).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_found_again_by_its_name() {
        let name = "complete/journal:result+end-run:before-commit#1/owner-first";
        let case: CaseName = name.parse().expect("a name");
        assert_eq!(case.whom, Whom::OwnerFirst);
        assert_eq!(case.to_string(), name);
        for wrong in ["complete", "complete/x#1/nobody", "a/b/c/owner"] {
            assert!(wrong.parse::<CaseName>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn of_a_label_that_is_passed_often_the_first_and_the_last_are_taken() {
        let trace: String = (1..=9)
            .map(|n| format!("spool:before-write#{n} 7\n"))
            .collect();
        let points = chosen(&format!("open:locked#1 -\n{trace}cut off"));
        let names: Vec<String> = points.iter().map(ToString::to_string).collect();
        let writes = [1, 2, 3, 9].map(|n| format!("spool:before-write#{n}"));
        assert_eq!(names[0], "open:locked#1");
        assert_eq!(names[1..], writes);
        assert_eq!((points[0].has_helper, points[1].has_helper), (false, true));
    }
}
