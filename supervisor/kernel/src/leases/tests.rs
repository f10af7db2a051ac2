//! What the lease table promises, alone and against a plain model.

use super::*;
use proptest::prelude::*;

fn names(list: &[&str]) -> Claim {
    let names: Vec<String> = list.iter().map(|name| (*name).to_owned()).collect();
    Claim::of_resources(&names)
}

fn memory(bytes: u64) -> Claim {
    Claim {
        resources: Vec::new(),
        share: Share {
            memory_bytes: bytes,
            output_bytes: 0,
        },
    }
}

fn unbounded() -> LeaseTable {
    LeaseTable::new(DomainBudget::default())
}

fn of_places(max: usize) -> LeaseTable {
    LeaseTable::new(DomainBudget {
        concurrent_max: Some(max),
        ..DomainBudget::default()
    })
}

fn of_memory(max: u64) -> LeaseTable {
    LeaseTable::new(DomainBudget {
        memory_max_bytes: Some(max),
        ..DomainBudget::default()
    })
}

#[test]
fn a_conflict_names_resource_and_holder() {
    let mut table = unbounded();
    table.try_take("a", &names(&["db", "port"])).unwrap();
    let conflict = table.try_take("b", &names(&["port"])).unwrap_err();
    assert_eq!(conflict, Conflict::of("port", "a"));
}

#[test]
fn three_waiters_are_served_in_order() {
    let mut table = unbounded();
    table.try_take("a", &names(&["x"])).unwrap();
    for waiter in ["b", "c", "d"] {
        table.wait(waiter, &names(&["x"]));
    }
    for (done, next) in [("a", "b"), ("b", "c"), ("c", "d")] {
        table.release(done);
        assert_eq!(table.serve(), [next]);
    }
}

#[test]
fn a_blocked_waiter_is_not_overtaken_and_holds_up_nobody_else() {
    let mut table = unbounded();
    table.try_take("a", &names(&["x"])).unwrap();
    table.wait("both", &names(&["x", "y"]));
    assert_eq!(
        table.try_take("late", &names(&["y"])).unwrap_err().holder,
        "both"
    );
    table.try_take("other", &names(&["z"])).unwrap();
}

#[test]
fn folders_overlap_by_path_and_not_by_letters() {
    for (one, other, expected) in [
        ("/w", "/w/a", true),
        ("/w/a", "/w", true),
        ("/w/a/", "/w/a", true),
        ("/w/a", "/w/ab", false),
        ("/", "/w", true),
    ] {
        let (one, other) = (
            format!("{FOLDER_PREFIX}{one}"),
            format!("{FOLDER_PREFIX}{other}"),
        );
        assert_eq!(overlaps(&one, &other), expected, "{one} {other}");
    }
    assert!(!overlaps("a", "ab"));
}

#[test]
fn operations_without_resources_count() {
    let mut table = of_places(1);
    table.try_take("a", &names(&[])).unwrap();
    assert_eq!(
        table.try_take("b", &names(&[])).unwrap_err().resource,
        CONCURRENCY
    );
    table.wait("b", &names(&[]));
    table.release("a");
    assert_eq!(table.serve(), ["b"]);
}

#[test]
fn one_that_ended_without_proof_keeps_its_resources_and_no_place() {
    let mut table = of_places(1);
    table.try_take("a", &names(&["x"])).unwrap();
    table.wait("b", &names(&[]));
    table.keep("a");
    assert_eq!(table.serve(), ["b"]);
    table.release("b");
    let conflict = table.try_take("c", &names(&["x"])).unwrap_err();
    assert_eq!(
        (conflict.resource.as_str(), conflict.holder.as_str()),
        ("x", "a")
    );
}

#[test]
fn the_sum_of_memory_limits_is_bounded_and_the_takers_are_named() {
    let mut table = of_memory(100);
    table.try_take("small", &memory(10)).unwrap();
    table.try_take("large", &memory(60)).unwrap();
    let conflict = table.try_take("late", &memory(40)).unwrap_err();
    assert_eq!(conflict.resource, "domain:max_total_memory");
    assert_eq!(
        (
            conflict.holder.as_str(),
            &conflict.scarcity.as_ref().unwrap().others[..]
        ),
        ("large", &["small".to_owned()][..])
    );
    let shortage = conflict.scarcity.unwrap().shortage;
    assert_eq!(
        (
            shortage.asked_bytes,
            shortage.free_bytes,
            shortage.max_bytes
        ),
        (40, 30, 100)
    );
    table.try_take("fits", &memory(30)).unwrap();
    assert_eq!(table.taken(), (3, memory(100).share));
}

