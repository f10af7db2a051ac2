//! Last words that were never finished: their helpers died while they wrote them. `word` has the whole ones.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::Path;

use xioflow_journal::{Journal, Operation, Query};
use xioflow_killpoint as killpoint;

use super::facts::Liveness;
use crate::error::ExecuteError;
use crate::observe;
use crate::operation::last_word_name;
use crate::output::artifact_stem;

/// What a helper's file is called until it is whole, behind the name that it gets then.
const DRAFT_SUFFIX: &str = ".tmp";

/// Removes the drafts that nobody will finish or that nobody needs.
///
/// Called when everything is settled: a helper that is known and may be writing yet is that of an operation
/// whose end is not known, and its word will be evidence. One that is not known was never told to let
/// anything run.
pub(super) fn remove(holders: &Path, journal: &Journal) -> Result<(), ExecuteError> {
    let failed = |source| ExecuteError::System {
        act: "read the holders folder",
        source,
    };
    let mut drafts = drafts(holders).map_err(failed)?;
    // Nearly always there is none, and nothing has to be asked.
    if drafts.is_empty() {
        return Ok(());
    }
    for operation in journal.unadjudicated(None)? {
        if may_be_written(&operation) {
            drafts.remove(&draft_name(&operation.id));
        }
    }
    for name in drafts {
        killpoint::pass(|| "draft:before-remove");
        // One that stays behind is removed the next time.
        fs::remove_file(holders.join(name)).ok();
        killpoint::pass(|| "draft:after-remove");
    }
    Ok(())
}

/// The names of all drafts in the folder.
fn drafts(holders: &Path) -> io::Result<HashSet<String>> {
    let suffix = last_word_name("") + DRAFT_SUFFIX;
    let mut found = HashSet::new();
    for entry in fs::read_dir(holders)? {
        let name = entry?.file_name();
        let name = name.to_str().filter(|name| name.ends_with(&suffix));
        found.extend(name.map(str::to_owned));
    }
    Ok(found)
}

fn draft_name(operation_id: &str) -> String {
    last_word_name(&artifact_stem(operation_id)) + DRAFT_SUFFIX
}

/// Whether the helper of an operation may live. One that has ended writes no more.
fn may_be_written(operation: &Operation) -> bool {
    let Some(holder) = &operation.holder else {
        return false;
    };
    let Ok(holder) = serde_json::from_value(holder.clone()) else {
        return true;
    };
    matches!(
        observe::liveness(&holder),
        Liveness::Alive | Liveness::Elsewhere | Liveness::CannotTell
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use xioflow_journal::{
        Change, Finish, NewOperation, OpenOptions, OperationKind, Outcome, Run, RunStatus, Task,
    };

    /// An operation whose end is not known, held by `holder`.
    fn isolated(journal: &Journal, id: &str, holder: Value) {
        let operation = NewOperation {
            id: id.into(),
            run_id: "run".into(),
            kind: OperationKind::Process,
            name: String::new(),
            input_fingerprint: String::new(),
            required_resources: Vec::new(),
            mutation_roots: Vec::new(),
            capability_id: None,
            timeout_ms: None,
            resource_budget: None,
            spawn_gated: Some(true),
        };
        let finish = Finish {
            operation_id: id.into(),
            outcome: Outcome::Indeterminate,
            result: json!({}),
            outputs: Vec::new(),
            release_resources: false,
        };
        let changes = vec![
            Change::RegisterOperation(Box::new(operation)),
            Change::ActivateOperation {
                operation_id: id.into(),
                process_identity: Value::Null,
                holder,
            },
            Change::FinishOperation(Box::new(finish)),
        ];
        journal.commit(changes).unwrap();
    }

    fn opened(folder: &Path) -> Journal {
        let journal = Journal::open(folder, &OpenOptions::default()).unwrap();
        let task = Task {
            id: "task".into(),
            name: String::new(),
            created_at_ms: 1,
            meta: Value::Null,
        };
        let run = Run {
            id: "run".into(),
            task_id: "task".into(),
            owner: String::new(),
            status: RunStatus::Running,
            termination_reason: None,
            started_at_ms: 1,
            ended_at_ms: None,
            config: json!({}),
        };
        let changes = vec![Change::SaveTask(task), Change::AddRun(run)];
        journal.commit(changes).unwrap();
        journal
    }

    #[test]
    fn a_draft_stays_only_while_its_helper_may_write_it() {
        let folder = tempfile::tempdir().unwrap();
        let journal = opened(folder.path());
        let me = xioflow_facts::identity(std::process::id())
            .unwrap()
            .unwrap();
        let boot_id: String = me
            .boot_id
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let holder =
            |start_ticks| json!({ "pid": me.pid, "startTicks": start_ticks, "bootId": boot_id });
        isolated(&journal, "alive", holder(me.start_ticks));
        isolated(&journal, "gone", holder(me.start_ticks + 1));
        isolated(&journal, "unreadable", json!("?"));
        isolated(&journal, "unnamed", Value::Null);
        let holders = journal.dir().holders();
        let names = ["alive", "gone", "unreadable", "unnamed", "unknown"];
        for name in names {
            fs::write(holders.join(draft_name(name)), "half").unwrap();
        }
        fs::write(holders.join("note.tmp"), "not ours").unwrap();
        remove(&holders, &journal).unwrap();
        let stays = |name: &&&str| holders.join(draft_name(name)).exists();
        let left: Vec<_> = names.iter().filter(stays).collect();
        assert_eq!(left, [&"alive", &"unreadable", &"unnamed"]);
        assert!(holders.join("note.tmp").exists());
    }
}
