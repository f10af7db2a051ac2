//! `xioflow events`: the journal's events, in their order.

use std::io;

use serde::Serialize;
use xioflow_kernel::journal::{Event, OperationStatus, Query, Reader};

use super::{follow, reader};
use crate::args::{Cli, EventsArgs};
use crate::exit::Code;
use crate::failure::Failure;
use crate::output::{conclude, print_json, print_json_line, print_line, printable};
use crate::views::{EventView, time};

/// Events read at once.
const PAGE_LEN: usize = 1000;

#[derive(Serialize)]
struct Listing {
    events: Vec<EventView>,
}

pub(crate) fn run(cli: &Cli, args: &EventsArgs) -> Result<Code, Failure> {
    let reader = reader(cli)?;
    let mut after = args.after;
    if let Some(id) = &args.op {
        follow::awaited(&reader, id, args.wait)?;
    }
    if args.json && !args.follow {
        let mut events = Vec::new();
        while let Some(page) = next_page(&reader, args, &mut after)? {
            events.extend(page.into_iter().map(EventView::from));
        }
        print_json(&Listing { events })?;
        return Ok(Code::Ok);
    }
    loop {
        // Both are asked before events are read: what comes in between is read now or wakes the sleep.
        let seen = reader.last_seq()?;
        let is_last = !args.follow || has_ended(&reader, args)?;
        while let Some(page) = next_page(&reader, args, &mut after)? {
            for event in page {
                let printed = print_one(event, args.json);
                if printed.is_err() {
                    // A reader that went away leaves nobody to follow for.
                    return conclude(printed).map(|()| Code::Ok);
                }
            }
        }
        if is_last {
            return Ok(Code::Ok);
        }
        follow::sleep(&reader, seen.max(after))?;
    }
}

/// Whether the operation that is followed has ended, so that no more is to come.
fn has_ended(reader: &Reader, args: &EventsArgs) -> Result<bool, Failure> {
    let Some(id) = &args.op else {
        return Ok(false);
    };
    let operation = reader.operation(id)?;
    Ok(operation.is_some_and(|operation| operation.status == OperationStatus::Done))
}

/// The next events, or `None` when there are no more for now.
fn next_page(
    reader: &Reader,
    args: &EventsArgs,
    after: &mut i64,
) -> Result<Option<Vec<Event>>, Failure> {
    let page = reader.events(*after, args.op.as_deref(), Some(PAGE_LEN))?;
    match page.last() {
        Some(last) => *after = last.seq,
        None => return Ok(None),
    }
    Ok(Some(page))
}

fn print_one(event: Event, as_json: bool) -> io::Result<()> {
    if as_json {
        return print_json_line(&EventView::from(event));
    }
    let about = event
        .operation_id
        .as_deref()
        .or(event.run_id.as_deref())
        .unwrap_or("-");
    print_line(&format!(
        "{:>6}  {}  {}  {}  {}",
        event.seq,
        time(event.timestamp_ms),
        event.kind,
        printable(about),
        printable(&event.payload.to_string())
    ))
}
