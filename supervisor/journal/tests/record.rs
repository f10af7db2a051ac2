//! What each change writes and journals, asked of the owner and of a reader alike. What is
//! refused is in `rules`.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use serde_json::{Value, json};
use support::*;
use xioflow_journal::{
    Change, Event, Finish, Gap, OperationFilter, OperationStatus, Outcome, Output, Query, Reader,
    ReplayMode, RunStatus, Stream, Task, TerminationReason,
};

fn kinds(events: &[Event]) -> Vec<&str> {
    events.iter().map(|e| e.kind.as_str()).collect()
}

#[test]
fn an_operation_leaves_its_four_events_in_order() {
    let place = Place::new();
    let journal = place.open_with_run();
    journal
        .commit(vec![register("o", &[]), activate("o")])
        .unwrap();
    let receipt = journal
        .commit(vec![
            finish("o", Outcome::Succeeded),
            end_run("r", RunStatus::Succeeded),
        ])
        .unwrap();
    assert_eq!((receipt.first_seq, receipt.last_seq), (Some(3), Some(4)));

    let reader = Reader::open(place.root()).unwrap();
    let events = reader.events(0, None, None).unwrap();
    assert_eq!(events, journal.events(0, None, None).unwrap());
    assert_eq!(
        kinds(&events),
        [
            "OPERATION_INTENT_REGISTERED",
            "OPERATION_STATUS_TRANSITION",
            "OPERATION_RESULT_RECORDED",
            "RUN_STATUS_TRANSITION"
        ]
    );
}

#[test]
fn payloads_have_the_keys_of_the_contract() {
    let place = Place::new();
    let journal = place.open_with_run();
    journal
        .commit(vec![register("o", &["b", "a"]), activate("o")])
        .unwrap();
    journal.commit(vec![stop("o")]).unwrap();
    journal
        .commit(vec![
            finish("o", Outcome::Cancelled),
            end_run("r", RunStatus::Cancelled),
        ])
        .unwrap();
    let events = journal.events(0, None, None).unwrap();
    let identity = json!({"pid": 4711, "startTime": 99});
    let ended_at = &events[5].payload["endedAt"];
    let payloads: Vec<&Value> = events.iter().map(|e| &e.payload).collect();
    assert_eq!(
        payloads,
        [
            &json!({
                "kind": "process", "name": "build", "requiredResources": ["b", "a"],
                "inputFingerprint": "fingerprint of o", "resourceBudget": {"memoryMaxBytes": 1024},
                "spawnGated": true
            }),
            &json!({"status": "active", "processIdentity": identity, "outputRef": null}),
            &json!({
                "status": "stopping", "processIdentity": identity, "outputRef": null,
                "reason": "user_cancelled"
            }),
            &json!({"result": {"status": "cancelled", "exitCode": 0}, "releaseResources": true}),
            &json!({"operationId": "o", "resources": ["a", "b"]}),
            &json!({"status": "cancelled", "terminationReason": "completed", "endedAt": ended_at}),
        ]
    );
    let text = ended_at.as_str().unwrap();
    assert!(
        text.len() == 24 && text.ends_with('Z'),
        "{text} is not RFC 3339 to the millisecond"
    );
}

#[test]
fn what_is_written_is_read_back() {
    let place = Place::new();
    let journal = place.open_with_run();
    journal
        .commit(vec![register("o", &["x"]), activate("o")])
        .unwrap();
    let reader = Reader::open(place.root()).unwrap();

    assert_eq!(reader.task("t").unwrap(), Some(task()));
    assert_eq!(reader.run("r").unwrap(), Some(run("r")));
    let operation = reader.operation("o").unwrap().unwrap();
    let new = new_operation("o", &["x"]);
    assert_eq!(operation.status, OperationStatus::Active);
    assert_eq!(operation.required_resources, new.required_resources);
    assert_eq!(operation.mutation_roots, new.mutation_roots);
    assert_eq!(operation.timeout_ms, new.timeout_ms);
    assert_eq!(operation.resource_budget, new.resource_budget);
    assert_eq!(operation.spawn_gated, new.spawn_gated);
    assert_eq!(
        operation.process_identity,
        Some(json!({"pid": 4711, "startTime": 99}))
    );
    assert_eq!(operation.holder, Some(json!({"pid": 4710})));
    assert_eq!(
        (
            operation.finished_at_ms,
            operation.outcome,
            operation.result
        ),
        (None, None, None)
    );
    assert_eq!(reader.leases().unwrap()[0].operation_id, "o");
    assert_eq!(reader.owner().unwrap().as_ref(), Some(journal.claim()));
    assert_eq!(reader.operation("none").unwrap(), None);
    assert_eq!(reader.run("none").unwrap(), None);
}

