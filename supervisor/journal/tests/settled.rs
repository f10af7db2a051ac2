//! What may follow a result: deciding about an end that could not be proven, giving up stored
//! output, and the questions that recovery and pruning ask.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use serde_json::json;
use support::*;
use xioflow_journal::{
    Change, CommitError, Event, Finish, Gap, Journal, KeptBecause, OperationStatus, Outcome,
    Output, PruneReason, Query, Reader, Rejected, RunStatus, StoredFile, Stream,
};

fn refused(journal: &Journal, change: Change) -> Rejected {
    let before = journal.last_seq().unwrap();
    match journal.commit(vec![change]).unwrap_err() {
        CommitError::Rejected(rejected) => {
            assert_eq!(
                journal.last_seq().unwrap(),
                before,
                "a refusal has left events"
            );
            rejected
        }
        other => panic!("{other:?}"),
    }
}

fn prune(id: &str, stream: Stream) -> Change {
    Change::PruneOutput {
        operation_id: id.into(),
        stream,
        reason: PruneReason::Age,
    }
}

fn output(id: &str, stream: Stream) -> Output {
    Output {
        stream,
        total_bytes: 1000,
        lines: Some(10),
        sha256: Some("ab".into()),
        artifact: Some(format!("{id}-{stream}.log")),
        content: None,
        gap: None,
        spill_error: None,
        pruned_at_ms: None,
    }
}

/// A result with a file for each of these streams.
fn finish_with_files(id: &str, outcome: Outcome, streams: &[Stream]) -> Change {
    Change::FinishOperation(Box::new(Finish {
        operation_id: id.into(),
        outcome,
        result: json!({}),
        outputs: streams.iter().map(|&s| output(id, s)).collect(),
        release_resources: outcome != Outcome::Indeterminate,
    }))
}

fn newest(journal: &Journal, many: usize) -> Vec<Event> {
    let events = journal.events(0, None, None).unwrap();
    events[events.len() - many..].to_vec()
}

fn kinds(events: &[Event]) -> Vec<&str> {
    events.iter().map(|e| e.kind.as_str()).collect()
}

/// The operation `o` of the Run `r`, ended in a way that could not be proven, with two leases.
fn indeterminate(place: &Place) -> Journal {
    let journal = place.open_with_run();
    let begun = vec![register("o", &["b", "a"]), activate("o")];
    journal.commit(begun).unwrap();
    let ended = vec![finish("o", Outcome::Indeterminate)];
    journal.commit(ended).unwrap();
    journal
}

#[test]
fn a_decision_is_kept_journalled_and_frees_what_was_held() {
    let place = Place::new();
    let journal = indeterminate(&place);
    journal.commit(vec![adjudicate("o")]).unwrap();
    let operation = journal.operation("o").unwrap().unwrap();
    assert_eq!(operation.adjudication, Some(decision()));
    assert_eq!(
        operation.outcome,
        Some(Outcome::Indeterminate),
        "the outcome stays"
    );
    assert_eq!(journal.leases().unwrap(), []);
    let events = newest(&journal, 2);
    assert_eq!(
        kinds(&events),
        ["OPERATION_ADJUDICATED", "RESOURCES_RELEASED"]
    );
    assert_eq!(
        events[0].payload,
        json!({
            "operationId": "o", "verdict": "abandon_with_residuals", "actor": "ann",
            "note": "left alone", "residualPids": [4711], "decidedAtMs": 5,
            "processIdentity": {"pid": 4711, "startTime": 99}
        })
    );
    assert_eq!(
        events[1].payload,
        json!({"operationId": "o", "resources": ["a", "b"]})
    );
    assert_eq!(events[0].operation_id.as_deref(), Some("o"));
    assert_eq!(events[0].run_id.as_deref(), Some("r"));
    let reader = Reader::open(place.root()).unwrap();
    assert_eq!(reader.operation("o").unwrap(), Some(operation));
}

#[test]
fn an_operation_that_held_nothing_releases_nothing() {
    let place = Place::new();
    let journal = place.open_with_run();
    let whole = vec![register("o", &[]), finish("o", Outcome::Indeterminate)];
    journal.commit(whole).unwrap();
    journal.commit(vec![adjudicate("o")]).unwrap();
    let events = newest(&journal, 1);
    assert_eq!(kinds(&events), ["OPERATION_ADJUDICATED"]);
    assert_eq!(events[0].payload["processIdentity"], json!(null));
}

#[test]
fn only_an_unproven_end_can_be_decided_about_and_once() {
    let place = Place::new();
    let journal = indeterminate(&place);
    assert_eq!(
        refused(&journal, adjudicate("none")),
        Rejected::NoSuchOperation {
            operation_id: "none".into()
        }
    );
    journal.commit(vec![register("p", &[])]).unwrap();
    let not_indeterminate = |status, outcome| Rejected::NotIndeterminate {
        operation_id: "p".into(),
        status,
        outcome,
    };
    assert_eq!(
        refused(&journal, adjudicate("p")),
        not_indeterminate(OperationStatus::IntentRegistered, None)
    );
    journal.commit(vec![finish("p", Outcome::Failed)]).unwrap();
    assert_eq!(
        refused(&journal, adjudicate("p")),
        not_indeterminate(OperationStatus::Done, Some(Outcome::Failed))
    );
    journal.commit(vec![adjudicate("o")]).unwrap();
    assert_eq!(
        refused(&journal, adjudicate("o")),
        Rejected::AlreadyAdjudicated {
            operation_id: "o".into(),
            adjudication: Box::new(decision())
        }
    );
}

