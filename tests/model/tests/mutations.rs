//! Each promise can fail: for each there is a fault on purpose that has a counterexample.

use std::collections::BTreeSet;

use stateright::{Checker, HasDiscoveries, Model};
use xioflow_model::{Budget, Domain, Mutation, properties};

const NOTHING: Budget = Budget {
    crashes: 0,
    losses: 0,
    power: 0,
    locks: 0,
    cancels: 0,
    strays: 0,
};

/// Each fault, the promise that it breaks, how many operations it takes, and what has to go wrong besides.
const FAULTS: &[(Mutation, &str, usize, Budget)] = &[
    (Mutation::NoLease, "TypeOK", 1, NOTHING),
    (Mutation::NoIdentity, "NoFakeRunning", 1, NOTHING),
    (Mutation::GateBeforeCommit, "GateBeforeEffect", 1, NOTHING),
    (Mutation::RunsAgain, "AtMostOnce", 1, NOTHING),
    (
        Mutation::TrustsSilence,
        "NoPrematureRelease",
        1,
        Budget {
            crashes: 1,
            losses: 1,
            strays: 1,
            ..NOTHING
        },
    ),
    (
        Mutation::AnyEnd,
        "NoPrematureRelease",
        1,
        Budget {
            crashes: 1,
            strays: 1,
            ..NOTHING
        },
    ),
    (
        Mutation::HelperLies,
        "NoPrematureRelease",
        1,
        Budget {
            strays: 1,
            ..NOTHING
        },
    ),
    (
        Mutation::HelperLies,
        "NoOrphanAtRest",
        1,
        Budget {
            strays: 1,
            ..NOTHING
        },
    ),
    (
        Mutation::GuessesSuccess,
        "NoFakeSuccess",
        1,
        Budget {
            power: 1,
            ..NOTHING
        },
    ),
    (
        Mutation::GuessesExit,
        "ExitOnlyWhenObserved",
        1,
        Budget {
            power: 1,
            ..NOTHING
        },
    ),
    (
        Mutation::DeniesRun,
        "NoFalseFailure",
        1,
        Budget {
            crashes: 1,
            losses: 1,
            ..NOTHING
        },
    ),
    (
        Mutation::AnyWord,
        "NoFalseFailure",
        1,
        Budget {
            crashes: 2,
            ..NOTHING
        },
    ),
    (
        Mutation::FreesAlways,
        "IndeterminateHoldsLease",
        1,
        Budget {
            losses: 1,
            ..NOTHING
        },
    ),
    (Mutation::NoResult, "DoneHasResult", 1, NOTHING),
    (
        Mutation::SecondResult,
        "OneResult",
        1,
        Budget {
            locks: 1,
            ..NOTHING
        },
    ),
    (
        Mutation::NoFence,
        "FencedOwnerChangesNothing",
        1,
        Budget {
            locks: 1,
            ..NOTHING
        },
    ),
    (
        Mutation::ForgetsLease,
        "OneHolder",
        2,
        Budget {
            losses: 1,
            ..NOTHING
        },
    ),
    (
        Mutation::ForgetsRun,
        "RunFollows",
        1,
        Budget {
            crashes: 1,
            ..NOTHING
        },
    ),
    (
        Mutation::ForgetsWait,
        "EventuallySettled",
        1,
        Budget {
            crashes: 1,
            ..NOTHING
        },
    ),
];

#[test]
fn each_fault_has_a_counterexample() {
    for (mutation, promise, operations, budget) in FAULTS {
        let broken = HasDiscoveries::AllOf(BTreeSet::from([*promise]));
        let model = Domain {
            operations: *operations,
            budget: *budget,
            mutation: Some(*mutation),
        };
        let checker = model
            .checker()
            .threads(2)
            .finish_when(broken)
            .spawn_bfs()
            .join();
        assert!(
            checker.discovery(promise).is_some(),
            "{mutation:?} does not break {promise}"
        );
    }
}

/// The same without the fault, so that it is the fault that is found.
#[test]
fn without_the_fault_there_is_none() {
    for (mutation, promise, operations, budget) in FAULTS {
        let model = Domain {
            operations: *operations,
            budget: *budget,
            mutation: None,
        };
        let checker = model.checker().threads(2).spawn_bfs().join();
        assert!(
            checker.discovery(promise).is_none(),
            "{promise} fails without {mutation:?}"
        );
    }
}

#[test]
fn no_promise_is_left_out() {
    let broken: BTreeSet<&str> = FAULTS.iter().map(|(_, promise, ..)| *promise).collect();
    let promises: BTreeSet<&str> = properties::promises().into_iter().collect();
    assert_eq!(broken, promises);
}
