//! Escaping processes: a real tree that tries to get away is held and ended by the real helper.
//!
//! Whether it worked is read from `/proc` for each process that got away, not from what the
//! helper says. Neighbours: `holder_probe` speaks with it, `escapee` looks.

use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::event::PollFlags;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Signal;
use serde_json::{Value, json};
use xioflow_protocol::{Containment, Descendants, Launch, Reply, Request, Rung, StopPlan, TreeEnd};
use xioflow_sandbox::find_program;

use super::escapee::{Escapee, count_alive};
use super::holder_probe::{Holder, HolderError, out_of_order, wait_until};
use super::report::{Finding, with_causes};

/// How long the whole trial may take: two rungs of the ladder and a loaded machine.
const TRIAL_LIMIT: Duration = Duration::from_secs(20);

const TERM: Rung = Rung {
    signal: Signal::TERM.as_raw(),
    wait_ms: 2000,
};
const KILL_MS: u32 = 5000;

/// Long enough for what is about to end by itself, short enough not to be felt.
const SETTLE_MS: u32 = 50;

/// Starts an orphan that stays in the session, says its pid, and lives for a minute at most.
const ORPHAN: &str = "(sleep 60 & echo $!)\n";

/// Starts an orphan in a session of its own that keeps none of our descriptors.
const DAEMON: &str = "(setsid sh -c 'echo $$; exec sleep 60 </dev/null >/dev/null 2>&1' &)\n";

/// The command itself ends when it is told to, so that all pids are known by then.
const END: &str = "read -r told; exit 0\n";

/// The most pids that are read; the script says two.
const PIDS_LEN_MAX: usize = 64;

/// Has the helper hold an escaping tree, and counts what is left of it.
pub(super) fn look(helper: Result<&Path, &String>) -> Finding {
    let Ok(path) = helper else {
        return Finding::cannot_tell("there is no helper to try it with")
            .with_facts(json!({ "escaped": null, "reported": null, "alive": null }));
    };
    match Trial::run(path) {
        Ok(outcome) => judge(&outcome).with_facts(facts(&outcome)),
        Err(TrialError::Setup { step, source }) => {
            Finding::cannot_tell(format!("{step} for a trial: {source}"))
        }
        Err(error) => Finding::missing(with_causes(&error)),
    }
}

