//! Who may hold which resource, who takes how much of the domain's budget, and who waits: the rules. Pure.
//!
//! An operation gets all that it claims or none. Waiters are served first in, first out per
//! overlapping resource and per amount: what a blocked waiter needs is reserved for it, so nobody who
//! came later overtakes it, while a request that overlaps with nobody is not held up.

mod budget;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

use crate::resources::FOLDER_PREFIX;

pub(crate) use budget::Bytes;
pub use budget::{Amount, DomainBudget, Scarcity, Share, Shortage};

/// The resource named in a conflict when the number of operations is what blocks.
pub const CONCURRENCY: &str = "domain:max_concurrent_ops";

/// How many of those who stand in the way are named.
const NAMED_MAX: usize = 8;

/// Who stands in the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The resource that was asked for: a name of a lease, or one of the domain's own
    /// ([`CONCURRENCY`], [`Amount::resource`]).
    pub resource: String,
    /// Who holds it, or waits for it with an older claim. Of an amount: whoever has the most of it.
    pub holder: String,
    /// Of an amount: how much there is of it, and who else has some.
    pub scarcity: Option<Box<Scarcity>>,
}

/// What one operation needs to run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Claim {
    /// The resources that nobody else may have meanwhile.
    pub resources: Vec<String>,
    /// What it takes of the domain's budget.
    pub share: Share,
}

impl Claim {
    /// Only resources.
    #[must_use]
    pub fn of_resources(resources: &[String]) -> Self {
        Self {
            resources: resources.to_vec(),
            share: Share::default(),
        }
    }

    fn add(&mut self, other: &Self) {
        self.resources.extend_from_slice(&other.resources);
        self.share = self.share.plus(other.share);
    }
}

