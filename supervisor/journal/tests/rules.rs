//! The rules of the record: what each change refuses, and that a refusal leaves nothing.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use serde_json::json;
use support::*;
use xioflow_journal::{
    Change, CommitError, Event, Finish, Journal, OperationStatus, Outcome, PauseMeans, Query,
    Rejected, RunStatus,
};

fn kinds(events: &[Event]) -> Vec<&str> {
    events.iter().map(|e| e.kind.as_str()).collect()
}

/// Commits what must be refused, and checks that nothing came of it.
fn refused(journal: &Journal, changes: Vec<Change>) -> Rejected {
    let before = (
        journal.last_seq().unwrap(),
        journal.leases().unwrap(),
        journal.unfinished().unwrap(),
    );
    let error = journal.commit(changes).unwrap_err();
    let after = (
        journal.last_seq().unwrap(),
        journal.leases().unwrap(),
        journal.unfinished().unwrap(),
    );
    assert_eq!(before, after, "a refused commit has left something");
    match error {
        CommitError::Rejected(rejected) => rejected,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_indeterminate_operation_keeps_its_leases() {
    let place = Place::new();
    let journal = place.open_with_run();
    journal
        .commit(vec![register("o", &["x"]), activate("o")])
        .unwrap();
    journal
        .commit(vec![finish("o", Outcome::Indeterminate)])
        .unwrap();
    assert_eq!(journal.leases().unwrap().len(), 1);
    assert_eq!(
        refused(&journal, vec![register("p", &["y", "x"])]),
        Rejected::ResourceHeld {
            resource: "x".into(),
            holder: "o".into()
        }
    );
}

#[test]
fn leases_cannot_be_freed_without_proof_nor_kept_without_need() {
    let place = Place::new();
    let journal = place.open_with_run();
    journal.commit(vec![register("o", &["x"])]).unwrap();
    for (outcome, release_resources) in [(Outcome::Indeterminate, true), (Outcome::Failed, false)] {
        let finish = Finish {
            operation_id: "o".into(),
            outcome,
            result: json!({}),
            outputs: vec![],
            release_resources,
        };
        assert_eq!(
            refused(&journal, vec![Change::FinishOperation(Box::new(finish))]),
            Rejected::LeaseRule {
                operation_id: "o".into(),
                outcome
            }
        );
    }
}

#[test]
fn registering_needs_an_open_run_and_a_new_id() {
    let place = Place::new();
    let journal = place.open();
    assert_eq!(
        refused(&journal, vec![register("o", &[])]),
        Rejected::NoSuchRun { run_id: "r".into() }
    );
    journal.commit(begin("r")).unwrap();
    journal.commit(vec![register("o", &["x"])]).unwrap();
    assert_eq!(
        refused(&journal, vec![register("o", &["y"])]),
        Rejected::OperationExists {
            operation_id: "o".into(),
            run_id: "r".into(),
            status: OperationStatus::IntentRegistered,
            input_fingerprint: "fingerprint of o".into(),
        }
    );
    journal
        .commit(vec![
            finish("o", Outcome::Succeeded),
            end_run("r", RunStatus::Failed),
        ])
        .unwrap();
    assert_eq!(
        refused(&journal, vec![register("p", &[])]),
        Rejected::RunEnded {
            run_id: "r".into(),
            status: RunStatus::Failed
        }
    );
}

#[test]
fn a_stop_action_begins_once_and_while_its_operation_is_under_way() {
    let place = Place::new();
    let journal = place.open_with_run();
    let begin = || Change::BeginStopAction {
        operation_id: "o".into(),
        process_identity: json!({ "pid": 7 }),
        holder: json!({ "pid": 8 }),
    };
    let refused_when = |status| Rejected::NoStopActionNow {
        operation_id: "o".into(),
        status,
    };
    journal.commit(vec![register("o", &[])]).unwrap();
    let early = refused(&journal, vec![begin()]);
    assert_eq!(early, refused_when(OperationStatus::IntentRegistered));
    journal.commit(vec![activate("o"), stop("o")]).unwrap();
    journal.commit(vec![begin()]).unwrap();
    let again = refused(&journal, vec![begin()]);
    assert_eq!(again, refused_when(OperationStatus::Stopping));
    let events = journal.events(0, Some("o"), None).unwrap();
    let begun = events.last().unwrap();
    assert_eq!(begun.kind, xioflow_journal::STOP_ACTION_BEGUN);
    let payload = json!({ "processIdentity": { "pid": 7 }, "holder": { "pid": 8 } });
    assert_eq!(begun.payload, payload);
    journal.commit(vec![finish("o", Outcome::Failed)]).unwrap();
    let late = refused(&journal, vec![begin()]);
    assert_eq!(late, refused_when(OperationStatus::Done));
}

#[test]
fn an_operation_goes_one_way_only() {
    use OperationStatus::{Active, Done, IntentRegistered, Stopping};
    let place = Place::new();
    let journal = place.open_with_run();
    let operation_id = || "o".to_owned();
    for change in [activate("o"), stop("o"), finish("o", Outcome::Failed)] {
        assert_eq!(
            refused(&journal, vec![change]),
            Rejected::NoSuchOperation {
                operation_id: operation_id()
            }
        );
    }
    let not_active = |status| Rejected::NotActive {
        operation_id: operation_id(),
        status,
    };
    let not_registered = |status| Rejected::NotRegistered {
        operation_id: operation_id(),
        status,
    };

    journal.commit(vec![register("o", &[])]).unwrap();
    assert_eq!(
        refused(&journal, vec![stop("o")]),
        not_active(IntentRegistered)
    );
    journal.commit(vec![activate("o")]).unwrap();
    assert_eq!(
        refused(&journal, vec![activate("o")]),
        not_registered(Active)
    );
    journal.commit(vec![stop("o")]).unwrap();
    assert_eq!(refused(&journal, vec![stop("o")]), not_active(Stopping));
    assert_eq!(
        refused(&journal, vec![activate("o")]),
        not_registered(Stopping)
    );
    journal
        .commit(vec![finish("o", Outcome::Cancelled)])
        .unwrap();
    assert_eq!(refused(&journal, vec![stop("o")]), not_active(Done));
    assert_eq!(
        refused(&journal, vec![finish("o", Outcome::Failed)]),
        Rejected::AlreadyDone {
            operation_id: operation_id(),
            outcome: Outcome::Cancelled
        }
    );
}

#[test]
fn a_run_ends_once() {
    let place = Place::new();
    let journal = place.open_with_run();
    journal
        .commit(vec![end_run("r", RunStatus::Failed)])
        .unwrap();
    let ended = journal.run("r").unwrap();
    let receipt = journal
        .commit(vec![end_run("r", RunStatus::Failed)])
        .unwrap();
    assert_eq!((receipt.first_seq, receipt.last_seq), (None, None));
    assert_eq!(journal.run("r").unwrap(), ended);
    for other in [
        RunStatus::Succeeded,
        RunStatus::Cancelled,
        RunStatus::Indeterminate,
    ] {
        assert_eq!(
            refused(&journal, vec![end_run("r", other)]),
            Rejected::RunEnded {
                run_id: "r".into(),
                status: RunStatus::Failed
            }
        );
    }
    assert_eq!(
        kinds(&journal.events(0, None, None).unwrap()),
        ["RUN_STATUS_TRANSITION"]
    );
}

#[test]
fn a_run_begins_open_and_ends_terminal() {
    let place = Place::new();
    let journal = place.open_with_run();
    for status in [
        RunStatus::Queued,
        RunStatus::Starting,
        RunStatus::Running,
        RunStatus::Stopping,
    ] {
        assert_eq!(
            refused(&journal, vec![end_run("r", status)]),
            Rejected::WrongRunStatus {
                run_id: "r".into(),
                status,
                verb: "end"
            }
        );
    }
    let mut ended = run("s");
    ended.status = RunStatus::Succeeded;
    assert_eq!(
        refused(&journal, vec![Change::AddRun(ended)]),
        Rejected::WrongRunStatus {
            run_id: "s".into(),
            status: RunStatus::Succeeded,
            verb: "begin"
        }
    );
    assert_eq!(
        refused(&journal, vec![Change::AddRun(run("r"))]),
        Rejected::RunExists { run_id: "r".into() }
    );
    let mut homeless = run("s");
    homeless.task_id = "none".into();
    assert_eq!(
        refused(&journal, vec![Change::AddRun(homeless)]),
        Rejected::NoSuchTask {
            task_id: "none".into()
        }
    );
}

#[test]
fn a_run_cannot_succeed_before_its_operations_are_done() {
    let place = Place::new();
    let journal = place.open_with_run();
    journal
        .commit(vec![register("o", &[]), activate("o")])
        .unwrap();
    assert_eq!(
        refused(&journal, vec![end_run("r", RunStatus::Succeeded)]),
        Rejected::RunUnfinished {
            run_id: "r".into(),
            operation_id: "o".into(),
            status: OperationStatus::Active
        }
    );
    journal
        .commit(vec![
            finish("o", Outcome::Succeeded),
            end_run("r", RunStatus::Succeeded),
        ])
        .unwrap();
}

#[test]
fn a_refused_change_takes_the_whole_commit_with_it() {
    let place = Place::new();
    let journal = place.open_with_run();
    journal.commit(vec![register("o", &["x"])]).unwrap();
    refused(&journal, vec![register("p", &["y"]), register("q", &["x"])]);
    assert_eq!(journal.operation("p").unwrap(), None);
}

#[test]
fn a_number_beyond_the_database_is_refused() {
    let place = Place::new();
    let journal = place.open_with_run();
    let mut new = new_operation("o", &[]);
    new.timeout_ms = Some(u64::MAX);
    assert_eq!(
        refused(&journal, vec![Change::RegisterOperation(Box::new(new))]),
        Rejected::TooLarge {
            operation_id: "o".into(),
            what: "time limit",
            value: u64::MAX
        }
    );
}

/// Damage, and what rescues a database from it, can lose a row and keep what speaks of it.
#[test]
fn an_operation_that_the_record_has_lost_is_not_begun_again() {
    let place = Place::new();
    let journal = place.open_with_run();
    let ended = finish("a", Outcome::Succeeded);
    journal
        .commit(vec![register("a", &[]), activate("a"), ended])
        .unwrap();
    journal.close().unwrap();
    let behind = rusqlite::Connection::open(place.root().join("domain.db")).unwrap();
    let lose = "PRAGMA foreign_keys = OFF; DELETE FROM operation_outputs; DELETE FROM operations";
    behind.execute_batch(lose).unwrap();
    behind.close().unwrap();
    let journal = place.open();
    assert_eq!(journal.operation("a").unwrap(), None);
    let lost = Rejected::OperationLost {
        operation_id: "a".into(),
    };
    assert_eq!(refused(&journal, vec![register("a", &[])]), lost);
    assert_eq!(journal.operation("a").unwrap(), None);
    journal.commit(vec![register("b", &[])]).unwrap();
}

fn pause(id: &str, means: PauseMeans) -> Change {
    Change::PauseOperation {
        operation_id: id.into(),
        means,
    }
}

fn resume(id: &str) -> Change {
    Change::ResumeOperation {
        operation_id: id.into(),
    }
}

#[test]
fn an_active_operation_is_paused_once_and_goes_on_once() {
    let place = Place::new();
    let journal = place.open_with_run();
    journal.commit(vec![register("o", &[])]).unwrap();
    let rule = |status, paused, verb| Rejected::PauseRule {
        operation_id: "o".into(),
        status,
        paused,
        verb,
    };
    let early = refused(&journal, vec![pause("o", PauseMeans::Freeze)]);
    assert_eq!(
        early,
        rule(OperationStatus::IntentRegistered, false, "be paused")
    );
    journal.commit(vec![activate("o")]).unwrap();
    assert_eq!(
        refused(&journal, vec![resume("o")]),
        rule(OperationStatus::Active, false, "go on")
    );
    let means = || {
        journal
            .operation("o")
            .unwrap()
            .unwrap()
            .pause
            .map(|it| it.means)
    };
    assert_eq!(means(), None);
    for by in [PauseMeans::Freeze, PauseMeans::Signals] {
        journal.commit(vec![pause("o", by)]).unwrap();
        assert_eq!(means(), Some(by));
        assert_eq!(
            refused(&journal, vec![pause("o", by)]),
            rule(OperationStatus::Active, true, "be paused")
        );
        journal.commit(vec![resume("o")]).unwrap();
        assert_eq!(means(), None);
    }
    let events = journal.events(0, Some("o"), None).unwrap();
    let told = kinds(&events);
    assert_eq!(
        told[2..],
        ["OPERATION_PAUSED", "OPERATION_RESUMED"].repeat(2)
    );
}

#[test]
fn what_is_stopped_or_over_is_not_paused_any_more() {
    let place = Place::new();
    let journal = place.open_with_run();
    journal
        .commit(vec![register("o", &[]), activate("o")])
        .unwrap();
    journal
        .commit(vec![pause("o", PauseMeans::Freeze)])
        .unwrap();
    let is_paused = || journal.operation("o").unwrap().unwrap().pause.is_some();
    let since = journal
        .operation("o")
        .unwrap()
        .unwrap()
        .pause
        .unwrap()
        .since_ms;
    assert_eq!(
        since,
        journal
            .events(0, Some("o"), None)
            .unwrap()
            .last()
            .unwrap()
            .timestamp_ms
    );
    journal.commit(vec![stop("o")]).unwrap();
    assert!(!is_paused());
    refused(&journal, vec![resume("o")]);
    refused(&journal, vec![pause("o", PauseMeans::Signals)]);
    journal
        .commit(vec![finish("o", Outcome::Cancelled)])
        .unwrap();
    assert!(!is_paused());
    assert_eq!(
        refused(&journal, vec![pause("absent", PauseMeans::Freeze)]),
        Rejected::NoSuchOperation {
            operation_id: "absent".into()
        }
    );
}