/// Why the trial came to no outcome.
#[derive(Debug, thiserror::Error)]
enum TrialError {
    /// Something beside the helper failed.
    #[error("{step} for a trial")]
    Setup {
        step: &'static str,
        source: io::Error,
    },
    /// The helper failed.
    #[error(transparent)]
    Holder(#[from] HolderError),
    /// The command did not start.
    #[error("the helper could not start /bin/sh: error {errno} at {stage}")]
    Launch { stage: &'static str, errno: i32 },
    /// The tree did not name its processes.
    #[error("the escaping tree named {found} of {wanted} processes")]
    Unnamed { found: usize, wanted: usize },
}

fn setup(step: &'static str) -> impl Fn(rustix::io::Errno) -> TrialError {
    move |errno| TrialError::Setup {
        step,
        source: errno.into(),
    }
}

/// What came of it.
struct Outcome {
    /// How many got away from the command.
    escaped: usize,
    /// Whether one of them left the session too.
    left_session: bool,
    end: TreeEnd,
    /// Whether the helper says that nothing is left.
    empty: bool,
    /// How many live although they should not; null when that cannot be told.
    alive: Option<usize>,
}

fn judge(outcome: &Outcome) -> Finding {
    let Outcome {
        escaped,
        end,
        empty,
        alive,
        ..
    } = outcome;
    let reported = end.survivors_total;
    match alive {
        Some(0) if !empty => {
            Finding::missing("all processes ended, but the helper could not prove it")
        }
        Some(0) if usize::try_from(reported) != Ok(*escaped) => Finding::weaker(format!(
            "all of {escaped} escaped processes ended, but the helper names {reported}"
        )),
        Some(0) if !outcome.left_session => Finding::weaker(format!(
            "{escaped} escaped processes were held, named and ended; one in a session of its own \
             was not tried, because setsid is not in PATH"
        )),
        Some(0) => Finding::ready(format!(
            "{escaped} escaped processes were held, named and ended"
        )),
        Some(alive) => {
            Finding::missing(format!("{alive} of {escaped} escaped processes still live"))
        }
        None => Finding::cannot_tell("/proc does not show whether the escaped processes live"),
    }
}

fn facts(outcome: &Outcome) -> Value {
    json!({
        "escaped": outcome.escaped,
        "leftSession": outcome.left_session,
        "reported": outcome.end.survivors_total,
        "empty": outcome.empty,
        "alive": outcome.alive,
        "lastSignal": outcome.end.last_signal,
    })
}

/// The helper, and our ends of the command's pipes.
struct Trial {
    holder: Holder,
    to_command: std::fs::File,
    from_command: OwnedFd,
}

impl Trial {
    fn run(helper: &Path) -> Result<Outcome, TrialError> {
        let left_session = has_setsid();
        let wanted = if left_session { 2 } else { 1 };
        let holders = tempfile::Builder::new()
            .prefix("xioflow-doctor-")
            .tempdir()
            .map_err(|source| TrialError::Setup {
                step: "make a folder",
                source,
            })?;
        let mut trial = Self::start(helper, left_session, holders.path())?;
        let escapees = trial.named(wanted)?;
        let (end, empty) = trial.end()?;
        trial.holder.finish()?;
        let alive = count_alive(&escapees);
        Ok(Outcome {
            escaped: escapees.len(),
            left_session,
            end,
            empty,
            alive,
        })
    }

    /// Brings the tree to the point where its command runs.
    fn start(helper: &Path, with_daemon: bool, holders: &Path) -> Result<Self, TrialError> {
        let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(setup("make a pipe"));
        let (stdin, to_command) = pipe()?;
        let (from_command, stdout) = pipe()?;
        let opened = |result: io::Result<std::fs::File>| {
            result.map_err(|source| TrialError::Setup {
                step: "open files",
                source,
            })
        };
        let stderr = opened(std::fs::File::options().write(true).open("/dev/null"))?;
        let holders = opened(std::fs::File::open(holders))?;
        let mut holder = Holder::start(helper, TRIAL_LIMIT)?;
        holder.hello()?;
        let descriptors = [
            stdin.as_fd(),
            stdout.as_fd(),
            stderr.as_fd(),
            holders.as_fd(),
        ];
        let daemon = if with_daemon { DAEMON } else { "" };
        let script = format!("{ORPHAN}{daemon}{END}");
        holder.launch(launch(&script, Containment::Subreaper), &descriptors)?;
        match holder.next_reply()? {
            Reply::Spawned { .. } => holder.send(&Request::Release)?,
            other => return Err(not_started("a spawned command", &other)),
        }
        match holder.next_reply()? {
            Reply::Running => Ok(Self {
                holder,
                to_command: to_command.into(),
                from_command,
            }),
            other => Err(not_started("a running command", &other)),
        }
    }

    /// Waits until the tree has named all of its processes that got away.
    fn named(&self, wanted: usize) -> Result<Vec<Escapee>, TrialError> {
        let mut text = Vec::new();
        while text.iter().filter(|byte| **byte == b'\n').count() < wanted {
            let left = self.holder.time_left();
            let ready = wait_until(&self.from_command, PollFlags::IN, left)
                .map_err(setup("wait for processes"))?;
            let mut bytes = [0; PIDS_LEN_MAX];
            let len = match ready {
                true => {
                    rustix::io::read(&self.from_command, &mut bytes).map_err(setup("read pids"))?
                }
                false => 0,
            };
            if len == 0 || text.len() > PIDS_LEN_MAX {
                break;
            }
            text.extend_from_slice(&bytes[..len]);
        }
        let text = String::from_utf8_lossy(&text);
        let escapees: Vec<_> = text
            .lines()
            .filter_map(|line| line.parse().ok())
            .map(Escapee::of)
            .collect();
        match escapees.len() == wanted {
            true => Ok(escapees),
            false => Err(TrialError::Unnamed {
                found: escapees.len(),
                wanted,
            }),
        }
    }

    /// Lets the command end, and waits for the end of its tree.
    fn end(&mut self) -> Result<(TreeEnd, bool), TrialError> {
        self.to_command
            .write_all(b"\n")
            .map_err(|source| TrialError::Setup {
                step: "end the command",
                source,
            })?;
        loop {
            match self.holder.next_reply()? {
                Reply::TreeEmpty(end) => return Ok((end, true)),
                Reply::TreeRemains(end) => return Ok((end, false)),
                Reply::RootExited { .. } | Reply::Survivors { .. } | Reply::Signalled { .. } => {}
                other => return Err(out_of_order("the end of a tree", &other).into()),
            }
        }
    }
}

fn not_started(wanted: &'static str, reply: &Reply) -> TrialError {
    match reply {
        Reply::LaunchFailed(failure) => TrialError::Launch {
            stage: failure.stage.name(),
            errno: failure.errno,
        },
        other => out_of_order(wanted, other).into(),
    }
}

/// A script of sh(1), as a trial has it run.
pub(super) fn launch(script: &str, containment: Containment) -> Launch {
    let bytes = |text: &str| text.as_bytes().to_vec().into();
    let mut path = b"PATH=".to_vec();
    path.extend_from_slice(search_path().as_encoded_bytes());
    Launch {
        program: bytes("/bin/sh"),
        argv: vec![bytes("sh"), bytes("-c"), bytes(script)],
        env: vec![path.into()],
        cwd: bytes("/"),
        umask: None,
        limits: Vec::new(),
        nice: None,
        no_new_privs: true,
        oom_score_adj: 0,
        descendants: Descendants::Stop(StopPlan {
            rungs: vec![TERM],
            kill_ms: KILL_MS,
        }),
        settle_ms: SETTLE_MS,
        on_host_loss: StopPlan::kill(KILL_MS),
        last_word_name: bytes("trial"),
        operation_id: "doctor".to_owned(),
        stdin_closed: false,
        containment,
        group: false,
    }
}

/// Whether there is a program that leaves a session.
pub(super) fn has_setsid() -> bool {
    find_program("setsid", &search_path()).is_some()
}

fn search_path() -> std::ffi::OsString {
    std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use xioflow_protocol::{Identity, LaunchFailure, Stage, Usage};

    use super::*;
    use crate::doctor::report::{Check, Verdict};
    use crate::doctor::testing;

    fn check(finding: Finding) -> Check {
        Check::new("subreaper", "escaping processes", true, finding)
    }

    fn outcome(reported: u32, empty: bool, alive: Option<usize>) -> Outcome {
        let end = TreeEnd {
            exit: None,
            survivors: Vec::new(),
            survivors_total: reported,
            usage: Usage::default(),
            last_signal: None,
            group_empty: None,
        };
        Outcome {
            escaped: 2,
            left_session: true,
            end,
            empty,
            alive,
        }
    }

    #[test]
    fn what_proc_shows_outweighs_what_the_helper_says() {
        let verdict = |outcome: &Outcome| check(judge(outcome)).verdict;
        assert_eq!(verdict(&outcome(2, true, Some(0))), Verdict::Ready);
        assert_eq!(verdict(&outcome(2, true, Some(1))), Verdict::Missing);
        assert_eq!(verdict(&outcome(2, true, None)), Verdict::CannotTell);
        assert_eq!(verdict(&outcome(1, true, Some(0))), Verdict::Weaker);
        assert_eq!(verdict(&outcome(2, false, Some(0))), Verdict::Missing);
    }

    #[test]
    fn without_a_helper_nothing_is_known() {
        let finding = look(Err(&"not found".to_owned()));
        assert_eq!(check(finding).verdict, Verdict::CannotTell);
    }

    fn look_with(replies: &[Reply]) -> Check {
        let dir = tempfile::tempdir().expect("a folder");
        let helper = testing::scripted_helper(dir.path(), replies);
        check(look(Ok(&helper)))
    }

    fn spawned() -> Reply {
        let root = Identity {
            pid: 1,
            start_ticks: 1,
            boot_id: [0; 16],
            pidfd_inode: None,
        };
        Reply::Spawned {
            root,
            namespace: None,
            group: None,
        }
    }

    #[test]
    fn a_launch_that_fails_is_named_by_its_stage() {
        let failure = LaunchFailure {
            stage: Stage::Cwd,
            errno: 2,
            subject: Vec::new().into(),
        };
        let check = look_with(&[testing::greeting(), spawned(), Reply::LaunchFailed(failure)]);
        assert_eq!(check.verdict, Verdict::Missing);
        assert!(check.detail.ends_with("error 2 at cwd"), "{}", check.detail);
    }

    #[test]
    fn a_helper_that_runs_nothing_is_found_out() {
        let check = look_with(&[testing::greeting(), spawned(), Reply::Running]);
        assert_eq!(check.verdict, Verdict::Missing);
        assert!(check.detail.contains("named 0 of"), "{}", check.detail);
    }

    /// Where `cargo` puts the helper: beside the folder of this test program.
    fn built_helper() -> Option<PathBuf> {
        let test = std::env::current_exe().ok()?;
        let named = std::env::var_os("XIOFLOW_REAPER_PATH").map(PathBuf::from);
        let built = test.parent()?.parent()?.join("xioflow-reaper");
        named.or(Some(built)).filter(|path| path.is_file())
    }

    #[test]
    fn the_real_helper_lets_nothing_escape() {
        let Some(helper) = built_helper() else {
            println!("skipped: xioflow-reaper is not built");
            return;
        };
        let check = check(look(Ok(&helper)));
        assert!(
            matches!(check.verdict, Verdict::Ready | Verdict::Weaker),
            "{}",
            check.detail
        );
        assert_eq!(check.facts["alive"], 0);
    }

    #[test]
    fn a_trial_that_is_given_up_leaves_nothing_behind() {
        let Some(helper) = built_helper() else {
            println!("skipped: xioflow-reaper is not built");
            return;
        };
        let holders = tempfile::tempdir().expect("a folder");
        let trial = Trial::start(&helper, false, holders.path()).expect("the tree starts");
        let escapees = trial.named(1).expect("it names its process");
        assert_eq!(count_alive(&escapees), Some(1));
        drop(trial);
        assert_eq!(
            count_alive(&escapees),
            Some(0),
            "the helper stops what it holds"
        );
    }
}
