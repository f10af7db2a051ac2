//! What the operations of a domain may take together and what they have of it now, for whoever looks.
//! `leases` has the rules, `options` sets the limits.

use super::Domain;
use crate::backend::Backend;
use crate::domain::Inner;
use crate::error::ArbiterError;
use crate::leases::{DomainBudget, Share};

/// The budget of a domain and what is taken of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetInUse {
    /// What all operations may take together.
    pub max: DomainBudget,
    /// How many there are that have not ended.
    pub operations: usize,
    /// What they have of its amounts. Those whose end could not be proven have their memory still.
    pub taken: Share,
    /// How many wait: for a part of it, or for a resource.
    pub waiting: usize,
}

impl Domain {
    /// What operations may take together, and what they have of it now.
    ///
    /// # Errors
    /// [`ArbiterError`] if an arbiter owns the domain, and it cannot be asked, or is of a release without a budget.
    ///
    /// # Examples
    /// ```
    /// # let stage = xioflow_kit::Stage::new();
    /// # let options = xioflow_kernel::DomainOptions::default().helper(stage.program("xioflow-reaper"));
    /// use xioflow_kernel::{Command, ExecuteError};
    ///
    /// let domain = options.max_total_output_bytes(1 << 20).open(stage.domain())?;
    /// domain.run(Command::new("/bin/true"))?;
    /// let budget = domain.budget()?;
    /// assert_eq!((budget.operations, budget.taken.output_bytes), (0, 0));
    ///
    /// let greedy = domain.operation(Command::new("/bin/true"))?.max_stored_bytes(1 << 30);
    /// assert!(matches!(greedy.run(), Err(ExecuteError::BudgetExceeded { .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn budget(&self) -> Result<BudgetInUse, ArbiterError> {
        match &self.backend {
            Backend::Own(inner) => Ok(inner.budget_in_use()),
            Backend::Attached(attached) => attached.budget(),
        }
    }
}

impl Inner {
    fn budget_in_use(&self) -> BudgetInUse {
        let taken = self.leases.taken();
        BudgetInUse {
            max: self.leases.budget(),
            operations: taken.operations,
            taken: taken.share,
            waiting: taken.waiting,
        }
    }
}
