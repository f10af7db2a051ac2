//! What the operations of a domain may take together, and what one of them takes of it: the sums. Pure.
//! `leases` asks here whether one more fits.

use std::fmt;

/// What all running operations of a domain may take together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct DomainBudget {
    /// How many of them there may be; `None`: as many as are asked for.
    pub concurrent_max: Option<usize>,
    /// What their memory limits may come to, in bytes; `None`: whatever they are.
    pub memory_max_bytes: Option<u64>,
    /// What they may store of their output, in bytes; `None`: whatever each may.
    pub output_max_bytes: Option<u64>,
}

impl DomainBudget {
    pub(super) fn max(&self, amount: Amount) -> Option<u64> {
        match amount {
            Amount::Memory => self.memory_max_bytes,
            Amount::Output => self.output_max_bytes,
        }
    }

    /// What of a share is more than the whole, so that no wait could help.
    #[must_use]
    pub fn exceeded_by(&self, share: Share) -> Option<Shortage> {
        let too_much =
            |amount: &Amount| self.max(*amount).is_some_and(|max| share.of(*amount) > max);
        let amount = Amount::ALL.into_iter().find(too_much)?;
        Some(Shortage {
            amount,
            asked_bytes: share.of(amount),
            free_bytes: 0,
            max_bytes: self.max(amount)?,
        })
    }

    /// What of a share does not fit beside what is `taken`.
    pub(super) fn shortage(&self, share: Share, taken: Share) -> Option<Shortage> {
        Amount::ALL.into_iter().find_map(|amount| {
            let (asked, max) = (share.of(amount), self.max(amount)?);
            // Who wants nothing of it does not wait for it either, also where it is overdrawn.
            let fits = asked == 0 || taken.of(amount).saturating_add(asked) <= max;
            (!fits).then(|| Shortage {
                amount,
                asked_bytes: asked,
                free_bytes: max.saturating_sub(taken.of(amount)),
                max_bytes: max,
            })
        })
    }
}

/// What one operation takes of a [`DomainBudget`], beside its place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Share {
    /// Its memory limit, in bytes.
    pub memory_bytes: u64,
    /// What it may store of its output, in bytes.
    pub output_bytes: u64,
}

impl Share {
    /// How much of one kind it is.
    #[must_use]
    pub fn of(self, amount: Amount) -> u64 {
        match amount {
            Amount::Memory => self.memory_bytes,
            Amount::Output => self.output_bytes,
        }
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            memory_bytes: self.memory_bytes.saturating_add(other.memory_bytes),
            output_bytes: self.output_bytes.saturating_add(other.output_bytes),
        }
    }
}

/// What there is a budget of, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Amount {
    /// Memory, by the limits of operations.
    Memory,
    /// Stored output.
    Output,
}

impl Amount {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Memory, Self::Output];

    /// The resource that is named in a conflict when this is what blocks.
    #[must_use]
    pub fn resource(self) -> &'static str {
        match self {
            Self::Memory => "domain:max_total_memory",
            Self::Output => "domain:max_total_output",
        }
    }

    /// The one whose resource has this name.
    #[must_use]
    pub fn of_resource(resource: &str) -> Option<Self> {
        let named = |amount: &Self| amount.resource() == resource;
        Self::ALL.into_iter().find(named)
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "memory",
            Self::Output => "stored output",
        })
    }
}

/// That a budget has no room for an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shortage {
    /// Of what.
    pub amount: Amount,
    /// What the operation asks for, in bytes.
    pub asked_bytes: u64,
    /// What is left for it, in bytes: those who wait with an older claim come first.
    pub free_bytes: u64,
    /// The whole budget, in bytes.
    pub max_bytes: u64,
}

/// Why an operation has to wait for a part of a budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scarcity {
    /// How much there is, and how much was asked for.
    pub shortage: Shortage,
    /// Who has some of it beside the one that has the most, or waits for some with an older claim: the first few,
    /// those with more before those with less.
    pub others: Vec<String>,
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            amount,
            asked_bytes,
            free_bytes,
            max_bytes,
        } = self;
        write!(
            f,
            "it asks for {} of {amount}, and {} of the domain's {} are free",
            Bytes(*asked_bytes),
            Bytes(*free_bytes),
            Bytes(*max_bytes),
        )
    }
}

/// A number of bytes as people write it: in the largest unit that it is a whole number of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bytes(pub(crate) u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(&str, u32); 3] = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
        let whole = |(_, shift): &(&str, u32)| self.0 != 0 && self.0.trailing_zeros() >= *shift;
        match UNITS.into_iter().find(whole) {
            Some((unit, shift)) => write!(f, "{} {unit}", self.0 >> shift),
            None => write!(f, "{} bytes", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: DomainBudget = DomainBudget {
        concurrent_max: None,
        memory_max_bytes: Some(100),
        output_max_bytes: None,
    };

    fn memory(memory_bytes: u64) -> Share {
        Share {
            memory_bytes,
            ..Share::default()
        }
    }

    #[test]
    fn the_whole_fits_and_a_byte_more_never_does() {
        assert_eq!(BUDGET.exceeded_by(memory(100)), None);
        let over = BUDGET.exceeded_by(memory(101)).unwrap();
        assert_eq!((over.amount, over.max_bytes), (Amount::Memory, 100));
        assert_eq!(BUDGET.shortage(memory(40), memory(60)), None);
        let short = BUDGET.shortage(memory(41), memory(60)).unwrap();
        assert_eq!((short.asked_bytes, short.free_bytes), (41, 40));
    }

    #[test]
    fn what_has_no_budget_is_never_short() {
        let much = Share {
            memory_bytes: 0,
            output_bytes: u64::MAX,
        };
        assert_eq!(BUDGET.exceeded_by(much), None);
        assert_eq!(BUDGET.shortage(much, much), None);
    }

    #[test]
    fn who_wants_nothing_passes_one_that_is_overdrawn() {
        assert_eq!(BUDGET.shortage(memory(0), memory(500)), None);
        let short = BUDGET.shortage(memory(1), memory(u64::MAX)).unwrap();
        assert_eq!(short.free_bytes, 0);
    }

    #[test]
    fn amounts_are_written_in_whole_units() {
        let cases = [
            (0, "0 bytes"),
            (1000, "1000 bytes"),
            (3 << 10, "3 KiB"),
            (96 << 20, "96 MiB"),
            (1 << 40, "1024 GiB"),
        ];
        for (bytes, text) in cases {
            assert_eq!(Bytes(bytes).to_string(), text);
        }
    }

    #[test]
    fn a_resource_names_its_amount() {
        for amount in Amount::ALL {
            assert_eq!(Amount::of_resource(amount.resource()), Some(amount));
        }
        assert_eq!(Amount::of_resource("domain:max_concurrent_ops"), None);
    }
}
