//! Who may hold which resource, and who waits: the rules. Pure.
//!
//! An operation gets all its resources or none. Waiters are served first in, first out per
//! overlapping resource: what a blocked waiter needs is reserved for it, so nobody who came later
//! overtakes it, while a request that overlaps with nobody is not held up.

use std::collections::{BTreeMap, VecDeque};

use crate::resources::FOLDER_PREFIX;

/// The resource named in a conflict when the number of operations is what blocks.
pub const CONCURRENCY: &str = "domain:max_concurrent_ops";

/// Who stands in the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The resource that was asked for.
    pub resource: String,
    /// Who holds it, or waits for it with an older claim.
    pub holder: String,
}

/// All holders and waiters of a domain.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct LeaseTable {
    concurrent_max: Option<usize>,
    holders: BTreeMap<String, Holder>,
    waiting: VecDeque<Waiter>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Holder {
    resources: Vec<String>,
    /// Whether it takes one of the places.
    unfinished: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Waiter {
    operation: String,
    resources: Vec<String>,
}

impl LeaseTable {
    /// One without holders, for at most so many unfinished operations.
    #[must_use]
    pub fn new(concurrent_max: Option<usize>) -> Self {
        Self {
            concurrent_max,
            ..Self::default()
        }
    }

    /// Notes a holder that is known from the journal, whatever else it overlaps with.
    pub fn restore(&mut self, operation: &str, resources: &[String]) {
        let holder = self.holders.entry(operation.to_owned()).or_default();
        holder.resources.extend_from_slice(resources);
        holder.unfinished = true;
    }

    /// Gives `operation` its resources.
    ///
    /// # Errors
    /// Who stands in the way.
    pub fn try_take(&mut self, operation: &str, resources: &[String]) -> Result<(), Conflict> {
        let ahead = self.waiting.len();
        match self.blocker(resources, ahead) {
            Some(conflict) => Err(conflict),
            None => {
                self.restore(operation, resources);
                Ok(())
            }
        }
    }

    /// Puts `operation` at the end of the queue.
    pub fn wait(&mut self, operation: &str, resources: &[String]) {
        let waiter = Waiter {
            operation: operation.to_owned(),
            resources: resources.to_vec(),
        };
        self.waiting.push_back(waiter);
    }

    /// Takes a waiter out of the queue and says who stands in its way.
    pub fn give_up(&mut self, operation: &str) -> Option<Conflict> {
        let at = self
            .waiting
            .iter()
            .position(|waiter| waiter.operation == operation)?;
        let conflict = self.blocker(&self.waiting[at].resources.clone(), at);
        self.waiting.remove(at);
        conflict
    }

    /// Frees what `operation` holds.
    pub fn release(&mut self, operation: &str) {
        self.holders.remove(operation);
    }

    /// Leaves `operation`, which has ended without proof, its resources, and frees its place.
    pub fn keep(&mut self, operation: &str) {
        if let Some(holder) = self.holders.get_mut(operation) {
            holder.unfinished = false;
        }
    }

    /// Serves every waiter that can be served now, in order, and names them.
    pub fn serve(&mut self) -> Vec<String> {
        let mut served = Vec::new();
        let mut at = 0;
        while at < self.waiting.len() {
            let waiter = self.waiting[at].clone();
            match self.blocker(&waiter.resources, at) {
                None => {
                    self.waiting.remove(at);
                    self.restore(&waiter.operation, &waiter.resources);
                    served.push(waiter.operation);
                }
                // When the number of operations blocks, it blocks everybody behind as well.
                Some(conflict) if conflict.resource == CONCURRENCY => break,
                Some(_) => at += 1,
            }
        }
        served
    }

    /// Who blocks these resources: a holder, or one of the first `ahead` waiters.
    fn blocker(&self, resources: &[String], ahead: usize) -> Option<Conflict> {
        let held = self
            .holders
            .iter()
            .map(|(operation, holder)| (operation, &holder.resources));
        let reserved = self
            .waiting
            .iter()
            .take(ahead)
            .map(|waiter| (&waiter.operation, &waiter.resources));
        for (holder, theirs) in held.chain(reserved) {
            let overlap = resources
                .iter()
                .find(|ours| theirs.iter().any(|it| overlaps(ours, it)));
            if let Some(resource) = overlap {
                return Some(Conflict {
                    resource: resource.clone(),
                    holder: holder.clone(),
                });
            }
        }
        let max = self.concurrent_max?;
        let mut unfinished = self.holders.iter().filter(|(_, holder)| holder.unfinished);
        let full = unfinished.clone().count() >= max;
        let first = unfinished.next().map(|(operation, _)| operation.clone());
        full.then(|| Conflict {
            resource: CONCURRENCY.to_owned(),
            holder: first.unwrap_or_default(),
        })
    }
}

/// Whether two resources exclude each other: the same name, or one folder inside the other.
fn overlaps(one: &str, other: &str) -> bool {
    match (
        one.strip_prefix(FOLDER_PREFIX),
        other.strip_prefix(FOLDER_PREFIX),
    ) {
        (Some(one), Some(other)) => inside(one, other) || inside(other, one),
        _ => one == other,
    }
}

fn inside(path: &str, folder: &str) -> bool {
    let folder = folder.trim_end_matches('/');
    path.trim_end_matches('/')
        .strip_prefix(folder)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_conflict_names_resource_and_holder() {
        let mut table = LeaseTable::new(None);
        table.try_take("a", &names(&["db", "port"])).unwrap();
        let conflict = table.try_take("b", &names(&["port"])).unwrap_err();
        assert_eq!(
            conflict,
            Conflict {
                resource: "port".into(),
                holder: "a".into()
            }
        );
    }

    #[test]
    fn three_waiters_are_served_in_order() {
        let mut table = LeaseTable::new(None);
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
        let mut table = LeaseTable::new(None);
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
        let mut table = LeaseTable::new(Some(1));
        table.try_take("a", &[]).unwrap();
        assert_eq!(table.try_take("b", &[]).unwrap_err().resource, CONCURRENCY);
        table.wait("b", &[]);
        table.release("a");
        assert_eq!(table.serve(), ["b"]);
    }

    #[test]
    fn one_that_ended_without_proof_keeps_its_resources_and_no_place() {
        let mut table = LeaseTable::new(Some(1));
        table.try_take("a", &names(&["x"])).unwrap();
        table.wait("b", &[]);
        table.keep("a");
        assert_eq!(table.serve(), ["b"]);
        table.release("b");
        let conflict = table.try_take("c", &names(&["x"])).unwrap_err();
        assert_eq!(
            (conflict.resource.as_str(), conflict.holder.as_str()),
            ("x", "a")
        );
    }

    proptest! {
        #[test]
        fn nobody_shares_and_everybody_is_served(
            requests in prop::collection::vec(prop::collection::vec(0u8..5, 0..4), 1..12),
            max in prop::option::of(1usize..4),
        ) {
            let mut table = LeaseTable::new(max);
            let mut running: Vec<(String, Vec<String>)> = Vec::new();
            let all: Vec<(String, Vec<String>)> = requests
                .iter()
                .enumerate()
                .map(|(at, set)| {
                    let set = set.iter().map(|name| format!("r{name}")).collect();
                    (format!("op{at}"), set)
                })
                .collect();
            for (operation, set) in &all {
                match table.try_take(operation, set) {
                    Ok(()) => running.push((operation.clone(), set.clone())),
                    Err(_) => table.wait(operation, set),
                }
            }
            let mut finished = 0;
            while let Some((operation, _)) = running.pop() {
                table.release(&operation);
                finished += 1;
                for name in table.serve() {
                    let set = all.iter().find(|(it, _)| *it == name).unwrap().1.clone();
                    for (_, held) in &running {
                        prop_assert!(held.iter().all(|it| !set.contains(it)));
                    }
                    running.push((name, set));
                }
                prop_assert!(max.is_none_or(|max| running.len() <= max));
            }
            prop_assert_eq!(finished, all.len());
        }
    }
}
