//! What an operation claims of its domain: its resources, and its share of the budget. `leases` has the rules of
//! who gets it, `record` writes down what it came to.

use xioflow_journal::Operation;

use super::Spec;
use crate::error::ExecuteError;
use crate::leases::{Claim, DomainBudget, Share};
use crate::limits::{Enforcement, ResourceLimits};
use crate::load;
use crate::output::DEFAULT_MAX_STORED_BYTES;

/// Of a budget of stored output, one of so many parts is for each stream of an operation that does not say what it
/// may store: eight of them run side by side.
const OUTPUT_PARTS: u64 = 16;

/// Gives each stream of an operation that does not say what it may store a part of the budget, if there is one.
pub(super) fn settle_stored_max(spec: &mut Spec, budget: &DomainBudget) {
    let part = budget.output_max_bytes.map(|max| max / OUTPUT_PARTS);
    let usual = DEFAULT_MAX_STORED_BYTES;
    let usual = part.map_or(usual, |part| part.min(usual));
    spec.max_stored_bytes.get_or_insert(usual);
}

/// What it claims.
///
/// # Errors
/// [`ExecuteError::MemoryUnlimited`] and [`ExecuteError::BudgetExceeded`], for which no wait could help.
pub(super) fn claim(spec: &Spec, budget: &DomainBudget) -> Result<Claim, ExecuteError> {
    let memory_bytes = match (
        budget.memory_max_bytes,
        memory_held_to(spec.limits.as_ref()),
    ) {
        (Some(max_bytes), None) => return Err(ExecuteError::MemoryUnlimited { max_bytes }),
        (_, memory) => memory.unwrap_or(0),
    };
    let streams = if spec.command.merges_stderr { 1 } else { 2 };
    let share = Share {
        memory_bytes,
        output_bytes: spec.stored_bytes_max().saturating_mul(streams),
    };
    match budget.exceeded_by(share) {
        Some(shortage) => Err(ExecuteError::BudgetExceeded { shortage }),
        None => Ok(Claim {
            resources: spec.leases.clone(),
            share,
        }),
    }
}

/// The memory that it is kept to, in bytes; `None` where nobody sees to that.
fn memory_held_to(limits: Option<&ResourceLimits>) -> Option<u64> {
    let limits = limits?;
    match limits.enforcement {
        Enforcement::Hard | Enforcement::Soft => limits.memory_max_bytes,
        Enforcement::Observe => None,
    }
}

/// What a recorded operation has of the budget whose owner is gone: the memory that what is left of it may use.
/// Nobody stores anything of it.
pub(crate) fn recorded_share(operation: &Operation) -> Share {
    let limits = load::limits(operation.resource_budget.as_ref());
    Share {
        memory_bytes: memory_held_to(limits.as_ref()).unwrap_or(0),
        output_bytes: 0,
    }
}
