//! What can be asked of the record. Everything here may wait for the disk, so it runs beside the loop.
//!
//! The documents are those that the command line prints: both use [`xioflow_kernel::views`].

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use xioflow_journal::{OperationFilter, Query, RunStatus, TerminationReason};
use xioflow_kernel::views::{EventView, OperationLine, OperationView};
use xioflow_kernel::{
    DEFAULT_MAX_OUTPUT_BYTES, Domain, Extent, OutputReader, PauseError, RunHandle, TaskHandle,
    stored_result,
};
use xioflow_rpc::domain::{
    FindRun, LastReport, OpenRun, ReportRun, RunOpen, RunReported, SaveTask, TaskSaved,
};
use xioflow_rpc::journal::{Events, GetOperation, ListOperations, Operations, ReadEvents};
use xioflow_rpc::operation::{INLINE_MAX_BYTES, Loads, OutputRead, Pause, ReadOutput, Standing};
use xioflow_rpc::refusal::{Fault, code};

use crate::convert::stream_in;
use crate::inline::omit_long_output;
use crate::limits::{EVENTS_PAGE_BYTES, LIST_DEFAULT, PAGE_MAX};
use crate::refusal::{self, invalid};

/// `op.loads`. It looks at every process of every operation.
pub(crate) fn loads(domain: &Domain) -> Result<Loads, Fault> {
    let loads = domain.loads().map_err(|e| refusal::of_not_active(&e))?;
    let twin = |load| serde_json::from_value(serde_json::to_value(load)?);
    let operations: Result<_, serde_json::Error> = loads.into_iter().map(twin).collect();
    let operations = operations
        .map_err(|error| Fault::new(code::INTERNAL, format!("a load is no load: {error}")))?;
    Ok(Loads { operations })
}

/// `op.pause`.
pub(crate) fn pause(domain: &Domain, asked: &Pause) -> Result<Standing, Fault> {
    standing(domain.pause(&asked.operation_id))
}

/// `op.unpause`.
pub(crate) fn unpause(domain: &Domain, asked: &Pause) -> Result<Standing, Fault> {
    standing(domain.resume(&asked.operation_id))
}

fn standing(told: Result<xioflow_kernel::Standing, PauseError>) -> Result<Standing, Fault> {
    let told = told.map_err(|error| refusal::of_pause(&error))?;
    let left = told.timeout_left;
    Ok(Standing {
        paused: told.paused.map(|means| means.as_str().to_owned()),
        changed: told.changed,
        timeout_left_ms: left.map(|it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX)),
    })
}

/// `op.get`. With more output than travels in a result, that is left out, and the document says so.
pub(crate) fn operation(domain: &Domain, asked: &GetOperation) -> Result<Value, Fault> {
    let (id, journal) = (&asked.operation_id, domain.journal());
    let operation = journal.operation(id).map_err(|e| refusal::of_read(&e))?;
    let operation = operation.ok_or_else(|| refusal::no_operation(id))?;
    let run = journal.run(&operation.run_id);
    let run = run.map_err(|error| refusal::of_read(&error))?;
    if operation.result.is_none() {
        return document(OperationView::new(&operation, run.as_ref(), None));
    }
    let outputs = journal.outputs(id).map_err(|e| refusal::of_read(&e))?;
    let artifacts = domain.folder().join("artifacts");
    let result = stored_result(&operation, &outputs, &artifacts, DEFAULT_MAX_OUTPUT_BYTES);
    let mut result = result.map_err(|error| refusal::of_stored(&error))?;
    let output_omitted = omit_long_output(&mut result);
    let result = document(result)?;
    let mut view = document(OperationView::new(&operation, run.as_ref(), Some(result)))?;
    if output_omitted {
        view["outputOmitted"] = json!(true);
    }
    Ok(view)
}

/// `op.list`.
pub(crate) fn operations(domain: &Domain, asked: &ListOperations) -> Result<Operations, Fault> {
    let limit = page(asked.limit, LIST_DEFAULT)?;
    let journal = domain.journal();
    let operations = if asked.unfinished {
        let all = journal.unfinished();
        all.map(|all| all.into_iter().rev().take(limit).collect())
    } else {
        journal.operations(&OperationFilter {
            limit: Some(limit),
            ..OperationFilter::default()
        })
    };
    let operations: Vec<_> = operations.map_err(|error| refusal::of_read(&error))?;
    let lines = operations
        .iter()
        .map(|it| document(OperationLine::from(it)));
    Ok(Operations {
        operations: lines.collect::<Result<_, _>>()?,
    })
}

/// `journal.read`. A page ends early where it would become too long for a message.
pub(crate) fn events(domain: &Domain, asked: &ReadEvents) -> Result<Events, Fault> {
    let limit = page(asked.limit, PAGE_MAX)?;
    let of = asked.operation_id.as_deref();
    let page = domain.journal().events(asked.after, of, Some(limit));
    let page = page.map_err(|error| refusal::of_read(&error))?;
    let (mut events, mut after, mut bytes) = (Vec::new(), asked.after, 0);
    for event in page {
        let seq = event.seq;
        let event = document(EventView::from(event))?;
        bytes += event.to_string().len();
        if bytes > EVENTS_PAGE_BYTES && !events.is_empty() {
            break;
        }
        events.push(event);
        after = seq;
    }
    Ok(Events { events, after })
}

