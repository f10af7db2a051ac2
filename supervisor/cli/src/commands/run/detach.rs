//! `run --detach`: ends when the operation runs, and leaves it to the arbiter.

use std::sync::mpsc::{self, Sender};
use std::thread;

use serde::Serialize;
use xioflow_kernel::{
    Active, DEFAULT_CANCEL_GRACE, ExecuteError, OperationBuilder, OperationResult, Reuse,
};

use crate::args::RunArgs;
use crate::commands::report;
use crate::exit::{self, Code};
use crate::failure::Failure;
use crate::output;
use crate::signals::{self, CancelledBy};

/// What comes first.
enum First {
    /// It runs, or another submission of it does.
    Active(Active),
    /// It is over: it was recorded before, or never ran.
    Over(Box<Result<OperationResult, ExecuteError>>),
}

/// What a program reads.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Detached<'a> {
    operation_id: &'a str,
    run_id: &'a str,
    joined: bool,
    replayed: bool,
}

pub(super) fn run(operation: OperationBuilder, args: &RunArgs) -> Result<Code, Failure> {
    let grace = args.grace.unwrap_or(DEFAULT_CANCEL_GRACE);
    // Until it runs, it may have to wait for its leases, and Ctrl-C ends that.
    let by = signals::forward(operation.canceller(), grace)?;
    let (told, first) = mpsc::channel();
    submit(operation.detached(true), told)?;
    match first.recv() {
        Ok(First::Active(active)) => {
            if !args.quiet {
                report::host_moved(&active);
            }
            announce(
                args,
                &Detached {
                    operation_id: &active.operation_id,
                    run_id: &active.run_id,
                    joined: active.joined,
                    replayed: false,
                },
            )
        }
        Ok(First::Over(ended)) => over(args, &(*ended)?, &by),
        // The submitting thread says one or the other, unless it has panicked.
        Err(mpsc::RecvError) => Err(Failure::new(
            "internal",
            Code::Internal,
            "the submission broke a rule of its own",
        )),
    }
}

/// Submits it on a thread of its own, which nobody waits for once it is told that it runs.
fn submit(operation: OperationBuilder, told: Sender<First>) -> Result<(), Failure> {
    let active = told.clone();
    // Nobody listens any more once something was told.
    let operation = operation.when_active(move |it| drop(active.send(First::Active(it))));
    thread::Builder::new()
        .name("xioflow-submission".to_owned())
        .spawn(move || drop(told.send(First::Over(Box::new(operation.run())))))
        .map(drop)
        .map_err(|error| {
            Failure::of_act("thread", Code::Internal, "failed to start a thread", &error)
        })
}

fn announce(args: &RunArgs, detached: &Detached<'_>) -> Result<Code, Failure> {
    if args.json {
        output::print_json(detached)?;
    } else {
        output::print(&format!("{}\n", detached.operation_id))?;
    }
    Ok(Code::Ok)
}

/// A recorded result is there to be attached to; what never ran is reported as it is without --detach.
fn over(args: &RunArgs, result: &OperationResult, by: &CancelledBy) -> Result<Code, Failure> {
    if result.reused != Reuse::ReplayedRecorded {
        let code = exit::of_result(result, by.signal());
        if args.json {
            output::print_json(result)?;
        }
        report::result(result, None, code, args.quiet);
        return Ok(code);
    }
    if !args.quiet {
        output::complain(&format!(
            "operation {} was not executed again; `xioflow attach` gives its recorded result",
            result.operation_id
        ));
    }
    announce(
        args,
        &Detached {
            operation_id: &result.operation_id,
            run_id: &result.run_id,
            joined: false,
            replayed: true,
        },
    )
}
