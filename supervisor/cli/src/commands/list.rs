//! `xioflow list`: operations, the newest first.

use serde::Serialize;
use xioflow_kernel::journal::{Operation, OperationFilter, OperationStatus, Query};

use super::reader;
use crate::args::{Cli, ListArgs};
use crate::duration::format_ms;
use crate::exit::Code;
use crate::failure::Failure;
use crate::output::{print, print_json, printable};
use crate::views::{OperationLine, time};

#[derive(Serialize)]
struct Listing {
    operations: Vec<OperationLine>,
}

pub(crate) fn run(cli: &Cli, args: &ListArgs) -> Result<Code, Failure> {
    let reader = reader(cli)?;
    let operations = if args.unfinished {
        reader
            .unfinished()?
            .into_iter()
            .rev()
            .take(args.limit)
            .collect()
    } else {
        reader.operations(&OperationFilter {
            limit: Some(args.limit),
            ..OperationFilter::default()
        })?
    };
    if args.json {
        print_json(&Listing {
            operations: operations.iter().map(OperationLine::from).collect(),
        })?;
    } else {
        print(&table(&operations, args))?;
    }
    Ok(Code::Ok)
}

fn table(operations: &[Operation], args: &ListArgs) -> String {
    if operations.is_empty() {
        let kind = if args.unfinished { "unfinished " } else { "" };
        return format!("no {kind}operations\n");
    }
    let mut rows =
        vec![["OPERATION", "STATUS", "EXIT", "STARTED", "TOOK", "NAME"].map(str::to_owned)];
    rows.extend(operations.iter().map(row));
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..6).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

fn row(operation: &Operation) -> [String; 6] {
    let status = match operation.status {
        OperationStatus::Done => operation.outcome.map_or("done", |outcome| outcome.as_str()),
        status => status.as_str(),
    };
    let took = operation
        .finished_at_ms
        .and_then(|end| u64::try_from(end - operation.created_at_ms).ok());
    [
        printable(&operation.id),
        status.to_owned(),
        exit(operation),
        time(operation.created_at_ms),
        took.map_or_else(|| "-".to_owned(), format_ms),
        printable(&operation.name),
    ]
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
