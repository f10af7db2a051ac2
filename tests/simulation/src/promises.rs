//! What must hold of what the helper says, whatever happens. Each function answers with what was broken.

use xioflow_protocol::{Exit, LastWord, Reply, SurvivorEnd, TreeEnd};
use xioflow_sys::EndKind;

use crate::host::{Host, Said};
use crate::kernel::Kernel;
use crate::process::{Kin, Process};

/// What was heard so far.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    hello: bool,
    spawned: bool,
    running: bool,
    pub(crate) failed: bool,
    pub(crate) exited: bool,
    pub(crate) ends: u32,
    pub(crate) empty: bool,
    pub(crate) refused: bool,
}

type Kept = Result<(), String>;

fn must(holds: bool, promise: &str) -> Kept {
    if holds {
        Ok(())
    } else {
        Err(promise.to_owned())
    }
}

impl Heard {
    /// Takes the next reply.
    pub(crate) fn hear(
        &mut self,
        reply: &Reply,
        kernel: &Kernel,
        host: &Host,
        hides: bool,
    ) -> Kept {
        let has_run = root(kernel).is_some_and(|root| root.executed);
        must(
            self.ends == 0 || matches!(reply, Reply::Refused(_)),
            "something was said after the end",
        )?;
        match reply {
            Reply::Hello(_) => {
                must(
                    !self.hello && host.has_said(Said::Hello),
                    "a hello nobody asked for",
                )?;
                self.hello = true;
            }
            Reply::Spawned { root: who, .. } => {
                must(
                    !self.spawned && !self.failed && host.has_said(Said::Launch),
                    "a child nobody asked for",
                )?;
                let root = root(kernel).ok_or("a child that there is not")?;
                must(
                    (who.pid, who.start_ticks) == (root.number, root.start_ticks),
                    "another child",
                )?;
                self.spawned = true;
            }
            Reply::Armour(_) => must(self.spawned, "armour before the child")?,
            Reply::Running => {
                must(!self.running && !self.failed, "running out of order")?;
                must(
                    host.has_said(Said::Release),
                    "running before it was let run",
                )?;
                must(has_run || hides, "running, and it was not executed")?;
                self.running = true;
            }
            Reply::LaunchFailed(_) => {
                must(
                    !self.failed && !self.running && !self.exited,
                    "failed out of order",
                )?;
                must(!has_run, "a failed launch of a command that ran")?;
                self.failed = true;
            }
            Reply::RootExited { exit } => {
                must(!self.exited, "a second exit of the root")?;
                must(has_run || hides, "an exit of a command that never ran")?;
                must(
                    Some(*exit) == root(kernel).and_then(Process::end).map(as_said),
                    "another exit than the root's",
                )?;
                self.exited = true;
            }
            Reply::Survivors { processes, .. } => {
                for note in processes {
                    let is_it = |it: &Process| {
                        it.number == note.pid
                            && it.start_ticks == note.start_ticks
                            && it.kin == Kin::Member
                    };
                    must(
                        kernel.all.iter().any(is_it),
                        "a survivor that is nobody of the tree",
                    )?;
                }
            }
            Reply::Signalled { .. } => {}
            Reply::TreeEmpty(end) => {
                must(
                    kernel.members().is_empty(),
                    "an empty tree, and somebody lives",
                )?;
                self.hear_end(end, kernel)?;
                must(
                    !has_run || self.exited,
                    "an end before the exit of the root",
                )?;
                self.empty = true;
            }
            Reply::TreeRemains(end) => {
                self.hear_end(end, kernel)?;
                must(
                    end.survivors_total > 0 || kernel.members().is_empty() || !has_run,
                    "nobody is named, and somebody lives",
                )?;
            }
            Reply::Refused(_) => {
                must(!self.refused && host.misspoke, "refused without a reason")?;
                self.refused = true;
            }
            Reply::Panicked { message } => return Err(format!("a panic: {message}")),
        }
        Ok(())
    }

    fn hear_end(&mut self, end: &TreeEnd, kernel: &Kernel) -> Kept {
        self.ends += 1;
        must(self.ends == 1, "a second end")?;
        check_end(end, kernel)
    }
}

/// What an account says of the root and of those who outlived it is true.
fn check_end(end: &TreeEnd, kernel: &Kernel) -> Kept {
    if let Some(exit) = end.exit {
        must(
            Some(exit) == root(kernel).and_then(Process::end).map(as_said),
            "an account with another exit",
        )?;
    }
    for survivor in &end.survivors {
        let note = &survivor.process;
        let named: Vec<&Process> = kernel
            .all
            .iter()
            .filter(|it| {
                let is_ours = matches!(it.kin, Kin::Member | Kin::Init);
                is_ours && it.number == note.pid && it.start_ticks == note.start_ticks
            })
            .collect();
        must(
            !named.is_empty(),
            "an account names somebody who is not of the tree",
        )?;
        match survivor.end {
            SurvivorEnd::Ended(exit) => must(
                named.iter().any(|it| it.end().map(as_said) == Some(exit)),
                "a survivor that ended otherwise",
            )?,
            SurvivorEnd::GoneUnobserved => must(
                named.iter().any(|it| !it.lives()),
                "a survivor that is gone, and lives",
            )?,
            SurvivorEnd::Alive(_) | SurvivorEnd::Unreaped => {}
        }
    }
    Ok(())
}

/// What is left on disk is true.
pub(crate) fn check_word(word: &LastWord, kernel: &Kernel, host: &Host, went_on: bool) -> Kept {
    let root = root(kernel).ok_or("a last word of a child that there is not")?;
    must(
        (word.released || !went_on) && (!word.released || host.has_said(Said::Release)),
        "a last word that is wrong about the release",
    )?;
    must(
        word.root
            .as_ref()
            .is_some_and(|it| (it.pid, it.start_ticks) == (root.number, root.start_ticks)),
        "a last word about another child",
    )?;
    must(
        !word.empty || kernel.members().is_empty(),
        "a last word of an empty tree, and somebody lives",
    )?;
    must(
        !(word.launch_failure.is_some() && root.executed),
        "a last word of a failed launch of a command that ran",
    )?;
    must(
        !(word.empty && root.executed) || word.end.exit.is_some(),
        "a last word without the exit",
    )?;
    check_end(&word.end, kernel)
}

fn root(kernel: &Kernel) -> Option<&Process> {
    kernel.root.map(|root| &kernel.all[root])
}

const fn as_said(how: EndKind) -> Exit {
    match how {
        EndKind::Exited { code } => Exit::Exited { code },
        EndKind::Killed { signal, core } => Exit::Signaled { signal, core },
    }
}
