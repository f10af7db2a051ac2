//! What a caller declares to be done where a command was stopped and may have left work outside of its tree:
//! the words, when they are due, and what became of them. Pure; `operation/act` runs it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use xioflow_journal::TerminationReason;

use crate::command::{InvalidCommand, no_nul};
use crate::guidance::as_word;
use crate::result::{OperationResult, SpawnFailure, TreeSettlement};

/// How long a stop action may take, unless the caller says otherwise.
pub const DEFAULT_STOP_ACTION_TIMEOUT: Duration = Duration::from_secs(10);

/// Length of its words at most, in bytes: they are recorded, and a person must be able to read them.
pub const STOP_ACTION_MAX_BYTES: usize = 4096;

/// When a stop action is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopActionWhen {
    /// When the command ran and did not come to an exit of its own: it was stopped, timed out, was killed, or
    /// its end was not seen.
    #[default]
    Stopped,
    /// Whenever it ran.
    Always,
}

/// A command that ends work which another command may have given to others: `docker rm --force build-7`.
///
/// It runs at most once, after the tree of the command has come to its end and before the result is
/// recorded, so the operation keeps its leases until it is over. It has the command's environment, folder
/// and privileges, an empty standard input, a helper of its own that ends what it leaves, and a time limit.
/// What became of it is [`OperationResult::stop_action`]; it changes nothing of how the command ended.
///
/// Its words are recorded as they are, unlike those of a command, so that a person can do by hand what could not
/// be done: name secrets in it by variables. They are part of what makes the operation the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopAction {
    pub(crate) program: OsString,
    pub(crate) args: Vec<OsString>,
    pub(crate) when: StopActionWhen,
    pub(crate) timeout: Duration,
}

impl StopAction {
    /// Makes one that runs `program`, which is found as a command's is.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            when: StopActionWhen::Stopped,
            timeout: DEFAULT_STOP_ACTION_TIMEOUT,
        }
    }

    /// Makes one that has `/bin/sh` run a script.
    pub fn shell(script: impl Into<OsString>) -> Self {
        Self::new(SHELL).arg("-c").arg(script)
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets when it is due.
    #[must_use]
    pub fn when(mut self, when: StopActionWhen) -> Self {
        self.when = when;
        self
    }

    /// Sets how long it may take; 10 s by default. What still runs then is asked to end, and killed after 1 s.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The script, if it is one.
    fn script(&self) -> Option<&OsStr> {
        match self.args.as_slice() {
            [option, script] if self.program == SHELL && option == "-c" => Some(script),
            _ => None,
        }
    }

    /// Its words as one types them.
    pub(crate) fn words(&self) -> String {
        if let Some(script) = self.script() {
            return script.to_string_lossy().into_owned();
        }
        let words = std::iter::once(&self.program).chain(&self.args);
        let words: Vec<String> = words.map(|word| as_word(&word.to_string_lossy())).collect();
        words.join(" ")
    }

    /// Checks everything that needs no system call.
    pub(crate) fn validate(&self) -> Result<(), InvalidCommand> {
        if self.program.is_empty() {
            return Err(InvalidCommand::EmptyProgram);
        }
        if self
            .script()
            .is_some_and(|script| script.as_bytes().trim_ascii().is_empty())
        {
            return Err(InvalidCommand::StopActionEmpty);
        }
        if self.timeout.is_zero() {
            return Err(InvalidCommand::StopActionWithoutTime);
        }
        let words: Vec<&OsStr> = self.strings().collect();
        for word in &words {
            no_nul(word, || "a word of the stop action".to_owned())?;
        }
        let len = words.iter().map(|word| word.as_bytes().len() + 1).sum();
        match len > STOP_ACTION_MAX_BYTES {
            true => Err(InvalidCommand::StopActionTooLong { len }),
            false => Ok(()),
        }
    }

    pub(crate) fn strings(&self) -> impl Iterator<Item = &OsStr> {
        let words = std::iter::once(&self.program).chain(&self.args);
        words.map(OsString::as_os_str)
    }

    pub(crate) fn timeout_ms(&self) -> u64 {
        u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX)
    }
}