/// How many are asked for.
fn page(asked: Option<u32>, default: usize) -> Result<usize, Fault> {
    match asked.map(|asked| usize::try_from(asked).unwrap_or(usize::MAX)) {
        None => Ok(default),
        Some(asked) if (1..=PAGE_MAX).contains(&asked) => Ok(asked),
        Some(asked) => Err(invalid(format!("a limit is 1 to {PAGE_MAX}, not {asked}"))),
    }
}

fn document(view: impl serde::Serialize) -> Result<Value, Fault> {
    serde_json::to_value(view).map_err(|error| Fault::new(code::INTERNAL, error.to_string()))
}

/// `artifacts.read`.
pub(crate) fn output(domain: &Domain, asked: &ReadOutput) -> Result<OutputRead, Fault> {
    let failed = |error| refusal::of_output(&asked.operation_id, &error);
    let reader = domain.output(&asked.operation_id, stream_in(asked.stream));
    let reader = reader.map_err(failed)?;
    let most = asked
        .max_bytes
        .unwrap_or(INLINE_MAX_BYTES)
        .min(INLINE_MAX_BYTES);
    let bytes = read(&reader, asked.from, most).map_err(failed)?;
    Ok(OutputRead {
        base64: STANDARD.encode(bytes),
        len: reader.len().map_err(failed)?,
        complete: reader.is_complete(),
        gap: reader.gap().map(|gap| (gap.from, gap.to)),
    })
}

/// Stored bytes that stand together, up to `most`.
fn read(
    reader: &OutputReader,
    from: u64,
    most: u64,
) -> Result<Vec<u8>, xioflow_kernel::OutputError> {
    let Extent::Stored { to } = reader.extent(from)? else {
        return Ok(Vec::new());
    };
    let wanted = usize::try_from((to - from).min(most)).unwrap_or(0);
    let mut bytes = vec![0; wanted];
    let mut len = 0;
    while len < wanted {
        match reader.read_at(from + len as u64, &mut bytes[len..])? {
            0 => break,
            more => len += more,
        }
    }
    bytes.truncate(len);
    Ok(bytes)
}

/// `recovery.lastReport`.
pub(crate) fn last_report(domain: &Domain) -> Result<LastReport, Fault> {
    // Both have the same form; the wire's is the twin of the kernel's.
    let twin = |decision| {
        let twin = serde_json::from_value(document(decision)?);
        twin.map_err(|error| Fault::new(code::INTERNAL, error.to_string()))
    };
    let decisions = domain.recovered().iter().map(twin);
    Ok(LastReport {
        decisions: decisions.collect::<Result<_, _>>()?,
    })
}

/// `task.save`.
pub(crate) fn save_task(domain: &Domain, asked: SaveTask) -> Result<TaskSaved, Fault> {
    let task = domain.begin_task(&asked.name, asked.meta);
    let task = task.map_err(|error| refusal::of_execute(&error))?;
    Ok(TaskSaved {
        task_id: task.id().to_owned(),
    })
}

/// `run.find`.
pub(crate) fn find_run(domain: &Domain, asked: &FindRun) -> Result<RunOpen, Fault> {
    find(domain, &asked.run_id).map(|run| opened(&run))
}

fn find(domain: &Domain, run_id: &str) -> Result<RunHandle, Fault> {
    domain.open_run(run_id).map_err(|e| refusal::of_run(&e))
}

fn opened(run: &RunHandle) -> RunOpen {
    RunOpen {
        run_id: run.id().to_owned(),
    }
}

/// `run.open`.
pub(crate) fn open_run(domain: &Domain, asked: &OpenRun) -> Result<RunOpen, Fault> {
    let run = match (&asked.task_id, &asked.name) {
        (Some(_), Some(_)) => {
            return Err(invalid(
                "a Run is of a Task that is recorded, or of a new one with a name",
            ));
        }
        (Some(task_id), None) => task(domain, task_id)?.begin_run(&asked.config),
        (None, name) => domain.begin_run(name.as_deref().unwrap_or_default(), &asked.config),
    };
    run.map(|run| opened(&run))
        .map_err(|error| refusal::of_execute(&error))
}

fn task(domain: &Domain, task_id: &str) -> Result<TaskHandle, Fault> {
    let task = domain.open_task(task_id);
    let task = task.map_err(|error| refusal::of_read(&error))?;
    task.ok_or_else(|| refusal::no_task(task_id))
}

/// `run.report`.
pub(crate) fn report_run(domain: &Domain, asked: &ReportRun) -> Result<RunReported, Fault> {
    let reason = reason(asked)?;
    let run = domain.run_of_id(&asked.run_id);
    let status = match (asked.status.as_str(), reason) {
        ("succeeded", None) => run.report_succeeded(),
        ("failed", Some(reason)) => run.report_failed(reason),
        ("cancelled", None) => run.report_cancelled(),
        (status, _) => {
            let message = format!(
                "a Run ends as succeeded or cancelled, or as failed with a reason; not {status}"
            );
            return Err(invalid(message));
        }
    };
    let status: RunStatus = status.map_err(|error| refusal::of_run(&error))?;
    Ok(RunReported {
        status: status.as_str().to_owned(),
    })
}

fn reason(asked: &ReportRun) -> Result<Option<TerminationReason>, Fault> {
    let Some(name) = &asked.reason else {
        return Ok(None);
    };
    let reason = serde_json::from_value(json!(name));
    reason
        .map(Some)
        .map_err(|_| invalid(format!("{name:?} is no termination reason")))
}
