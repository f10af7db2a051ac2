//! What is left of an operation, looked for afresh. Whoever may not be looked at counts as alive, and
//! what cannot be seen is no "no".

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use xioflow_journal::{Operation, OperationKind};
use xioflow_protocol::{LastWord, SurvivorEnd};

use super::Residual;
use crate::observe::{self, Met, Scan};
use crate::operation::last_word_name;
use crate::output::artifact_stem;
use crate::recovery::{
    Found, Init, Leaf, Legible, Liveness, Parties, group_of, legible, look_at_group,
    members_of_group, read_word,
};
use crate::result::{OperationResult, ProcessIdentity};

/// How long a helper may take to leave that has told its last: whoever decides may have been told a moment ago.
const HOLDER_PATIENCE: Duration = Duration::from_secs(2);

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Look {
    /// Who lives, or may not be looked at.
    pub(super) alive: Vec<Residual>,
    /// Why more may be alive than was found.
    pub(super) unclear: Vec<String>,
}

impl Look {
    /// Looks for what is left of an operation.
    pub(super) fn at(operation: &Operation, folder: &Path) -> Self {
        let root = legible(operation.process_identity.as_ref());
        let holder = legible(operation.holder.as_ref());
        let result: Option<OperationResult> = operation
            .result
            .clone()
            .and_then(|result| serde_json::from_value(result).ok());
        let mut sight = Sight {
            found: BTreeMap::new(),
            unclear: Vec::new(),
        };
        sight.note_what_is_recorded(operation, &root, &holder, result.as_ref());
        let (root, holder) = (root.get(), holder.get());
        let is_now = |it: &&ProcessIdentity| observe::liveness(it) != Liveness::OtherBoot;
        let here = root
            .as_ref()
            .or(holder.as_ref())
            .is_none_or(|it| is_now(&it));
        if !here {
            sight.note_other_boot(result.as_ref());
            return sight.finish();
        }
        if [&root, &holder].into_iter().flatten().any(is_elsewhere) {
            let why = "it was started in another pid or time namespace, where this has to be asked";
            sight.unclear.push(why.to_owned());
            return sight.finish();
        }
        for party in holder.iter().chain(init_of(root.as_ref())) {
            observe::wait_gone(party, HOLDER_PATIENCE);
        }
        if !was_foreign(result.as_ref()) && init_is_gone(root.as_ref()) {
            // Nobody of the tree outlives it, whatever the record lacks.
            return Self::default();
        }
        if let Some(root) = &root {
            sight.look_at_group(root);
        }
        sight.look_at_party(init_of(root.as_ref()));
        sight.look_at_party(holder.as_ref());
        let root_now = sight.look_at_party(root.as_ref());
        let scan = observe::scan();
        if !scan.is_complete {
            sight
                .unclear
                .push("not every process of this machine is shown".to_owned());
        }
        if let (Some(root), Some(now)) = (&root, root_now) {
            sight.look_at_members(root, now, &scan);
        }
        if let Some(result) = &result {
            sight.look_at_survivors(result, &scan);
        }
        let parties = Parties {
            holder: holder.as_ref(),
            root: root.as_ref(),
        };
        let path = word_path(&operation.id, folder);
        if let Found::Said(word) = read_word(&path, &operation.id, parties) {
            sight.look_at_word(&word, &scan);
        }
        sight.finish()
    }

    /// The first of those who live, by number.
    pub(super) fn pids(&self, at_most: usize) -> Vec<u32> {
        self.alive.iter().take(at_most).map(|it| it.pid).collect()
    }
}

/// What was seen so far.
struct Sight {
    found: BTreeMap<u32, Option<String>>,
    unclear: Vec<String>,
}

impl Sight {
    fn finish(self) -> Look {
        let residual = |(pid, command)| Residual { pid, command };
        Look {
            alive: self.found.into_iter().map(residual).collect(),
            unclear: self.unclear,
        }
    }

    fn note_alive(&mut self, pid: u32) {
        self.found.entry(pid).or_insert_with(|| {
            let note = observe::process_note(pid)?;
            Some(String::from_utf8_lossy(&note.command).into_owned())
        });
    }

    /// What the record lacks that a look would need.
    fn note_what_is_recorded(
        &mut self,
        operation: &Operation,
        root: &Legible,
        holder: &Legible,
        result: Option<&OperationResult>,
    ) {
        let has_process = matches!(
            operation.kind,
            OperationKind::Process | OperationKind::Service
        );
        let mut unclear = |why: &str| self.unclear.push(why.to_owned());
        match root {
            Legible::Yes(_) => {}
            Legible::Illegible => unclear("the identity of its command cannot be read"),
            Legible::No if has_process => unclear("nothing recorded tells its process"),
            Legible::No => {}
        }
        if matches!(holder, Legible::Illegible) {
            unclear("the identity of its helper cannot be read");
        }
        match result {
            None => unclear("its result cannot be read"),
            Some(result) if !result.residual_pids.is_empty() && is_cut(result) => {
                unclear("more was left of it than its result names");
            }
            Some(_) => {}
        }
    }