const SHELL: &str = "/bin/sh";

/// What is recorded of it before the command runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Declared {
    pub(crate) words: String,
    pub(crate) when: StopActionWhen,
    pub(crate) timeout_ms: u64,
}

/// Where it stands in what was granted to an operation.
const BUDGET_KEY: &str = "stopAction";

impl Declared {
    pub(crate) fn of(action: &StopAction) -> Self {
        Self {
            words: action.words(),
            when: action.when,
            timeout_ms: action.timeout_ms(),
        }
    }

    /// Puts it into the budget of an operation that is about to be recorded.
    pub(crate) fn put_into(&self, budget: &mut Value) {
        budget[BUDGET_KEY] = serde_json::to_value(self).unwrap_or_default();
    }

    /// Finds it in the budget of a recorded one.
    pub(crate) fn in_budget(budget: Option<&Value>) -> Option<Self> {
        serde_json::from_value(budget?.get(BUDGET_KEY)?.clone()).ok()
    }
}

/// What became of a stop action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StopActionResult {
    /// Its words.
    pub words: String,
    /// When it is due.
    pub when: StopActionWhen,
    /// Its time limit, in milliseconds.
    pub timeout_ms: u64,
    /// Whether it was run; null where nobody can tell, because its supervisor and its helper died.
    pub ran: Option<bool>,
    /// Why it was not run, or what is not known of its end.
    pub reason: Option<String>,
    /// Its exit status; null if it did not exit or nobody saw it.
    pub exit_code: Option<i32>,
    /// The signal that ended it; null likewise.
    pub signal: Option<String>,
    /// Whether its time was over; null where it did not run.
    pub timed_out: Option<bool>,
    /// Why it could not be executed.
    pub spawn_failure: Option<SpawnFailure>,
    /// What was left of its own tree.
    pub tree_settlement: Option<TreeSettlement>,
    /// Those of its own tree that could not be ended.
    pub residual_pids: Vec<u32>,
    /// What it printed to standard output, the beginning and the end, as text.
    pub stdout: String,
    /// The same for standard error.
    pub stderr: String,
    /// Whether bytes are missing in these.
    pub is_truncated: bool,
    /// How long it took, in milliseconds.
    pub duration_ms: Option<u64>,
    /// What somebody can do where it was due and has not succeeded.
    pub guidance: Option<String>,
}

impl StopActionResult {
    /// One of which nothing is known but that it was declared.
    pub(crate) fn of(declared: Declared) -> Self {
        Self {
            words: declared.words,
            when: declared.when,
            timeout_ms: declared.timeout_ms,
            ran: None,
            reason: None,
            exit_code: None,
            signal: None,
            timed_out: None,
            spawn_failure: None,
            tree_settlement: None,
            residual_pids: Vec::new(),
            stdout: String::new(),
            stderr: String::new(),
            is_truncated: false,
            duration_ms: None,
            guidance: None,
        }
    }

    /// Whether it was run and said by its exit status that all is well. One that was asked to end because its time
    /// was over may say so too, and has not done its work.
    #[must_use]
    pub fn succeeded(&self) -> bool {
        self.ran == Some(true) && self.exit_code == Some(0) && self.timed_out != Some(true)
    }

    /// It was not due.
    pub(crate) fn was_not_due(&mut self, why: &str) {
        self.ran = Some(false);
        self.reason = Some(why.to_owned());
    }

    /// It was due, and is not known to have done what it was there for.
    pub(crate) fn advise(&mut self) {
        self.guidance = Some(format!(
            "work that the command gave to others may live; do by hand what is left of `{}`",
            self.words
        ));
    }
}