#[test]
fn a_large_one_at_the_head_is_not_overtaken_by_small_ones() {
    let mut table = of_memory(100);
    table.try_take("a", &memory(50)).unwrap();
    table.wait("large", &memory(80));
    // It would fit, and then the large one would wait for two.
    let conflict = table.try_take("small", &memory(10)).unwrap_err();
    assert_eq!(
        (
            conflict.holder.as_str(),
            &conflict.scarcity.as_ref().unwrap().others[..]
        ),
        ("large", &["a".to_owned()][..])
    );
    table.wait("small", &memory(10));
    assert_eq!(table.serve(), Vec::<String>::new());
    table.release("a");
    assert_eq!(table.serve(), ["large", "small"]);
}

#[test]
fn who_wants_none_of_what_is_short_passes() {
    let mut table = of_memory(100);
    table.try_take("a", &memory(100)).unwrap();
    table.wait("b", &memory(1));
    table.try_take("other", &names(&["x"])).unwrap();
}

#[test]
fn one_that_waits_for_a_lease_has_its_memory_reserved() {
    let mut table = of_memory(100);
    table.try_take("a", &names(&["x"])).unwrap();
    let both = Claim {
        resources: names(&["x"]).resources,
        ..memory(70)
    };
    table.wait("both", &both);
    table.try_take("fits", &memory(30)).unwrap();
    assert_eq!(
        table.try_take("not", &memory(1)).unwrap_err().holder,
        "both"
    );
}

#[test]
fn one_that_ended_without_proof_keeps_its_memory_and_not_its_output() {
    let mut table = LeaseTable::new(DomainBudget {
        memory_max_bytes: Some(10),
        output_max_bytes: Some(10),
        concurrent_max: None,
    });
    let all = Share {
        memory_bytes: 10,
        output_bytes: 10,
    };
    table
        .try_take(
            "a",
            &Claim {
                resources: Vec::new(),
                share: all,
            },
        )
        .unwrap();
    table.keep("a");
    assert_eq!(table.taken(), (0, memory(10).share));
    assert_eq!(table.try_take("b", &memory(1)).unwrap_err().holder, "a");
    table.release("a");
    table.try_take("b", &memory(1)).unwrap();
}

/// One thing that happens to a table.
#[derive(Debug, Clone)]
enum Step {
    /// Somebody asks, and waits if it must.
    Ask { resources: Vec<u8>, share: Share },
    /// One of those who run ends.
    End(prop::sample::Index),
    /// One of those who run ends without proof.
    EndUnproven(prop::sample::Index),
    /// One of those who wait goes away.
    GiveUp(prop::sample::Index),
}

const MEMORY_MAX: u64 = 20;
const OUTPUT_MAX: u64 = 10;

fn step() -> impl Strategy<Value = Step> {
    let share = (0..=MEMORY_MAX, 0..=OUTPUT_MAX).prop_map(|(memory_bytes, output_bytes)| Share {
        memory_bytes,
        output_bytes,
    });
    let ask = (prop::collection::vec(0u8..6, 0..3), share)
        .prop_map(|(resources, share)| Step::Ask { resources, share });
    prop_oneof![
        4 => ask,
        3 => any::<prop::sample::Index>().prop_map(Step::End),
        1 => any::<prop::sample::Index>().prop_map(Step::EndUnproven),
        1 => any::<prop::sample::Index>().prop_map(Step::GiveUp),
    ]
}

/// Who runs, who ended without proof, and who waits in which order: lists, and nothing that is summed up.
#[derive(Default)]
struct Plain {
    running: Vec<(String, Claim)>,
    unproven: Vec<(String, Claim)>,
    waiting: Vec<(String, Claim)>,
}

impl Plain {
    fn held(&self, amount: Amount) -> u64 {
        let all = self.running.iter().chain(&self.unproven);
        all.map(|(_, claim)| claim.share.of(amount)).sum()
    }

    fn holds(&self, resource: &String) -> usize {
        let all = self.running.iter().chain(&self.unproven);
        all.filter(|(_, claim)| claim.resources.contains(resource))
            .count()
    }

    /// Whether the waiter at this place could run if nobody who waits counted.
    fn is_free(&self, claim: &Claim, max: &DomainBudget) -> bool {
        let fits = |amount| {
            let asked = claim.share.of(amount);
            asked == 0 || self.held(amount) + asked <= max.max(amount).unwrap()
        };
        claim.resources.iter().all(|it| self.holds(it) == 0)
            && Amount::ALL.into_iter().all(fits)
            && max
                .concurrent_max
                .is_none_or(|places| self.running.len() < places)
    }

