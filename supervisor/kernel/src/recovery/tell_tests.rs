//! Tests of `tell`: a result says what was concluded, and what the last word says, exactly.

use serde_json::Value;
use xioflow_journal::{OperationKind, OperationStatus, Outcome, TerminationReason};
use xioflow_protocol::{
    Exit, Identity, LAST_WORD_FORMAT, LaunchFailure, ProcessNote, Survivor, SurvivorEnd, TreeEnd,
    Usage, WhyAlive,
};

use super::*;
use crate::recovery::decide::{Ruling, Verdict, decide};
use crate::recovery::facts::{
    Attempt, Init, Known, Leaf, Liveness, Observed, Provenance, Said, Word,
};
use crate::result::Evidence;

fn operation(kind: OperationKind) -> Operation {
    Operation {
        id: "op".into(),
        run_id: "run".into(),
        kind,
        name: "x".into(),
        input_fingerprint: String::new(),
        status: OperationStatus::Active,
        required_resources: Vec::new(),
        mutation_roots: Vec::new(),
        capability_id: None,
        timeout_ms: Some(7),
        resource_budget: None,
        output_ref: None,
        process_identity: Some(Value::Null),
        holder: None,
        spawn_gated: Some(true),
        created_at_ms: 0,
        finished_at_ms: None,
        outcome: None,
        result: None,
        adjudication: None,
        pause: None,
    }
}

const RECORDED: Recorded = Recorded {
    kind: OperationKind::Process,
    status: OperationStatus::Active,
    spawn_gated: Some(true),
    root: Known::Yes,
    holder: Known::Yes,
    stop: None,
    provenance: Provenance::Here,
};

const OBSERVED: Observed = Observed {
    word: Word::None,
    holder: Liveness::Gone,
    init: Init::Untold,
    leaf: Leaf::Untold,
    root: Liveness::Gone,
    waited: true,
    attempt: Attempt::NotTried,
};

fn word(empty: bool, released: bool, stopped: bool, exit: Option<Exit>) -> LastWord {
    LastWord {
        format: LAST_WORD_FORMAT,
        operation_id: "op".into(),
        holder: Identity {
            pid: 1,
            start_ticks: 1,
            boot_id: [0; 16],
            pidfd_inode: None,
        },
        root: None,
        released,
        launch_failure: None,
        end: TreeEnd {
            exit,
            survivors: Vec::new(),
            survivors_total: 0,
            usage: Usage::default(),
            last_signal: stopped.then_some(15),
            group_empty: None,
        },
        empty,
        written_at_ms: 0,
        stopped,
        namespace: None,
    }
}

fn failed(mut word: LastWord, stage: Stage) -> LastWord {
    word.launch_failure = Some(LaunchFailure {
        stage,
        errno: 2,
        subject: b"/bin/x".to_vec().into(),
    });
    word
}

fn conclude(recorded: &Recorded, observed: &Observed) -> Conclusion {
    match decide(recorded, observed) {
        Ruling::Conclude(concluded) => concluded,
        ruling => panic!("{ruling:?}"),
    }
}

fn told(recorded: &Recorded, word: &LastWord) -> (Conclusion, OperationResult) {
    let said = Said {
        fate: fate_of(word),
        empty: word.empty,
    };
    let observed = Observed {
        word: Word::Said(said),
        ..OBSERVED
    };
    let concluded = conclude(recorded, &observed);
    let sources = Sources {
        recorded,
        word: Some(word),
        unusable: None,
        stopped: &Stopped::NOTHING,
        host: None,
    };
    let result = tell(&operation(OperationKind::Process), &concluded, &sources);
    assert_eq!(result.status, concluded.status);
    assert_eq!(result.termination_reason, concluded.reason);
    (concluded, result)
}

const OK: Option<Exit> = Some(Exit::Exited { code: 0 });

#[test]
fn what_ended_by_itself_has_the_exit_that_was_seen() {
    for (exit, status, code, signal) in [
        (OK, Outcome::Succeeded, Some(0), None),
        (
            Some(Exit::Exited { code: 3 }),
            Outcome::Failed,
            Some(3),
            None,
        ),
        (
            Some(Exit::Signaled {
                signal: 9,
                core: false,
            }),
            Outcome::Failed,
            None,
            Some("SIGKILL"),
        ),
        (None, Outcome::Failed, None, None),
    ] {
        let (concluded, result) = told(&RECORDED, &word(true, true, false, exit));
        assert_eq!(concluded.case, Case::Told);
        assert_eq!((result.status, result.exit_code), (status, code));
        assert_eq!(result.signal.as_deref(), signal);
        assert_eq!(result.evidence == Evidence::Observed, exit.is_some());
        assert_eq!(result.timeout_ms, Some(7));
    }
}