#[test]
fn outputs_are_kept_with_the_result() {
    let place = Place::new();
    let journal = place.open_with_run();
    let outputs = vec![
        Output {
            stream: Stream::Stdout,
            total_bytes: 3,
            lines: Some(1),
            sha256: Some("ab".into()),
            artifact: None,
            content: Some(vec![0, 255, 10]),
            gap: None,
            spill_error: None,
            pruned_at_ms: None,
        },
        Output {
            stream: Stream::Stderr,
            total_bytes: 1 << 40,
            lines: None,
            sha256: None,
            artifact: Some("o.stderr".into()),
            content: Some(b"the end".to_vec()),
            gap: Some(Gap {
                from: 1 << 30,
                to: (1 << 40) - 7,
            }),
            spill_error: Some("disk full".into()),
            pruned_at_ms: None,
        },
    ];
    let finish = Finish {
        operation_id: "o".into(),
        outcome: Outcome::Failed,
        result: json!({}),
        outputs: outputs.clone(),
        release_resources: true,
    };
    journal
        .commit(vec![
            register("o", &[]),
            Change::FinishOperation(Box::new(finish)),
        ])
        .unwrap();
    assert_eq!(journal.outputs("o").unwrap(), outputs);
    assert_eq!(
        journal
            .operation("o")
            .unwrap()
            .unwrap()
            .output_ref
            .as_deref(),
        Some("o.stderr")
    );
}

#[test]
fn the_order_of_outputs_is_kept_until_there_is_a_result() {
    let place = Place::new();
    let journal = place.open_with_run();
    let keep = |order: &[u8]| Change::KeepOutputOrder {
        operation_id: "o".into(),
        order: order.to_vec(),
    };
    let end = finish("o", Outcome::Succeeded);
    journal
        .commit(vec![register("o", &[]), keep(&[0, 3, 4]), end])
        .unwrap();
    journal.commit(vec![keep(&[1, 1, 1])]).unwrap_err();
    let reader = Reader::open(place.root()).unwrap();
    assert_eq!(reader.output_order("o").unwrap(), Some(vec![0, 3, 4]));
    assert_eq!(reader.output_order("none").unwrap(), None);
}

#[test]
fn an_operation_that_never_ran_is_one_commit_and_never_active() {
    let place = Place::new();
    let journal = place.open_with_run();
    journal
        .commit(vec![register("o", &["x"]), finish("o", Outcome::Failed)])
        .unwrap();
    assert_eq!(
        kinds(&journal.events(0, Some("o"), None).unwrap()),
        [
            "OPERATION_INTENT_REGISTERED",
            "OPERATION_RESULT_RECORDED",
            "RESOURCES_RELEASED"
        ]
    );
    assert_eq!(journal.leases().unwrap(), []);
    let operation = journal.operation("o").unwrap().unwrap();
    assert_eq!(
        (operation.status, operation.process_identity),
        (OperationStatus::Done, None)
    );
}

#[test]
fn a_resource_named_twice_is_leased_once() {
    let place = Place::new();
    let journal = place.open_with_run();
    journal.commit(vec![register("o", &["x", "x"])]).unwrap();
    assert_eq!(journal.leases().unwrap().len(), 1);
}

