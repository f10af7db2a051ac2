//! What is interrupted. Each scenario is played once undisturbed, which says what points there are, and
//! then once for each of them.

use std::time::Duration;

use crate::point::Whom;
use crate::roles::role;
use crate::work::Work;

/// A course of events.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// Everything that is submitted in it.
    pub(crate) works: &'static [Work],
}

/// Who plays it, and so who is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One process that owns the domain and executes.
    Alone,
    /// An arbiter, which is killed, and these clients of it, which are not.
    Arbiter {
        /// Their names.
        clients: &'static [&'static str],
    },
    /// An owner that comes after another one, which was killed at one point of another scenario: it recovers
    /// what that left, and decides what cannot be known if that is its role.
    Recovery {
        /// What it does, a role.
        role: &'static str,
        /// The other scenario.
        of: &'static str,
        /// The point, as `<label>#<n>`.
        at: &'static str,
        /// Who was killed there.
        whom: Whom,
    },
    /// A helper whose owner is killed at one point of another scenario: it ends its tree, writes its last
    /// word, and is killed at one of these steps.
    Orphan {
        /// The other scenario.
        of: &'static str,
        /// The point, as `<label>#<n>`.
        at: &'static str,
    },
}

const BRIEF: Work = Work::brief("brief").lease("db");
const OWN: Work = Work::brief("own");
const LONG: Work = Work::long("long").lease("db");
const OTHER: Work = Work::long("other").lease("port");
const LATE: Work = Work::long("late").timeout(Duration::from_millis(300));
const ESCAPEES: Work = Work::escapees("escapees").lease("db");
const FLOOD: Work = Work::flood("flood").lease("db");
const ENCLOSED: Work = Work::enclosed("enclosed").lease("db");
const MISSING: Work = Work::missing("missing").lease("port");
const WAITER: Work = Work::brief("waiter").lease("db");

const fn alone(name: &'static str, works: &'static [Work]) -> Scenario {
    Scenario {
        name,
        kind: Kind::Alone,
        works,
    }
}

const fn recovery(
    name: &'static str,
    of: &'static str,
    at: &'static str,
    whom: Whom,
    works: &'static [Work],
) -> Scenario {
    Scenario {
        name,
        kind: Kind::Recovery {
            role: role::RECOVER,
            of,
            at,
            whom,
        },
        works,
    }
}

/// The same, and what nobody can know is decided by a person.
const fn adjudication(recovery: Scenario, name: &'static str) -> Scenario {
    let Kind::Recovery { of, at, whom, .. } = recovery.kind else {
        panic!("only after a crash is there something to decide");
    };
    Scenario {
        name,
        kind: Kind::Recovery {
            role: role::ADJUDICATE,
            of,
            at,
            whom,
        },
        works: recovery.works,
    }
}

const OF_BOTH: Scenario = recovery(
    "recovery-of-both",
    "cancel",
    "supervisor:process-running#1",
    Whom::Both,
    &[LONG],
);

const OF_ESCAPEES: Scenario = recovery(
    "recovery-of-escapees",
    "escapees",
    "helper:running:after-receive#1",
    Whom::Both,
    &[ESCAPEES],
);

const fn orphan(
    name: &'static str,
    of: &'static str,
    at: &'static str,
    works: &'static [Work],
) -> Scenario {
    Scenario {
        name,
        kind: Kind::Orphan { of, at },
        works,
    }
}

impl Scenario {
    /// Whether the host must allow pid namespaces.
    pub(crate) fn needs_namespaces(&self) -> bool {
        self.works.iter().any(Work::is_enclosed)
    }
}

/// All of them.
pub(crate) const SCENARIOS: &[Scenario] = &[
    alone("complete", &[BRIEF, OWN]),
    alone("cancel", &[LONG]),
    alone("timeout", &[LATE]),
    alone("escapees", &[ESCAPEES]),
    alone("enclosed", &[ENCLOSED]),
    alone("flood", &[FLOOD]),
    alone("prune", &[FLOOD, OWN]),
    alone("replay", &[BRIEF, OTHER]),
    alone("refused", &[LONG, WAITER, MISSING]),
    Scenario {
        name: "detached",
        kind: Kind::Arbiter {
            clients: &["detacher"],
        },
        works: &[BRIEF],
    },
    Scenario {
        name: "three-clients",
        kind: Kind::Arbiter {
            clients: &["canceller", "waiter", "own"],
        },
        works: &[LONG, WAITER, OWN],
    },
    orphan("orphan", "cancel", "supervisor:process-running#1", &[LONG]),
    orphan(
        "orphan-of-escapees",
        "escapees",
        "helper:running:after-receive#1",
        &[ESCAPEES],
    ),
    orphan(
        "orphan-at-gate",
        "complete",
        "helper:release:before-send#1",
        &[BRIEF, OWN],
    ),
    recovery(
        "recovery-of-owner",
        "cancel",
        "supervisor:process-running#1",
        Whom::Owner,
        &[LONG],
    ),
    OF_BOTH,
    OF_ESCAPEES,
    adjudication(OF_BOTH, "adjudication"),
    adjudication(OF_ESCAPEES, "adjudication-of-escapees"),
    recovery(
        "recovery-of-flood",
        "flood",
        "spool:before-sync#1",
        Whom::Owner,
        &[FLOOD],
    ),
    recovery(
        "recovery-at-gate",
        "complete",
        "helper:release:before-send#1",
        Whom::Owner,
        &[BRIEF, OWN],
    ),
    recovery(
        "recovery-of-three",
        "three-clients",
        "helper:running:after-receive#3",
        Whom::Owner,
        &[LONG, WAITER, OWN],
    ),
];

/// The scenario of this name.
///
/// # Panics
/// If there is none.
pub(crate) fn named(name: &str) -> Scenario {
    let found = SCENARIOS.iter().find(|one| one.name == name);
    *found.unwrap_or_else(|| panic!("no scenario {name}"))
}