#[test]
fn what_was_stopped_for_the_loss_of_its_supervisor_was_cut_short() {
    let (_, result) = told(&RECORDED, &word(true, true, true, OK));
    assert_eq!(
        (result.status, result.exit_code),
        (Outcome::Failed, Some(0))
    );
    assert_eq!(
        result.termination_reason,
        Some(TerminationReason::CrashDetected)
    );
}

#[test]
fn a_wish_that_was_recorded_and_obeyed_is_why_it_ended() {
    let wished = |reason| Recorded {
        status: OperationStatus::Stopping,
        stop: Some(reason),
        ..RECORDED
    };
    for (reason, status) in [
        (TerminationReason::UserCancelled, Outcome::Cancelled),
        (TerminationReason::TimedOut, Outcome::Failed),
    ] {
        let (_, result) = told(&wished(reason), &word(true, true, true, OK));
        assert_eq!((result.status, result.exit_code), (status, Some(0)));
        assert_eq!(result.termination_reason, Some(reason));
        // No signal was sent: it had ended in the same instant.
        let (_, result) = told(&wished(reason), &word(true, true, false, OK));
        assert_eq!(result.status, Outcome::Succeeded);
    }
}

#[test]
fn what_never_ran_has_no_exit_and_what_was_refused_has_its_reason() {
    let at_gate = failed(word(true, true, true, None), Stage::Gate);
    for word in [word(true, false, false, None), at_gate] {
        let (concluded, result) = told(&RECORDED, &word);
        assert_eq!(concluded.verdict, Verdict::CleanedUnspawned);
        assert_eq!(result.status, Outcome::Failed);
        assert_eq!((result.exit_code, result.signal), (None, None));
        assert_eq!(result.spawn_failure, None);
    }
    let (concluded, result) = told(
        &RECORDED,
        &failed(word(true, true, false, None), Stage::Exec),
    );
    assert_eq!(concluded.case, Case::NotExecuted);
    assert_eq!(result.exit_code, Some(127));
    assert!(result.spawn_failure.is_some());
}

fn survivor(pid: u32) -> Survivor {
    Survivor {
        process: ProcessNote::new(pid, 5, b"stubborn".to_vec(), Some(0)),
        end: SurvivorEnd::Alive(WhyAlive::Permission),
    }
}

#[test]
fn what_remains_is_named_until_the_machine_was_started_since() {
    let mut word = word(false, true, true, OK);
    word.end.survivors = vec![survivor(4)];
    word.end.survivors_total = 1;
    let (concluded, result) = told(&RECORDED, &word);
    assert_eq!(concluded.case, Case::Remains);
    assert_eq!(result.residual_pids, [4]);
    assert!(
        result
            .reason
            .is_some_and(|it| it.contains("stubborn (pid 4"))
    );

    let remains = Observed {
        word: Word::Said(Said {
            fate: fate_of(&word),
            empty: false,
        }),
        ..OBSERVED
    };
    let rebooted = Observed {
        holder: Liveness::OtherBoot,
        root: Liveness::OtherBoot,
        ..remains
    };
    let group_empty = Observed {
        leaf: Leaf::Empty,
        ..remains
    };
    let namespace_gone = Observed {
        init: Init::Gone,
        ..remains
    };
    for (observed, says, settlement) in [
        (rebooted, "machine", TreeSettlement::Unverified),
        (namespace_gone, "pid namespace", TreeSettlement::Reaped),
        (group_empty, "control group", TreeSettlement::Reaped),
    ] {
        let result = concluded_with(&observed, Some(&word));
        assert_eq!(
            (result.status, result.exit_code),
            (Outcome::Failed, Some(0))
        );
        assert!(result.residual_pids.is_empty());
        assert_eq!(result.tree_settlement, Some(settlement));
        assert!(result.reason.is_some_and(|it| it.contains(says)), "{says}");
    }
}

fn concluded_with(observed: &Observed, word: Option<&LastWord>) -> OperationResult {
    let concluded = conclude(&RECORDED, observed);
    let sources = Sources {
        recorded: &RECORDED,
        word,
        unusable: None,
        stopped: &Stopped::NOTHING,
        host: None,
    };
    let result = tell(&operation(OperationKind::Process), &concluded, &sources);
    assert_eq!(result.status, concluded.status);
    assert_eq!(result.termination_reason, concluded.reason);
    result
}

