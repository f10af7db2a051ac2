//! `list --follow`: those that there are, and then one line for each that is new or has changed.

use std::collections::{HashMap, HashSet};
use std::io;

use xioflow_kernel::journal::{Operation, OperationStatus, Query, Reader};

use super::{Row, Widths, head, newest, row, status};
use crate::args::ListArgs;
use crate::commands::follow;
use crate::exit::Code;
use crate::failure::Failure;
use crate::output::{conclude, print_json_line, print_line};
use crate::views::OperationLine;

/// Events read at once.
const PAGE_LEN: usize = 1000;

pub(super) fn run(reader: &Reader, args: &ListArgs) -> Result<Code, Failure> {
    // The position is older than the look, so no change falls between the two.
    let mut seen = reader.last_seq()?;
    let mut follower = Follower::new(args.json);
    let mut known = newest(reader, args)?;
    known.reverse();
    let mut printed = follower.begin(&known);
    while printed.is_ok() {
        follow::sleep(reader, seen)?;
        let changed = changed_after(reader, &mut seen)?;
        let mut operations = Vec::with_capacity(changed.len());
        for id in &changed {
            operations.extend(reader.operation(id)?);
        }
        printed = follower.go_on(&operations);
    }
    // A reader that went away leaves nobody to follow for.
    conclude(printed).map(|()| Code::Ok)
}

/// The operations that have events after a position, in their order.
fn changed_after(reader: &Reader, seen: &mut i64) -> Result<Vec<String>, Failure> {
    let (mut ids, mut known) = (Vec::new(), HashSet::new());
    // Until there is none: then every commit among them was read whole.
    loop {
        let page = reader.events(*seen, None, Some(PAGE_LEN))?;
        let Some(last) = page.last() else {
            return Ok(ids);
        };
        *seen = last.seq;
        let of_page = page.into_iter().filter_map(|event| event.operation_id);
        ids.extend(of_page.filter(|id| known.insert(id.clone())));
    }
}

/// What was printed, so that nothing is printed twice.
struct Follower {
    as_json: bool,
    widths: Widths,
    /// The status that was printed of each.
    shown: HashMap<String, &'static str>,
    /// Those whose end was printed in this round.
    ended: Vec<String>,
}

impl Follower {
    fn new(as_json: bool) -> Self {
        Self {
            as_json,
            widths: Widths::default(),
            shown: HashMap::new(),
            ended: Vec::new(),
        }
    }

    fn begin(&mut self, operations: &[Operation]) -> io::Result<()> {
        let rows: Vec<Row> = operations.iter().map(row).collect();
        rows.iter().for_each(|row| self.widths.fit(row));
        if !self.as_json {
            self.widths.fit(&head());
            print_line(&self.widths.line(&head()))?;
        }
        operations.iter().try_for_each(|it| self.show(it))
    }

    /// An end may have been seen in the operation before its events were read, but those are read in the
    /// next round at the latest. It is forgotten then: a follower may live for ever.
    fn go_on(&mut self, operations: &[Operation]) -> io::Result<()> {
        let over = std::mem::take(&mut self.ended);
        operations.iter().try_for_each(|it| self.show(it))?;
        for id in &over {
            self.shown.remove(id);
        }
        Ok(())
    }

    fn show(&mut self, operation: &Operation) -> io::Result<()> {
        let status = status(operation);
        if self.shown.insert(operation.id.clone(), status) == Some(status) {
            return Ok(());
        }
        if operation.status == OperationStatus::Done {
            self.ended.push(operation.id.clone());
        }
        if self.as_json {
            return print_json_line(&OperationLine::from(operation));
        }
        let row = row(operation);
        self.widths.fit(&row);
        print_line(&self.widths.line(&row))
    }
}
