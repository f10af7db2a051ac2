//! Starts the process of a case, and waits for its end within bounds.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use xioflow_kit::{BIN_DIR_VARIABLE, Deadline, Place, wait};

use super::args::CASE;
use super::case::UNSUPPORTED;
use super::{Case, Verdict};

/// How long a case may take: far more than any does, so that only a hang reaches it.
const CASE_LONGEST: Duration = Duration::from_secs(180);

/// The process of a case.
pub(super) struct Begun {
    child: Child,
    user: &'static str,
    // Files and no pipes: what a case leaves behind would hold a pipe open.
    stdout: File,
    stderr: File,
}

/// Starts a case.
pub(super) fn begin(case: &Case<'_>, place: &Place) -> Begun {
    let [stdout, stderr] = [(); 2].map(|()| tempfile::tempfile().expect("a file"));
    let mut command = command(case, place);
    command.stdin(Stdio::null());
    command.stdout(stdout.try_clone().expect("a descriptor"));
    command.stderr(stderr.try_clone().expect("a descriptor"));
    Begun {
        child: command.spawn().expect("the runner can be executed again"),
        user: place.user_name(),
        stdout,
        stderr,
    }
}

/// Sees a case to its end.
pub(super) fn finish(begun: Begun) -> Verdict {
    let Begun {
        child,
        user,
        stdout,
        stderr,
    } = begun;
    let ended = wait_for(child);
    let (said, complained) = (text(stdout), text(stderr));
    match ended {
        Some(status) if status.success() => Verdict::Passed,
        Some(status) if status.code() == Some(UNSUPPORTED.into()) => {
            Verdict::Unsupported(said.trim().to_owned())
        }
        ended => {
            let end = end_in_words(ended);
            Verdict::Failed(format!("as {user}:\n{said}{complained}{end}\n"))
        }
    }
}

fn command(case: &Case<'_>, place: &Place) -> Command {
    let number = case.contract.number.to_string();
    let mut command = place.command();
    command
        .args([CASE, &number, case.way.name()])
        .env("TMPDIR", place.temporary())
        .env(BIN_DIR_VARIABLE, place.programs())
        // A case is the same in every shell.
        .env_remove("XIOFLOW_DOMAIN")
        .env_remove(xioflow_kernel::HELPER_VARIABLE);
    command
}

/// Waits for the end of a case, and makes one if it does not come.
fn wait_for(mut child: Child) -> Option<ExitStatus> {
    let in_time = wait::pid_gone(child.id(), Deadline::after(CASE_LONGEST));
    if !in_time {
        child.kill().expect("a child of ours");
    }
    let status = child.wait().expect("a child of ours");
    in_time.then_some(status)
}

fn text(mut file: File) -> String {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0)).expect("a file of ours");
    file.read_to_end(&mut bytes).expect("a file of ours");
    String::from_utf8_lossy(&bytes).into_owned()
}

fn end_in_words(ended: Option<ExitStatus>) -> String {
    let Some(status) = ended else {
        return format!("it did not end within {} s", CASE_LONGEST.as_secs());
    };
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("it ended with status {code}"),
        (None, signal) => format!("it was ended by signal {signal:?}"),
    }
}
