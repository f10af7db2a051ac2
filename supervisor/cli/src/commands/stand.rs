//! `xioflow pause` and `xioflow resume`: an operation stands still, and goes on.

use serde::Serialize;
use xioflow_kernel::Standing;
use xioflow_kernel::journal::PauseMeans;

use super::unserved::{self, Hints};
use crate::args::{Cli, StandArgs};
use crate::duration::format_ms;
use crate::exit::Code;
use crate::failure::Failure;
use crate::output::{print, print_json, printable};
use crate::{arbiter, domain};

/// What does it where nobody can be asked.
const PAUSE_HINTS: Hints = Hints {
    embedded: |pid| {
        format!("if that is `xioflow run`, `kill -TSTP {pid}` has it stand still with its tree")
    },
};

/// The same for going on.
const RESUME_HINTS: Hints = Hints {
    embedded: |pid| {
        format!("if that is `xioflow run`, `kill -CONT {pid}` has it go on with its tree")
    },
};

/// What a program reads.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Stands<'a> {
    operation_id: &'a str,
    /// By what it stands still; null if it goes on.
    paused: Option<PauseMeans>,
    /// Whether that is so since now, and was not before.
    changed: bool,
    timeout_left_ms: Option<u64>,
}

pub(crate) fn pause(cli: &Cli, args: &StandArgs) -> Result<Code, Failure> {
    stand(cli, args, true)
}

pub(crate) fn resume(cli: &Cli, args: &StandArgs) -> Result<Code, Failure> {
    stand(cli, args, false)
}

fn stand(cli: &Cli, args: &StandArgs, still: bool) -> Result<Code, Failure> {
    let folder = domain::locate(cli.domain())?;
    let id = &args.operation;
    let Some(domain) = arbiter::attached(&folder)? else {
        let hints = if still { &PAUSE_HINTS } else { &RESUME_HINTS };
        return Err(unserved::failure(&folder, id, hints)?);
    };
    let standing = match still {
        true => domain.pause(id)?,
        false => domain.resume(id)?,
    };
    let left = standing.timeout_left;
    let timeout_left_ms = left.map(|it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX));
    match args.json {
        true => print_json(&Stands {
            operation_id: id,
            paused: standing.paused,
            changed: standing.changed,
            timeout_left_ms,
        })?,
        false => print(&sentence(id, &standing, timeout_left_ms))?,
    }
    Ok(Code::Ok)
}

/// The same for people.
fn sentence(id: &str, standing: &Standing, timeout_left_ms: Option<u64>) -> String {
    let id = printable(id);
    let stands = match (standing.paused, standing.changed) {
        (Some(PauseMeans::Freeze), true) => {
            format!("operation {id} is frozen: the kernel runs nothing of it")
        }
        (Some(PauseMeans::Signals), true) => format!(
            "operation {id} was told to stand still (SIGSTOP to each process; whoever may signal one can have it go on)"
        ),
        (Some(_), false) => format!("operation {id} was paused already"),
        (None, true) => format!("operation {id} goes on"),
        (None, false) => format!("operation {id} was not paused"),
    };
    // Where it stands still, that is what may surprise.
    let left = timeout_left_ms.filter(|_| standing.paused.is_some());
    let left = left.map(|left| format!("; its time limit goes on, {} are left", format_ms(left)));
    format!("{stands}{}\n", left.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_weaker_is_said_and_what_goes_on_as_well() {
        let standing = |paused, changed| Standing {
            paused,
            changed,
            timeout_left: None,
        };
        let told = sentence(
            "x",
            &standing(Some(PauseMeans::Signals), true),
            Some(90_000),
        );
        assert!(
            told.contains("SIGSTOP") && told.contains("1 m 30 s are left"),
            "{told}"
        );
        let frozen = sentence("x", &standing(Some(PauseMeans::Freeze), true), None);
        assert_eq!(
            frozen,
            "operation x is frozen: the kernel runs nothing of it\n"
        );
        let goes_on = sentence("x", &standing(None, true), Some(90_000));
        assert_eq!(goes_on, "operation x goes on\n");
    }
}