    /// What a grant must leave true: nothing is shared or overdrawn by it, and nobody who came before is
    /// kept by it from what he waits for.
    fn grant(&mut self, operation: &str, claim: Claim, ahead: usize, max: &DomainBudget) {
        assert!(
            self.is_free(&claim, max),
            "{operation} is let in beside others"
        );
        self.running.push((operation.to_owned(), claim.clone()));
        for (older, theirs) in &self.waiting[..ahead] {
            assert!(
                claim
                    .resources
                    .iter()
                    .all(|it| !theirs.resources.contains(it)),
                "{older}"
            );
            for amount in Amount::ALL {
                let (ours, asked) = (claim.share.of(amount), theirs.share.of(amount));
                let fits = self.held(amount) + asked <= max.max(amount).unwrap();
                assert!(
                    ours == 0 || asked == 0 || fits,
                    "{operation} overtakes {older}"
                );
            }
        }
    }

    /// Takes over what the table serves.
    fn served(&mut self, table: &mut LeaseTable, max: &DomainBudget) {
        for operation in table.serve() {
            let at = self.waiting.iter().position(|(it, _)| *it == operation);
            let (_, claim) = self.waiting.remove(at.expect("it waited"));
            self.grant(&operation, claim, at.unwrap_or(0), max);
        }
        // A wake-up that is lost would leave the first one waiting for nobody.
        if let Some((first, claim)) = self.waiting.first() {
            assert!(!self.is_free(claim, max), "{first} waits for nothing");
        }
    }
}

proptest! {
    /// Whatever happens in whatever order: never more than the budget, nobody overtaken, nobody forgotten.
    #[test]
    fn it_agrees_with_a_plain_model(
        steps in prop::collection::vec(step(), 1..60),
        places in prop::option::of(1usize..5),
    ) {
        let max = DomainBudget {
            concurrent_max: places,
            memory_max_bytes: Some(MEMORY_MAX),
            output_max_bytes: Some(OUTPUT_MAX),
        };
        let (mut table, mut plain) = (LeaseTable::new(max), Plain::default());
        for (at, step) in steps.into_iter().enumerate() {
            match step {
                Step::Ask { resources, share } => {
                    let resources = resources.iter().map(|name| format!("r{name}")).collect();
                    let (operation, claim) = (format!("op{at}"), Claim { resources, share });
                    match table.try_take(&operation, &claim) {
                        Ok(()) => plain.grant(&operation, claim, plain.waiting.len(), &max),
                        Err(conflict) => {
                            prop_assert!(!conflict.holder.is_empty());
                            table.wait(&operation, &claim);
                            plain.waiting.push((operation, claim));
                        }
                    }
                }
                Step::End(which) if !plain.running.is_empty() => {
                    let (operation, _) = plain.running.remove(which.index(plain.running.len()));
                    table.release(&operation);
                }
                Step::EndUnproven(which) if !plain.running.is_empty() => {
                    let at = which.index(plain.running.len());
                    let (operation, mut claim) = plain.running.remove(at);
                    table.keep(&operation);
                    claim.share.output_bytes = 0;
                    plain.unproven.push((operation, claim));
                }
                Step::GiveUp(which) if !plain.waiting.is_empty() => {
                    let (operation, _) = plain.waiting.remove(which.index(plain.waiting.len()));
                    table.give_up(&operation);
                }
                Step::End(_) | Step::EndUnproven(_) | Step::GiveUp(_) => {}
            }
            plain.served(&mut table, &max);
            let held = Share {
                memory_bytes: plain.held(Amount::Memory),
                output_bytes: plain.held(Amount::Output),
            };
            prop_assert_eq!(table.taken(), (plain.running.len(), held));
            prop_assert_eq!(table.waiting(), plain.waiting.len());
        }
        // Once those who hold something go, everybody comes to his turn.
        for (operation, _) in std::mem::take(&mut plain.unproven) {
            table.release(&operation);
        }
        plain.served(&mut table, &max);
        while let Some((operation, _)) = plain.running.pop() {
            table.release(&operation);
            plain.served(&mut table, &max);
        }
        prop_assert_eq!(plain.waiting.len(), 0);
    }

    /// Those who all want more than half of the memory come one by one, in the order in which they asked.
    #[test]
    fn large_ones_are_served_in_their_order(
        asked in prop::collection::vec(MEMORY_MAX / 2 + 1..=MEMORY_MAX, 1..12),
    ) {
        let mut table = of_memory(MEMORY_MAX);
        let mut order = Vec::new();
        for (at, bytes) in asked.iter().enumerate() {
            let (operation, claim) = (format!("op{at}"), memory(*bytes));
            match table.try_take(&operation, &claim) {
                Ok(()) => order.push(operation),
                Err(_) => table.wait(&operation, &claim),
            }
        }
        while let Some(last) = order.last() {
            table.release(last);
            let served = table.serve();
            prop_assert!(served.len() <= 1);
            if served.is_empty() {
                break;
            }
            order.extend(served);
        }
        let expected: Vec<_> = (0..asked.len()).map(|at| format!("op{at}")).collect();
        prop_assert_eq!(order, expected);
    }
}