/// Why a stop action is not due after this; `None` where it is.
pub(crate) fn why_not_due(
    when: StopActionWhen,
    has_run: bool,
    result: &OperationResult,
) -> Option<&'static str> {
    match (has_run, when) {
        (false, _) => Some("nothing of the command ran"),
        (true, StopActionWhen::Always) => None,
        (true, StopActionWhen::Stopped) => {
            came_to_its_own_exit(result).then_some("the command came to an exit of its own")
        }
    }
}

/// Whether the command itself was let go on to its exit, whatever became of others.
fn came_to_its_own_exit(result: &OperationResult) -> bool {
    let by_itself = matches!(
        result.termination_reason,
        None | Some(TerminationReason::Completed)
    );
    result.exit_code.is_some() && result.stop.is_none() && by_itself
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::StopRecord;

    #[test]
    fn words_can_be_pasted() {
        let action = StopAction::new("docker").args(["rm", "-f", "it's"]);
        assert_eq!(action.words(), r"docker rm -f 'it'\''s'");
        assert_eq!(
            StopAction::shell("tmux kill-session -t \"$X\"").words(),
            "tmux kill-session -t \"$X\""
        );
    }

    #[test]
    fn it_is_due_where_the_command_did_not_come_to_its_own_exit() {
        let ended = |exit_code, stop, termination_reason| OperationResult {
            exit_code,
            stop,
            termination_reason,
            ..OperationResult::blank("op", "run")
        };
        let stop = || {
            Some(StopRecord {
                reason: TerminationReason::UserCancelled,
                last_signal: None,
            })
        };
        let completed = Some(TerminationReason::Completed);
        let cases = [
            (ended(Some(0), None, completed), false),
            (ended(Some(3), None, completed), false),
            // Its survivors could not be ended, or a stranger holds its pipes.
            (ended(Some(0), None, None), false),
            (ended(None, None, completed), true),
            (
                ended(Some(0), stop(), Some(TerminationReason::UserCancelled)),
                true,
            ),
            // As recovery tells a stop, and the end of a supervisor.
            (
                ended(Some(0), None, Some(TerminationReason::TimedOut)),
                true,
            ),
            (
                ended(Some(0), None, Some(TerminationReason::CrashDetected)),
                true,
            ),
            (ended(None, None, None), true),
        ];
        for (result, expected) in cases {
            let due = |when, has_run| why_not_due(when, has_run, &result).is_none();
            assert_eq!(due(StopActionWhen::Stopped, true), expected, "{result:?}");
            assert!(due(StopActionWhen::Always, true));
            assert!(!due(StopActionWhen::Always, false), "nothing ran");
        }
    }

    #[test]
    fn what_is_recorded_is_found_again() {
        let declared = Declared::of(&StopAction::shell("true").when(StopActionWhen::Always));
        let mut budget = serde_json::json!({ "maxOutputBytes": 1 });
        assert_eq!(Declared::in_budget(Some(&budget)), None);
        declared.put_into(&mut budget);
        assert_eq!(Declared::in_budget(Some(&budget)), Some(declared));
    }

    #[test]
    fn what_nobody_could_read_or_execute_is_refused() {
        let long = StopAction::shell("x".repeat(STOP_ACTION_MAX_BYTES));
        assert!(matches!(
            long.validate(),
            Err(InvalidCommand::StopActionTooLong { .. })
        ));
        assert!(matches!(
            StopAction::new("").validate(),
            Err(InvalidCommand::EmptyProgram)
        ));
        assert!(matches!(
            StopAction::new("a\0").validate(),
            Err(InvalidCommand::Nul { .. })
        ));
        for empty in ["", " \n"] {
            assert_eq!(
                StopAction::shell(empty).validate(),
                Err(InvalidCommand::StopActionEmpty)
            );
        }
        assert_eq!(
            StopAction::new("true").timeout(Duration::ZERO).validate(),
            Err(InvalidCommand::StopActionWithoutTime)
        );
        assert_eq!(StopAction::new("true").validate(), Ok(()));
    }
}