/// Nobody saw how the command ended, so nothing stands for its exit; that nothing of it is left is proven.
#[test]
fn the_end_of_its_namespace_or_its_group_is_proof_and_no_exit() {
    let namespace_gone = Observed {
        init: Init::Gone,
        ..OBSERVED
    };
    assert_proof_without_exit(&namespace_gone, 'S', Scope::PidNamespace, "pid namespace");
    for leaf in [Leaf::Empty, Leaf::Removed] {
        let nobody_there = Observed { leaf, ..OBSERVED };
        assert_proof_without_exit(
            &nobody_there,
            'U',
            Scope::ContainmentCgroup,
            "control group",
        );
    }
}

fn assert_proof_without_exit(observed: &Observed, case: char, scope: Scope, says: &str) {
    let result = concluded_with(observed, None);
    assert_eq!(result.status, Outcome::Failed);
    let unseen = Some(TerminationReason::ExitUnobserved);
    assert_eq!(result.termination_reason, unseen);
    assert_eq!((result.exit_code, result.signal), (None, None));
    assert_eq!(result.evidence, Evidence::Unobserved);
    assert_eq!(result.scope, scope);
    assert_eq!(result.recovery_case, Some(case));
    assert!(result.residual_processes_reaped);
    assert_eq!(result.recovery_guidance, None, "there is nothing to decide");
    let reason = result.reason.unwrap_or_default();
    assert!(reason.contains(says), "{reason}");
}

/// Whoever is left with an end that is not proven is told what to do about it, in every such case.
#[test]
fn every_unclear_end_names_the_way_out() {
    let boot = Liveness::OtherBoot;
    let alive = Observed {
        root: Liveness::Alive,
        ..OBSERVED
    };
    let attempted = |attempt| Observed { attempt, ..alive };
    let unnamed = Recorded {
        root: Known::No,
        ..RECORDED
    };
    let from = |provenance| Recorded {
        provenance,
        ..RECORDED
    };
    let foreign = Recorded {
        kind: OperationKind::Gate,
        ..RECORDED
    };
    let of = |holder, root| Observed {
        holder,
        root,
        ..OBSERVED
    };
    let unusable = Observed {
        word: Word::Unusable,
        ..OBSERVED
    };
    let ran = Said {
        fate: fate_of(&word(true, true, false, OK)),
        empty: true,
    };
    let contradiction = Observed {
        word: Word::Said(ran),
        ..alive
    };
    let stopped = Stopped {
        attempt: Attempt::Unconfirmed,
        signalled: vec![4, 5],
        left: vec![survivor(5)],
        ..Stopped::NOTHING
    };
    for (case, recorded, observed, says) in [
        (Case::UnusableWord, RECORDED, unusable, "damaged"),
        (
            Case::HolderLives,
            RECORDED,
            of(Liveness::Alive, Liveness::Alive),
            "still holds",
        ),
        (
            Case::NotEnded,
            RECORDED,
            attempted(Attempt::Unconfirmed),
            "could not be ended",
        ),
        (Case::HolderGone, RECORDED, OBSERVED, "may live"),
        (
            Case::Unknown,
            RECORDED,
            of(Liveness::CannotTell, Liveness::Gone),
            "nothing shows",
        ),
        (Case::ForeignKind, foreign, OBSERVED, "of this kind"),
        (
            Case::NoIdentity,
            unnamed,
            OBSERVED,
            "nothing recorded tells",
        ),
        (
            Case::Ended,
            RECORDED,
            attempted(Attempt::Confirmed),
            "was ended",
        ),
        (
            Case::Contradiction,
            RECORDED,
            contradiction,
            "the command lives",
        ),
        (
            Case::Foreign,
            from(Provenance::OtherMachine),
            of(boot, boot),
            "ran on elm",
        ),
        (
            Case::Foreign,
            from(Provenance::Copied),
            OBSERVED,
            "a copy of",
        ),
        (
            Case::Foreign,
            from(Provenance::Renumbered),
            alive,
            "device number",
        ),
    ] {
        let concluded = conclude(&recorded, &observed);
        assert_eq!(concluded.case, case);
        let sources = Sources {
            recorded: &recorded,
            word: None,
            unusable: Some("damaged"),
            stopped: &stopped,
            host: Some("elm"),
        };
        let result = tell(&operation(recorded.kind), &concluded, &sources);
        assert_eq!(result.status, Outcome::Indeterminate);
        let reason = result.reason.unwrap_or_default();
        assert!(reason.contains(says), "{case:?}: {reason}");
        let guidance = result.recovery_guidance.unwrap_or_default();
        assert!(guidance.contains("`xioflow adjudicate op "), "{guidance}");
        assert_eq!(result.residual_pids, [5]);
    }
}
