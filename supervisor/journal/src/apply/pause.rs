//! Changes of operations that stand still and go on: events, and no row. `rows` reads from them whether an
//! operation is paused.

use super::{Applier, ApplyError, Rejected};
use crate::events::{Fact, Subject};
use crate::model::{Operation, OperationStatus, PauseMeans};
use crate::query::{first_of, operation_columns};
use crate::rows;

impl Applier<'_> {
    pub(super) fn pause(&mut self, id: &str, means: PauseMeans) -> Result<(), ApplyError> {
        let operation = self.operation(id)?;
        if operation.status != OperationStatus::Active || operation.pause.is_some() {
            return Err(rule(operation, "be paused").into());
        }
        self.journal_of(&operation, &Fact::Paused { means })
    }

    pub(super) fn resume(&mut self, id: &str) -> Result<(), ApplyError> {
        let operation = self.operation(id)?;
        match operation.pause {
            Some(pause) => self.journal_of(&operation, &Fact::Resumed { means: pause.means }),
            None => Err(rule(operation, "go on").into()),
        }
    }

    fn operation(&self, id: &str) -> Result<Operation, ApplyError> {
        let columns = operation_columns(self.connection)?;
        let sql = format!("SELECT {columns} FROM operations WHERE id = ?1");
        let found = first_of(self.connection, &sql, [id], rows::operation)?;
        let operation_id = id.to_owned();
        Ok(found.ok_or(Rejected::NoSuchOperation { operation_id })?)
    }

    fn journal_of(&mut self, operation: &Operation, fact: &Fact<'_>) -> Result<(), ApplyError> {
        let subject = Subject {
            run_id: Some(&operation.run_id),
            operation_id: Some(&operation.id),
        };
        Ok(self.journal(&subject, fact)?)
    }
}

fn rule(operation: Operation, verb: &'static str) -> Rejected {
    Rejected::PauseRule {
        status: operation.status,
        paused: operation.pause.is_some(),
        operation_id: operation.id,
        verb,
    }
}