#[test]
fn saving_a_task_again_changes_name_and_meta_only() {
    let place = Place::new();
    let journal = place.open();
    journal.commit(vec![Change::SaveTask(task())]).unwrap();
    let again = Task {
        name: "other".into(),
        meta: json!(null),
        created_at_ms: 99,
        ..task()
    };
    journal
        .commit(vec![Change::SaveTask(again.clone())])
        .unwrap();
    assert_eq!(
        journal.task("t").unwrap(),
        Some(Task {
            created_at_ms: 1,
            ..again
        })
    );
}

#[test]
fn a_replay_is_journaled_for_the_run_that_asked() {
    let place = Place::new();
    let journal = place.open_with_run();
    journal.commit(begin("caller")).unwrap();
    let replay = Change::NoteReplay {
        operation_id: "o".into(),
        mode: ReplayMode::Recorded,
        calling_run_id: "caller".into(),
        original_run_id: "r".into(),
        original_status: OperationStatus::Done,
    };
    journal.commit(vec![replay]).unwrap();
    let event = journal.events(0, None, None).unwrap().remove(0);
    assert_eq!(
        (event.kind.as_str(), event.run_id.as_deref()),
        ("OPERATION_REPLAYED", Some("caller"))
    );
    assert_eq!(
        event.payload,
        json!({
            "mode": "recorded", "opId": "o", "callingRunId": "caller", "originalRunId": "r",
            "originalStatus": "done"
        })
    );
}

#[test]
fn lists_are_filtered_ordered_and_limited() {
    let place = Place::new();
    let journal = place.open_with_run();
    journal.commit(vec![Change::AddRun(run("s"))]).unwrap();
    for id in ["a", "b", "c"] {
        journal.commit(vec![register(id, &[])]).unwrap();
    }
    let mut elsewhere = new_operation("d", &[]);
    elsewhere.run_id = "s".into();
    journal
        .commit(vec![Change::RegisterOperation(Box::new(elsewhere))])
        .unwrap();
    journal
        .commit(vec![finish("b", Outcome::Succeeded)])
        .unwrap();

    let ids = |run_id: Option<&str>, status, limit| -> Vec<String> {
        let filter = OperationFilter {
            run_id: run_id.map(Into::into),
            status,
            limit,
        };
        journal
            .operations(&filter)
            .unwrap()
            .into_iter()
            .map(|o| o.id)
            .collect()
    };
    assert_eq!(ids(None, None, None), ["d", "c", "b", "a"]);
    assert_eq!(ids(Some("r"), None, Some(2)), ["c", "b"]);
    assert_eq!(ids(None, Some(OperationStatus::Done), None), ["b"]);
    assert_eq!(
        ids(Some("s"), Some(OperationStatus::IntentRegistered), None),
        ["d"]
    );
    let unfinished: Vec<_> = journal
        .unfinished()
        .unwrap()
        .into_iter()
        .map(|o| o.id)
        .collect();
    assert_eq!(unfinished, ["a", "c", "d"]);

    let runs: Vec<_> = journal
        .runs(None)
        .unwrap()
        .into_iter()
        .map(|r| r.id)
        .collect();
    assert_eq!(runs, ["s", "r"]);
    journal
        .commit(vec![Change::EndRun {
            run_id: "s".into(),
            status: RunStatus::Cancelled,
            reason: TerminationReason::ClientLost,
        }])
        .unwrap();
    let running = journal.runs(Some(RunStatus::Running)).unwrap();
    assert_eq!(running.len(), 1);

    let seqs = |after, operation, limit| -> Vec<i64> {
        journal
            .events(after, operation, limit)
            .unwrap()
            .into_iter()
            .map(|e| e.seq)
            .collect()
    };
    assert_eq!(seqs(4, None, None), [5, 6]);
    assert_eq!(seqs(0, Some("b"), None), [2, 5]);
    assert_eq!(seqs(0, None, Some(2)), [1, 2]);
    assert_eq!(journal.last_seq().unwrap(), 6);
}