#[test]
fn a_run_succeeds_only_when_every_end_is_known_or_decided_about() {
    let place = Place::new();
    let journal = indeterminate(&place);
    assert_eq!(
        refused(&journal, end_run("r", RunStatus::Succeeded)),
        Rejected::RunIndeterminate {
            run_id: "r".into(),
            operation_id: "o".into()
        }
    );
    journal.commit(vec![adjudicate("o")]).unwrap();
    let ended = vec![end_run("r", RunStatus::Succeeded)];
    journal.commit(ended).unwrap();
}

#[test]
fn other_ends_of_a_run_do_not_wait_for_a_decision() {
    for status in [
        RunStatus::Failed,
        RunStatus::Cancelled,
        RunStatus::Indeterminate,
    ] {
        let place = Place::new();
        let journal = indeterminate(&place);
        journal.commit(vec![end_run("r", status)]).unwrap();
    }
}

#[test]
fn a_file_is_given_up_once_and_the_record_says_so() {
    let place = Place::new();
    let journal = place.open_with_run();
    let both = [Stream::Stdout, Stream::Stderr];
    let whole = vec![
        register("o", &[]),
        finish_with_files("o", Outcome::Succeeded, &both),
        end_run("r", RunStatus::Succeeded),
    ];
    journal.commit(whole).unwrap();
    journal.commit(vec![prune("o", Stream::Stderr)]).unwrap();
    let outputs = journal.outputs("o").unwrap();
    assert_eq!(outputs[0], output("o", Stream::Stdout));
    assert!(outputs[1].pruned_at_ms.is_some());
    assert_eq!(
        outputs[1].sha256.as_deref(),
        Some("ab"),
        "what it was stays known"
    );
    let events = newest(&journal, 1);
    assert_eq!(kinds(&events), ["OUTPUT_PRUNED"]);
    assert_eq!(
        events[0].payload,
        json!({
            "stream": "stderr", "artifact": "o-stderr.log", "bytes": 1000, "sha256": "ab",
            "reason": "age"
        })
    );
    let gone = Rejected::NoStoredOutput {
        operation_id: "o".into(),
        stream: Stream::Stderr,
    };
    assert_eq!(refused(&journal, prune("o", Stream::Stderr)), gone);
}

/// The file of an output with a gap ends where the gap begins; what a storage error left is
/// unknown.
#[test]
fn the_event_tells_the_length_of_the_file_where_it_is_known() {
    let gap = Gap { from: 400, to: 900 };
    for (gap, spill_error, bytes) in [
        (Some(gap), None, json!(400)),
        (None, Some("disk full".to_owned()), json!(null)),
    ] {
        let place = Place::new();
        let journal = place.open_with_run();
        let mut kept = output("o", Stream::Stdout);
        (kept.gap, kept.spill_error) = (gap, spill_error);
        let finish = Change::FinishOperation(Box::new(Finish {
            operation_id: "o".into(),
            outcome: Outcome::Failed,
            result: json!({}),
            outputs: vec![kept],
            release_resources: true,
        }));
        let ended = end_run("r", RunStatus::Failed);
        journal
            .commit(vec![register("o", &[]), finish, ended])
            .unwrap();
        journal.commit(vec![prune("o", Stream::Stdout)]).unwrap();
        assert_eq!(newest(&journal, 1)[0].payload["bytes"], bytes);
    }
}

#[test]
fn output_that_something_may_need_is_not_given_up() {
    let place = Place::new();
    let journal = place.open_with_run();
    journal.commit(vec![register("o", &[])]).unwrap();
    let operation_id = || "o".to_owned();
    let stdout = || prune("o", Stream::Stdout);
    assert_eq!(
        refused(&journal, prune("none", Stream::Stdout)),
        Rejected::NoSuchOperation {
            operation_id: "none".into()
        }
    );
    assert_eq!(
        refused(&journal, stdout()),
        Rejected::OutputInUse {
            operation_id: operation_id(),
            status: OperationStatus::IntentRegistered
        }
    );
    let ended = finish_with_files("o", Outcome::Indeterminate, &[Stream::Stdout]);
    journal.commit(vec![ended]).unwrap();
    assert_eq!(
        refused(&journal, stdout()),
        Rejected::OutputIsEvidence {
            operation_id: operation_id()
        }
    );
    journal.commit(vec![adjudicate("o")]).unwrap();
    assert_eq!(
        refused(&journal, stdout()),
        Rejected::OutputOfOpenRun {
            operation_id: operation_id(),
            run_id: "r".into(),
            status: RunStatus::Running
        }
    );
    let ended = vec![end_run("r", RunStatus::Failed)];
    journal.commit(ended).unwrap();
    assert_eq!(
        refused(&journal, prune("o", Stream::Stderr)),
        Rejected::NoStoredOutput {
            operation_id: operation_id(),
            stream: Stream::Stderr
        }
    );
    journal.commit(vec![stdout()]).unwrap();
}

