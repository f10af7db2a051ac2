//! Every state within the bounds, and every promise in it.

use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::time::Instant;

use stateright::{Checker, Expectation, Model};
use xioflow_model::{Budget, Domain, State};

const NOTHING: Budget = Budget {
    crashes: 0,
    losses: 0,
    power: 0,
    locks: 0,
    cancels: 0,
    strays: 0,
};

/// What goes wrong together: faults that have to do with each other. All of them at once are more states than a test can visit.
fn domains() -> [(&'static str, Domain); 6] {
    let domain = |operations, budget| Domain {
        operations,
        budget,
        mutation: None,
    };
    [
        (
            "owners and helpers die",
            domain(
                1,
                Budget {
                    crashes: 2,
                    losses: 1,
                    cancels: 1,
                    strays: 1,
                    ..NOTHING
                },
            ),
        ),
        (
            "the power fails",
            domain(
                1,
                Budget {
                    crashes: 1,
                    losses: 1,
                    power: 1,
                    cancels: 1,
                    strays: 1,
                    ..NOTHING
                },
            ),
        ),
        (
            "a lock is lost",
            domain(
                1,
                Budget {
                    crashes: 1,
                    losses: 1,
                    locks: 1,
                    ..NOTHING
                },
            ),
        ),
        (
            "a lock is lost, and a tree remains",
            domain(
                1,
                Budget {
                    crashes: 1,
                    locks: 1,
                    strays: 1,
                    ..NOTHING
                },
            ),
        ),
        (
            "two operations, and a tree remains",
            domain(
                2,
                Budget {
                    crashes: 1,
                    strays: 1,
                    ..NOTHING
                },
            ),
        ),
        (
            "two operations want one lease",
            domain(
                2,
                Budget {
                    crashes: 1,
                    losses: 1,
                    ..NOTHING
                },
            ),
        ),
    ]
}

/// Explores all of a domain, says how much that was, and names what was seen of what must be seen.
fn explore(name: &str, model: Domain) -> HashSet<&'static str> {
    let begun = Instant::now();
    let checker = model.checker().threads(2).spawn_bfs().join();
    assert!(checker.is_done());
    say(&format!(
        "{name}: {} states, {} steps, {:.1} s",
        checker.unique_state_count(),
        checker.state_count(),
        begun.elapsed().as_secs_f32()
    ));
    let mut seen = HashSet::new();
    for property in model.properties() {
        match (property.expectation, checker.discovery(property.name)) {
            (Expectation::Sometimes, Some(_)) => {
                seen.insert(property.name);
            }
            (Expectation::Sometimes, None) | (_, None) => {}
            (_, Some(path)) => panic!("{name}: {} does not hold:\n{path}", property.name),
        }
    }
    seen
}

/// Past libtest, which keeps what a passing test prints.
fn say(line: &str) {
    writeln!(std::io::stderr(), "{line}").expect("standard error is open");
}

#[test]
fn every_promise_holds_in_every_state() {
    let mut seen = HashSet::new();
    for (name, domain) in domains() {
        seen.extend(explore(name, domain));
    }
    let (_, any) = domains()[0];
    for property in any.properties() {
        if property.expectation == Expectation::Sometimes {
            assert!(
                seen.contains(property.name),
                "never seen: {}",
                property.name
            );
        }
    }
}

/// Where is a state on the way of the walk.
#[derive(PartialEq)]
enum Mark {
    OnTheWay,
    Behind,
}

/// What must come to pass at some time is asked where nothing more can happen. That is only the same while
/// no run can go round for ever.
#[test]
fn no_run_goes_round() {
    let budget = Budget {
        crashes: 1,
        losses: 1,
        power: 1,
        cancels: 1,
        strays: 1,
        ..NOTHING
    };
    let model = Domain {
        operations: 1,
        budget,
        mutation: None,
    };
    let mut marks: HashMap<State, Mark> = HashMap::new();
    let begin = model.init_states().remove(0);
    let mut way = vec![(begin.clone(), model.next_states(&begin))];
    marks.insert(begin, Mark::OnTheWay);
    while let Some((state, next)) = way.last_mut() {
        let Some(next) = next.pop() else {
            marks.insert(state.clone(), Mark::Behind);
            way.pop();
            continue;
        };
        match marks.get(&next) {
            Some(Mark::OnTheWay) => panic!("a run comes back to\n{next:#?}"),
            Some(Mark::Behind) => {}
            None => {
                let after = model.next_states(&next);
                marks.insert(next.clone(), Mark::OnTheWay);
                way.push((next, after));
            }
        }
    }
    assert!(marks.len() > 10_000, "{} states", marks.len());
}
