//! `xioflow show`: everything that is recorded of one operation.

use serde_json::Value;
use xioflow_kernel::journal::{Operation, Query, Reader};
use xioflow_kernel::{DEFAULT_MAX_OUTPUT_BYTES, stored_result};

use super::{operation, reader};
use crate::args::{Cli, ShowArgs};
use crate::exit::Code;
use crate::failure::Failure;
use crate::output::{print, print_json, printable};
use crate::views::OperationView;

pub(crate) fn run(cli: &Cli, args: &ShowArgs) -> Result<Code, Failure> {
    let reader = reader(cli)?;
    let operation = operation(&reader, &args.operation)?;
    let run = reader.run(&operation.run_id)?;
    let result = result(&reader, &operation)?;
    let view = OperationView::new(&operation, run.as_ref(), result);
    if args.json {
        print_json(&view)?;
    } else {
        let view = serde_json::to_value(&view)
            .map_err(|error| Failure::of("render", Code::Internal, &error))?;
        let mut text = String::new();
        lines(&view, 0, &mut text);
        print(&text)?;
    }
    Ok(Code::Ok)
}

/// The recorded result with its output; null while there is none.
fn result(reader: &Reader, operation: &Operation) -> Result<Option<Value>, Failure> {
    if operation.result.is_none() {
        return Ok(None);
    }
    let outputs = reader.outputs(&operation.id)?;
    let artifacts = reader.dir().artifacts();
    let result = stored_result(operation, &outputs, &artifacts, DEFAULT_MAX_OUTPUT_BYTES)
        .map_err(|error| Failure::of("result_unreadable", Code::Internal, &error))?;
    serde_json::to_value(result)
        .map(Some)
        .map_err(|error| Failure::of("render", Code::Internal, &error))
}

/// Fields that `logs` prints better.
const OUTPUT_FIELDS: &[&str] = &["stdout", "stderr", "stdoutBase64", "stderrBase64"];

/// One line a field, nested ones indented; what is not known is left out.
fn lines(value: &Value, depth: usize, text: &mut String) {
    let Value::Object(fields) = value else { return };
    for (name, value) in fields {
        let empty = match value {
            Value::Null => true,
            Value::Array(items) => items.is_empty(),
            _ => OUTPUT_FIELDS.contains(&name.as_str()),
        };
        if empty {
            continue;
        }
        let indent = "  ".repeat(depth);
        match value {
            Value::Object(_) => {
                text.push_str(&format!("{indent}{name}:\n"));
                lines(value, depth + 1, text);
            }
            Value::String(string) => {
                text.push_str(&format!("{indent}{name}: {}\n", printable(string)));
            }
            other => text.push_str(&format!(
                "{indent}{name}: {}\n",
                printable(&other.to_string())
            )),
        }
    }
}
