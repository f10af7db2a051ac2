//! `xioflow list`: operations, the newest first.

use serde::Serialize;
use xioflow_kernel::journal::{Operation, OperationFilter, OperationStatus, Query, Reader};

use super::reader;
use crate::args::{Cli, ListArgs};
use crate::duration::format_ms;
use crate::exit::Code;
use crate::failure::Failure;
use crate::output::{print, print_json, printable};
use crate::views::{OperationLine, time};

mod follow;
mod watch;

#[derive(Serialize)]
struct Listing {
    operations: Vec<OperationLine>,
}

pub(crate) fn run(cli: &Cli, args: &ListArgs) -> Result<Code, Failure> {
    let reader = reader(cli)?;
    if args.watch {
        return watch::run(reader.dir().root(), args);
    }
    if args.follow {
        return follow::run(&reader, args);
    }
    let operations = newest(&reader, args)?;
    if args.json {
        print_json(&Listing {
            operations: operations.iter().map(OperationLine::from).collect(),
        })?;
    } else if operations.is_empty() {
        let kind = if args.unfinished { "unfinished " } else { "" };
        print(&format!("no {kind}operations\n"))?;
    } else {
        print(&table(&operations))?;
    }
    Ok(Code::Ok)
}

/// What is asked for, the newest first.
fn newest(reader: &Reader, args: &ListArgs) -> Result<Vec<Operation>, Failure> {
    if args.unfinished {
        let all = reader.unfinished()?.into_iter().rev();
        return Ok(all.take(args.limit).collect());
    }
    Ok(reader.operations(&OperationFilter {
        limit: Some(args.limit),
        ..OperationFilter::default()
    })?)
}

type Row = [String; 6];

fn head() -> Row {
    ["OPERATION", "STATUS", "EXIT", "STARTED", "TOOK", "NAME"].map(str::to_owned)
}

fn table(operations: &[Operation]) -> String {
    let rows: Vec<Row> = std::iter::once(head())
        .chain(operations.iter().map(row))
        .collect();
    let mut widths = Widths::default();
    rows.iter().for_each(|row| widths.fit(row));
    rows.iter().map(|row| widths.line(row) + "\n").collect()
}

/// How wide each column is, in characters.
#[derive(Default)]
struct Widths([usize; 6]);

impl Widths {
    fn fit(&mut self, row: &Row) {
        for (width, cell) in self.0.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }

    fn line(&self, row: &Row) -> String {
        let cells = row.iter().zip(&self.0);
        let cells: Vec<String> = cells
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        cells.join("  ").trim_end().to_owned()
    }
}

fn row(operation: &Operation) -> Row {
    let took = operation
        .finished_at_ms
        .and_then(|end| u64::try_from(end - operation.created_at_ms).ok());
    [
        printable(&operation.id),
        status(operation).to_owned(),
        exit(operation),
        time(operation.created_at_ms),
        took.map_or_else(|| "-".to_owned(), format_ms),
        printable(&operation.name),
    ]
}

/// What has become of it so far.
fn status(operation: &Operation) -> &'static str {
    match operation.status {
        // Told apart from those that wait for somebody.
        OperationStatus::Done if operation.adjudication.is_some() => "adjudicated",
        OperationStatus::Done => operation.outcome.map_or("done", |outcome| outcome.as_str()),
        OperationStatus::Active if operation.pause.is_some() => "paused",
        status => status.as_str(),
    }
}

/// The exit status or the signal, or a dash for what was not observed.
fn exit(operation: &Operation) -> String {
    let field = |name: &str| {
        operation
            .result
            .as_ref()
            .and_then(|result| result.get(name))
    };
    let code = field("exitCode")
        .and_then(serde_json::Value::as_i64)
        .map(|code| code.to_string());
    let signal = field("signal")
        .and_then(serde_json::Value::as_str)
        .map(str::to_owned);
    code.or(signal).unwrap_or_else(|| "-".to_owned())
}