/// All holders and waiters of a domain.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct LeaseTable {
    budget: DomainBudget,
    holders: BTreeMap<String, Holder>,
    waiting: VecDeque<Waiter>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Holder {
    claim: Claim,
    /// Whether it takes one of the places.
    unfinished: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Waiter {
    operation: String,
    claim: Claim,
}

impl LeaseTable {
    /// One without holders, for operations that take no more than this together.
    #[must_use]
    pub fn new(budget: DomainBudget) -> Self {
        Self {
            budget,
            ..Self::default()
        }
    }

    /// What operations may take together.
    #[must_use]
    pub fn budget(&self) -> DomainBudget {
        self.budget
    }

    /// What is taken of the budget: the places, and the amounts.
    #[must_use]
    pub fn taken(&self) -> (usize, Share) {
        let holders = self.holders.values();
        let places = holders.clone().filter(|holder| holder.unfinished).count();
        let share = holders.fold(Share::default(), |sum, it| sum.plus(it.claim.share));
        (places, share)
    }

    /// How many wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Notes a holder that is known from the journal, whatever else it overlaps with.
    pub fn restore(&mut self, operation: &str, claim: &Claim) {
        let holder = self.holders.entry(operation.to_owned()).or_default();
        holder.claim.add(claim);
        holder.unfinished = true;
    }

    /// Gives `operation` what it claims.
    ///
    /// # Errors
    /// Who stands in the way.
    pub fn try_take(&mut self, operation: &str, claim: &Claim) -> Result<(), Conflict> {
        let ahead = self.waiting.len();
        match self.blocker(claim, ahead) {
            Some(conflict) => Err(conflict),
            None => {
                self.restore(operation, claim);
                Ok(())
            }
        }
    }

    /// Puts `operation` at the end of the queue.
    pub fn wait(&mut self, operation: &str, claim: &Claim) {
        let waiter = Waiter {
            operation: operation.to_owned(),
            claim: claim.clone(),
        };
        self.waiting.push_back(waiter);
    }

    /// Takes a waiter out of the queue and says who stands in its way.
    pub fn give_up(&mut self, operation: &str) -> Option<Conflict> {
        let at = self
            .waiting
            .iter()
            .position(|waiter| waiter.operation == operation)?;
        let conflict = self.blocker(&self.waiting[at].claim, at);
        self.waiting.remove(at);
        conflict
    }

    /// Frees what `operation` holds.
    pub fn release(&mut self, operation: &str) {
        self.holders.remove(operation);
    }

    /// Leaves `operation`, which has ended without proof, its resources and its memory, which what is left of it
    /// may use; frees its place, and what it might have stored, for nobody stores anything of it any more.
    pub fn keep(&mut self, operation: &str) {
        if let Some(holder) = self.holders.get_mut(operation) {
            holder.unfinished = false;
            holder.claim.share.output_bytes = 0;
        }
    }

    /// Serves every waiter that can be served now, in order, and names them.
    pub fn serve(&mut self) -> Vec<String> {
        let mut served = Vec::new();
        let mut at = 0;
        while at < self.waiting.len() {
            let waiter = self.waiting[at].clone();
            match self.blocker(&waiter.claim, at) {
                None => {
                    self.waiting.remove(at);
                    self.restore(&waiter.operation, &waiter.claim);
                    served.push(waiter.operation);
                }
                // When the number of operations blocks, it blocks everybody behind as well.
                Some(conflict) if conflict.resource == CONCURRENCY => break,
                Some(_) => at += 1,
            }
        }
        served
    }

    /// Who blocks this claim: a holder, or one of the first `ahead` waiters.
    fn blocker(&self, claim: &Claim, ahead: usize) -> Option<Conflict> {
        self.overlapping(&claim.resources, ahead)
            .or_else(|| self.crowding())
            .or_else(|| self.overdrawing(claim.share, ahead))
    }

    /// Everybody whose claim comes first, the first `ahead` waiters after the holders.
    fn before(&self, ahead: usize) -> impl Iterator<Item = (&String, &Claim)> {
        let held = self.holders.iter();
        let held = held.map(|(operation, holder)| (operation, &holder.claim));
        let reserved = self.waiting.iter().take(ahead);
        held.chain(reserved.map(|waiter| (&waiter.operation, &waiter.claim)))
    }

    fn overlapping(&self, resources: &[String], ahead: usize) -> Option<Conflict> {
        self.before(ahead).find_map(|(holder, theirs)| {
            let resource = resources
                .iter()
                .find(|ours| theirs.resources.iter().any(|it| overlaps(ours, it)))?;
            Some(Conflict::of(resource, holder))
        })
    }

    fn crowding(&self) -> Option<Conflict> {
        let max = self.budget.concurrent_max?;
        let mut unfinished = self.holders.iter().filter(|(_, holder)| holder.unfinished);
        let full = unfinished.clone().count() >= max;
        let first = unfinished.next().map_or("", |(operation, _)| operation);
        full.then(|| Conflict::of(CONCURRENCY, first))
    }

    fn overdrawing(&self, share: Share, ahead: usize) -> Option<Conflict> {
        let taken = self
            .before(ahead)
            .fold(Share::default(), |sum, (_, claim)| sum.plus(claim.share));
        let shortage = self.budget.shortage(share, taken)?;
        let of = |claim: &Claim| claim.share.of(shortage.amount);
        let mut takers: Vec<_> = self.before(ahead).filter(|(_, it)| of(it) > 0).collect();
        // A stable order: of those with as much, the holders come before the waiters.
        takers.sort_by_key(|(_, claim)| std::cmp::Reverse(of(claim)));
        let mut named = takers.iter().map(|(operation, _)| (*operation).clone());
        let resource = shortage.amount.resource();
        let holder = named.next().unwrap_or_default();
        let others = named.take(NAMED_MAX - 1).collect();
        Some(Conflict {
            resource: resource.to_owned(),
            holder,
            scarcity: Some(Box::new(Scarcity { shortage, others })),
        })
    }
}

impl Conflict {
    fn of(resource: &str, holder: &str) -> Self {
        Self {
            resource: resource.to_owned(),
            holder: holder.to_owned(),
            scarcity: None,
        }
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
