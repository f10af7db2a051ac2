//! Who comes after the crash: the one that recovers, and the one that submits everything again.

use std::fs;
use std::time::Duration;

use serde_json::json;
use xioflow_kernel::AdjudicateError;
use xioflow_kernel::journal::AdjudicationVerdict;

use super::host::own;
use crate::folder::Folder;
use crate::scenario::Scenario;

/// Opens the domain, says what was decided, and gives it back.
pub(super) fn recover(folder: &Folder) {
    let domain = own(folder);
    let decisions = serde_json::to_vec(domain.recovered()).expect("decisions are JSON");
    fs::write(folder.decisions(), decisions).expect("a file of the case");
}

/// Opens the domain and decides about everything in it whose end is not known: stopped if nothing of it can be
/// found, abandoned otherwise.
pub(super) fn adjudicate(folder: &Folder, scenario: &Scenario) {
    let domain = own(folder);
    for work in scenario.works {
        let decide = |verdict| domain.adjudicate(work.id, verdict, "matrix", Some("looked"));
        let stopped = decide(AdjudicationVerdict::ConfirmedStopped);
        let decided = stopped.or_else(|refused| match refused {
            AdjudicateError::StillAlive { .. } | AdjudicateError::CannotTell { .. } => {
                decide(AdjudicationVerdict::AbandonWithResiduals)
            }
            other => Err(other),
        });
        match decided {
            Ok(_) => folder.tell(&format!("adjudicated {}", work.id)),
            Err(error) => folder.tell(&format!("refused {} {error}", work.id)),
        }
    }
}

/// Submits every work of the scenario again and notes how each was answered. Nobody waits for a lease: one
/// that is kept is kept until a person decides.
pub(super) fn resubmit(folder: &Folder, scenario: &Scenario) {
    let domain = own(folder);
    let mut answers = Vec::new();
    for work in scenario.works {
        let operation = domain
            .operation(work.command(folder))
            .expect("a descriptor");
        let answer = match work.terms(operation, Duration::ZERO).run() {
            Ok(result) => json!({
                "id": work.id,
                "status": result.status,
                "replayed": result.replayed,
            }),
            Err(error) => json!({ "id": work.id, "refused": error.to_string() }),
        };
        answers.push(answer);
    }
    let document = json!({
        "answers": answers,
        "decisions": domain.recovered(),
    });
    fs::write(folder.answers(), document.to_string()).expect("a file of the case");
}
