//! The list of cases: what the scenarios pass when nobody disturbs them, times the ways to die there.

use std::fmt;
use std::thread;

use xioflow_kit::Place;

use super::args::Selection;
use super::process::{self, Verdict};
use super::{POINTS, STEPS, parsed};
use crate::lies::{LIES, Lie};
use crate::point::{CaseName, Point, Whom, chosen};
use crate::scenario::{Kind, SCENARIOS, Scenario};
use crate::traced;

/// One case.
#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) name: CaseName,
    pub(super) lie: Option<Lie>,
}

/// What will be done, and what cannot.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) cases: Vec<Case>,
    /// How many were not asked for.
    pub(super) left_out: usize,
    pub(super) seed: u64,
    /// Why there are no cases of some kind.
    pub(super) skipped: Vec<String>,
}

/// The scenarios whose helpers are killed at each of their system calls.
const STEPPED: &[&str] = &[
    "complete",
    "cancel",
    "escapees",
    "orphan",
    "orphan-of-escapees",
    "orphan-at-gate",
];

impl Plan {
    /// Plays every scenario undisturbed and lists what can be killed in it.
    pub(super) fn make(place: &Place, selection: &Selection) -> Self {
        let mut skipped = Vec::new();
        let has_namespaces = place.has_pid_namespaces();
        if !has_namespaces {
            skipped.push("nothing is held in a pid namespace: this host forbids them".to_owned());
        }
        let wanted: Vec<&Scenario> = SCENARIOS
            .iter()
            .filter(|it| selection.may_want(it.name))
            .filter(|it| has_namespaces || !it.needs_namespaces())
            .collect();
        let mut all: Vec<Vec<CaseName>> = thread::scope(|scope| {
            let found = wanted.iter().map(|it| scope.spawn(|| points(place, it)));
            let found: Vec<_> = found.collect();
            found
                .into_iter()
                .map(|it| it.join().expect("a scenario undisturbed"))
                .collect()
        });
        if xioflow_kit::strace::is_there() {
            let stepped = wanted.iter().filter(|it| STEPPED.contains(&it.name));
            all.extend(stepped.map(|it| steps(place, it)));
        } else {
            skipped.push(
                "helpers are not killed at each of their system calls: no strace that may trace"
                    .to_owned(),
            );
        }
        let total: usize = all.iter().map(Vec::len).sum::<usize>() + LIES.len();
        let mut cases: Vec<Case> = all
            .into_iter()
            .flat_map(|them| selection.pick(them))
            .collect();
        let lies = LIES.iter().filter(|lie| selection.wants(&lie_name(lie)));
        cases.extend(lies.map(|lie| Case {
            name: parsed(lie.about),
            lie: Some(*lie),
        }));
        Self {
            left_out: total - cases.len(),
            cases,
            seed: selection.seed,
            skipped,
        }
    }
}

impl Selection {
    /// Those of one scenario that are asked for, in their order.
    fn pick(&self, names: Vec<CaseName>) -> Vec<Case> {
        let wanted = names
            .into_iter()
            .filter(|name| self.wants(&name.to_string()));
        let mut of_whom: Vec<Vec<CaseName>> = vec![Vec::new(); Whom::ALL.len()];
        for name in wanted {
            let at = Whom::ALL.iter().position(|whom| *whom == name.whom);
            of_whom[at.unwrap_or_default()].push(name);
        }
        let picked = of_whom.into_iter().flat_map(|names| self.sampled(names));
        picked.map(|name| Case { name, lie: None }).collect()
    }

    /// Evenly spread over the scenario, from a beginning that the seed says.
    fn sampled(&self, names: Vec<CaseName>) -> Vec<CaseName> {
        let Some(most) = self.sample.filter(|most| *most < names.len()) else {
            return names;
        };
        let offset = usize::try_from(self.seed).unwrap_or(0) % names.len();
        let at = |nth: usize| (offset + nth * names.len() / most) % names.len();
        let mut chosen: Vec<usize> = (0..most).map(at).collect();
        chosen.sort_unstable();
        chosen.into_iter().map(|at| names[at].clone()).collect()
    }
}

fn points(place: &Place, scenario: &Scenario) -> Vec<CaseName> {
    if matches!(scenario.kind, Kind::Orphan { .. }) {
        return Vec::new();
    }
    let trace = process::discover(place, POINTS, scenario.name);
    let points = chosen(&trace);
    points
        .iter()
        .flat_map(|point| cases_at(scenario, point))
        .collect()
}

/// Without a helper that holds something there is only the owner to kill.
fn cases_at(scenario: &Scenario, point: &Point) -> Vec<CaseName> {
    let all = [Whom::Owner, Whom::Helper, Whom::Both, Whom::OwnerFirst];
    let possible = match (point.has_helper, scenario.kind) {
        (true, Kind::Alone | Kind::Arbiter { .. }) => &all[..],
        (false, _) | (_, Kind::Recovery { .. } | Kind::Orphan { .. }) => &all[..1],
    };
    let name = |whom: &Whom| CaseName {
        scenario: scenario.name.to_owned(),
        point: point.to_string(),
        whom: *whom,
    };
    possible.iter().map(name).collect()
}

fn steps(place: &Place, scenario: &Scenario) -> Vec<CaseName> {
    let log = process::discover(place, STEPS, scenario.name);
    let name = |point| CaseName {
        scenario: scenario.name.to_owned(),
        point,
        whom: Whom::Step,
    };
    traced::points(&log).into_iter().map(name).collect()
}

fn lie_name(lie: &Lie) -> String {
    format!("lie/{}", lie.name)
}

impl Case {
    /// Its scenario, or `lie`.
    pub(super) fn group(&self) -> &str {
        match self.lie {
            Some(_) => "lie",
            None => &self.name.scenario,
        }
    }

    /// What follows from how its process ended: a lie must have been found, and by its promise.
    pub(super) fn judge(&self, verdict: Verdict) -> Verdict {
        let Some(lie) = self.lie else {
            return verdict;
        };
        let found_by = format!("    {}: ", lie.promise);
        match verdict {
            Verdict::Failed(said) if said.contains(&found_by) => Verdict::Passed,
            Verdict::Failed(said) => {
                Verdict::Failed(format!("not found by {}:{said}", lie.promise))
            }
            Verdict::Passed => Verdict::Failed("the lie was believed\n".to_owned()),
            Verdict::Missed => {
                Verdict::Failed("nothing to lie about: its point was not passed\n".to_owned())
            }
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.lie {
            Some(lie) => f.write_str(&lie_name(lie)),
            None => self.name.fmt(f),
        }
    }
}