    /// Nothing of it lives on this machine; on another one it may.
    fn note_other_boot(&mut self, result: Option<&OperationResult>) {
        if was_foreign(result) {
            let why = "it ran on another machine, or in the domain that this one is a copy of";
            self.unclear.push(why.to_owned());
        }
    }

    /// Looks at the recorded command, or its helper.
    fn look_at_party(&mut self, party: Option<&ProcessIdentity>) -> Option<Liveness> {
        let party = party?;
        let now = observe::liveness(party);
        match now {
            Liveness::Alive => self.note_alive(party.pid),
            // It may not be looked at, and somebody is there.
            Liveness::CannotTell if observe::is_there(party.pid) => self.note_alive(party.pid),
            Liveness::CannotTell => {
                let why = format!("process {} cannot be looked at", party.pid);
                self.unclear.push(why);
            }
            Liveness::Unreaped | Liveness::Gone | Liveness::OtherBoot | Liveness::Elsewhere => {}
        }
        Some(now)
    }

    /// The control group of its tree. An empty one proves nothing of those who have left it, so the rest is looked at
    /// all the same.
    fn look_at_group(&mut self, root: &ProcessIdentity) {
        if group_of(root).is_none() {
            return;
        }
        match look_at_group(root) {
            Leaf::Empty | Leaf::Removed => {}
            Leaf::Untold => {
                let why = "its control group cannot be looked at from here";
                self.unclear.push(why.to_owned());
            }
            Leaf::Populated | Leaf::Stuck => {
                let members = members_of_group(root);
                if members.is_empty() {
                    let why = "somebody is in its control group who has no number here";
                    self.unclear.push(why.to_owned());
                }
                for pid in members {
                    self.note_alive(pid);
                }
            }
        }
    }

    /// The session and the group of the command. Where a stranger has its number, they are the
    /// stranger's: the kernel gives no number away that a session or a group still has.
    fn look_at_members(&mut self, root: &ProcessIdentity, now: Liveness, scan: &Scan) {
        let has_number = |met: &&Met| met.pid == root.pid;
        if now == Liveness::Gone && scan.processes.iter().any(|met| has_number(&met)) {
            return;
        }
        let is_member = |met: &&Met| {
            (met.session == root.pid || met.group == root.pid)
                && met.start_ticks >= root.start_ticks
                && met.pid != root.pid
                && !met.has_ended
        };
        for met in scan.processes.iter().filter(is_member) {
            self.note_alive(met.pid);
        }
    }

    fn look_at_survivors(&mut self, result: &OperationResult, scan: &Scan) {
        for survivor in result.survivors.iter().filter(|it| it.end == "alive") {
            self.look_at_known(survivor.pid, survivor.start_ticks, scan);
        }
    }

    fn look_at_word(&mut self, word: &LastWord, scan: &Scan) {
        for survivor in &word.end.survivors {
            if matches!(survivor.end, SurvivorEnd::Alive(_)) {
                let process = &survivor.process;
                self.look_at_known(process.pid, process.start_ticks, scan);
            }
        }
    }

    /// A process of this boot that is known by number and start.
    fn look_at_known(&mut self, pid: u32, start_ticks: u64, scan: &Scan) {
        match scan.processes.iter().find(|met| met.pid == pid) {
            Some(met) if met.start_ticks == start_ticks && !met.has_ended => self.note_alive(pid),
            Some(_) => {}
            // Hidden, or it may not be looked at.
            None if observe::is_there(pid) => self.note_alive(pid),
            None => {}
        }
    }
}

/// Whether it was settled as that of another machine, or of the original of this domain. What is seen here
/// proves nothing of it then.
fn was_foreign(result: Option<&OperationResult>) -> bool {
    result.and_then(|it| it.recovery_case) == Some('Q')
}

/// The init of the pid namespace that the tree was given for its own.
fn init_of(root: Option<&ProcessIdentity>) -> Option<&ProcessIdentity> {
    Some(&root?.pid_namespace.as_ref()?.init)
}

fn init_is_gone(root: Option<&ProcessIdentity>) -> bool {
    init_of(root).is_some_and(|init| Init::of(observe::liveness(init)) == Init::Gone)
}

fn is_elsewhere(party: &ProcessIdentity) -> bool {
    observe::liveness(party) == Liveness::Elsewhere
}

/// Whether survivors are counted that are not listed.
fn is_cut(result: &OperationResult) -> bool {
    usize::try_from(result.survivors_total).is_ok_and(|total| total > result.survivors.len())
}

fn word_path(operation_id: &str, folder: &Path) -> PathBuf {
    let name = last_word_name(&artifact_stem(operation_id));
    folder.join("holders").join(name)
}

/// Removes the last word on an operation that was decided about. One that stays is removed when the
/// domain is next opened.
pub(super) fn remove_word(operation_id: &str, folder: &Path) {
    std::fs::remove_file(word_path(operation_id, folder)).ok();
}
