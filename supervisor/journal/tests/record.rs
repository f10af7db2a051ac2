//! What the record holds after commits, asked of the owner and of a reader.

mod support;

use serde_json::json;
use support::*;
use xioflow_journal::{Event, OperationStatus, Outcome, OwnerState, Query, Reader, RunStatus};

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
    for events in [
        journal.events(0, None, None).unwrap(),
        reader.events(0, None, None).unwrap(),
    ] {
        assert_eq!(
            kinds(&events),
            [
                "OPERATION_INTENT_REGISTERED",
                "OPERATION_STATUS_TRANSITION",
                "OPERATION_RESULT_RECORDED",
                "RUN_STATUS_TRANSITION"
            ]
        );
        assert_eq!(events[1].payload["status"], json!("active"));
    }
    let operation = reader.operation("o").unwrap().unwrap();
    assert_eq!(operation.status, OperationStatus::Done);
    assert!(matches!(
        reader.owner_state(),
        OwnerState::Held { note: Some(_) }
    ));
    journal.close().unwrap();
    assert_eq!(reader.owner_state(), OwnerState::Free);
}