/// Three ended operations with five files between them, in Runs of their own.
fn with_files(journal: &Journal) {
    for (id, streams) in [
        ("a", &[Stream::Stdout, Stream::Stderr][..]),
        ("b", &[Stream::Stdout]),
        ("c", &[Stream::Stdout, Stream::Stderr]),
    ] {
        let mut changes = begin(id);
        let mut new = new_operation(id, &[]);
        new.run_id = id.into();
        changes.push(Change::RegisterOperation(Box::new(new)));
        changes.push(finish_with_files(id, Outcome::Succeeded, streams));
        changes.push(end_run(id, RunStatus::Succeeded));
        journal.commit(changes).unwrap();
    }
}

fn names(files: &[StoredFile]) -> Vec<&str> {
    files.iter().map(|f| f.artifact.as_str()).collect()
}

#[test]
fn stored_files_come_in_pages_the_oldest_first() {
    let place = Place::new();
    let journal = place.open();
    with_files(&journal);
    let all = journal.stored_files(None, 100).unwrap();
    let expected = [
        "a-stderr.log",
        "a-stdout.log",
        "b-stdout.log",
        "c-stderr.log",
        "c-stdout.log",
    ];
    assert_eq!(names(&all), expected);
    for len in 1..=6 {
        let mut paged: Vec<StoredFile> = Vec::new();
        loop {
            let page = journal.stored_files(paged.last(), len).unwrap();
            assert!(page.len() <= len);
            if page.is_empty() {
                break;
            }
            paged.extend(page);
        }
        assert_eq!(paged, all, "in pages of {len}");
    }
}

#[test]
fn a_file_that_is_given_up_is_not_listed_again() {
    let place = Place::new();
    let journal = place.open();
    with_files(&journal);
    let pruned = vec![prune("a", Stream::Stderr), prune("b", Stream::Stdout)];
    journal.commit(pruned).unwrap();
    let left = journal.stored_files(None, 100).unwrap();
    assert_eq!(
        names(&left),
        ["a-stdout.log", "c-stderr.log", "c-stdout.log"]
    );
    assert_eq!(left[0].kept_because(), None);
}

#[test]
fn stored_files_say_why_they_are_kept() {
    let place = Place::new();
    let journal = place.open_with_run();
    let ended = finish_with_files("o", Outcome::Indeterminate, &[Stream::Stdout]);
    journal.commit(vec![register("o", &[]), ended]).unwrap();
    let why = || journal.stored_files(None, 1).unwrap()[0].kept_because();
    assert_eq!(why(), Some(KeptBecause::Indeterminate));
    journal.commit(vec![adjudicate("o")]).unwrap();
    assert_eq!(why(), Some(KeptBecause::OpenRun));
    let over = vec![end_run("r", RunStatus::Failed)];
    journal.commit(over).unwrap();
    assert_eq!(why(), None);
}

#[test]
fn open_runs_are_told_with_what_decides_how_they_can_end() {
    let place = Place::new();
    let journal = place.open();
    with_files(&journal);
    assert_eq!(
        journal.open_runs().unwrap(),
        [],
        "Runs that have ended are not open"
    );
    journal.commit(begin("r")).unwrap();
    let mut queued = run("q");
    queued.status = RunStatus::Queued;
    journal.commit(vec![Change::AddRun(queued)]).unwrap();
    for id in ["u", "v", "w", "x"] {
        journal.commit(vec![register(id, &[])]).unwrap();
    }
    let ends = vec![
        finish("u", Outcome::Succeeded),
        finish("v", Outcome::Indeterminate),
        finish("w", Outcome::Indeterminate),
        adjudicate("w"),
    ];
    journal.commit(ends).unwrap();
    let open = journal.open_runs().unwrap();
    let counts: Vec<_> = open
        .iter()
        .map(|o| {
            (
                o.run.id.as_str(),
                o.operations,
                o.unfinished,
                o.unadjudicated,
            )
        })
        .collect();
    assert_eq!(counts, [("r", 4, 1, 1), ("q", 0, 0, 0)]);
}

#[test]
fn what_waits_for_a_decision_is_listed_and_counted() {
    let place = Place::new();
    let journal = indeterminate(&place);
    let more = vec![register("p", &[]), finish("p", Outcome::Indeterminate)];
    journal.commit(more).unwrap();
    let waiting = |at_most| {
        let found = journal.unadjudicated(at_most).unwrap();
        found.into_iter().map(|o| o.id).collect::<Vec<_>>()
    };
    assert_eq!(waiting(None), ["o", "p"]);
    assert_eq!(waiting(Some(1)), ["o"]);
    journal.commit(vec![adjudicate("o")]).unwrap();
    assert_eq!(waiting(None), ["p"]);
    let counts = journal.counts().unwrap();
    assert_eq!((counts.indeterminate, counts.unadjudicated), (2, 1));
}
