//! Tests of `settle`: each ending, with and without a wish to stop.

use super::*;
use crate::stop::StopManner;
use std::time::Duration;
use xioflow_protocol::{ProcessNote, Usage};

fn end(exit: Option<Exit>, last_signal: Option<i32>, survivors: Vec<Survivor>) -> TreeEnd {
    TreeEnd {
        exit,
        survivors_total: u32::try_from(survivors.len()).unwrap(),
        survivors,
        usage: Usage::default(),
        last_signal,
        group_empty: None,
    }
}

fn of(ending: &Ending, stop: Option<TerminationReason>, undrained: &[Stream]) -> OperationResult {
    signalled(ending, stop, None, undrained)
}

fn signalled(
    ending: &Ending,
    stop: Option<TerminationReason>,
    signalled: Option<i32>,
    undrained: &[Stream],
) -> OperationResult {
    seen(ending, stop, signalled, undrained, true)
}

/// `running`: whether the helper has said that the program was executed.
fn seen(
    ending: &Ending,
    stop: Option<TerminationReason>,
    signalled: Option<i32>,
    undrained: &[Stream],
    running: bool,
) -> OperationResult {
    let stop = stop.map(|reason| StopRequest {
        reason,
        manner: StopManner::Terminate,
        grace: Duration::ZERO,
    });
    settle(Facts {
        used: &Used::default(),
        operation_id: "op",
        run_id: "run",
        driver: Driver::Reaper,
        ending,
        early_exit: None,
        running,
        stop: stop.as_ref(),
        signalled,
        undrained,
        holders: Holders::default(),
        gaps: Gaps::begin(),
        duration_ms: Some(1),
    })
}

const OK: Option<Exit> = Some(Exit::Exited { code: 0 });
const KILLED: Option<Exit> = Some(Exit::Signaled {
    signal: 9,
    core: false,
});

#[test]
fn the_table_of_causes() {
    use Outcome::{Cancelled, Failed, Succeeded};
    use TerminationReason::{Completed, ExitUnobserved, TimedOut, UserCancelled};
    for (exit, signalled, stop, status, reason) in [
        (OK, None, None, Succeeded, Completed),
        (
            Some(Exit::Exited { code: 3 }),
            None,
            None,
            Failed,
            Completed,
        ),
        (KILLED, None, None, Failed, Completed),
        (None, None, None, Failed, ExitUnobserved),
        // The wish came too late to send a signal.
        (OK, None, Some(UserCancelled), Succeeded, Completed),
        (OK, None, Some(TimedOut), Succeeded, Completed),
        (OK, Some(15), Some(UserCancelled), Cancelled, UserCancelled),
        (OK, Some(15), Some(TimedOut), Failed, TimedOut),
        (KILLED, Some(9), Some(TimedOut), Failed, TimedOut),
        // Survivors are signalled without anybody's wish.
        (OK, Some(15), None, Succeeded, Completed),
    ] {
        let result = of(&Ending::Empty(end(exit, signalled, Vec::new())), stop, &[]);
        let case = (exit, signalled, stop);
        assert_eq!(
            (result.status, result.termination_reason),
            (status, Some(reason)),
            "{case:?}"
        );
    }
}

#[test]
fn a_survivor_makes_the_tree_reaped_and_is_named() {
    let process = ProcessNote::new(7, 99, b"sleep".to_vec(), Some(0));
    let survivor = Survivor {
        process,
        end: SurvivorEnd::Ended(KILLED.unwrap()),
    };
    let result = of(&Ending::Empty(end(OK, Some(15), vec![survivor])), None, &[]);
    assert_eq!(result.tree_settlement, Some(TreeSettlement::Reaped));
    assert_eq!(result.survivors[0].command, "sleep");
    assert_eq!(result.survivors[0].signal.as_deref(), Some("SIGKILL"));
    assert!(result.residual_pids.is_empty());
}

#[test]
fn what_could_not_be_ended_makes_it_indeterminate() {
    let process = ProcessNote::new(7, 99, b"sudo".to_vec(), Some(0));
    let survivor = Survivor {
        process,
        end: SurvivorEnd::Alive(WhyAlive::Permission),
    };
    let result = of(
        &Ending::Remains(end(OK, Some(9), vec![survivor])),
        None,
        &[],
    );
    assert_eq!(result.status, Outcome::Indeterminate);
    assert_eq!(result.exit_code, Some(0));
    assert_eq!(result.residual_pids, [7]);
    let reason = result.reason.unwrap();
    assert!(
        reason.contains("sudo (pid 7, no permission: it belongs to uid 0)"),
        "{reason}"
    );
    assert!(!result.residual_processes_reaped, "it lives");
}

fn named(found: &[PipeHolder], uninspected: u32) -> String {
    who_holds(&Holders {
        found: found.to_vec(),
        uninspected,
    })
}

#[test]
fn a_holder_of_both_streams_is_named_once() {
    let holder = |pid, descriptor, stream: &str| PipeHolder {
        pid,
        command: "server".to_owned(),
        descriptor,
        stream: stream.to_owned(),
    };
    let both = [holder(7, 1, "stdout"), holder(7, 2, "stderr")];
    assert_eq!(named(&both, 0), "server (pid 7)");
    let two = [holder(7, 1, "stdout"), holder(8, 1, "stdout")];
    assert_eq!(named(&two, 0), "server (pid 7), server (pid 8)");
    assert_eq!(named(&[], 0), "a process that could not be found");
    let hidden = "a process that could not be found (3 may not be looked into)";
    assert_eq!(named(&[], 3), hidden);
}

#[test]
fn survivors_that_ended_by_themselves_were_not_reaped() {
    let process = ProcessNote::new(7, 99, b"sleep".to_vec(), Some(0));
    let survivor = Survivor {
        process,
        end: SurvivorEnd::Ended(OK.unwrap()),
    };
    let result = of(&Ending::Empty(end(OK, None, vec![survivor])), None, &[]);
    assert_eq!(result.tree_settlement, Some(TreeSettlement::Empty));
    assert!(!result.residual_processes_reaped);
    assert_eq!(result.survivors_total, 1);
}

#[test]
fn an_adopted_tree_is_a_failure_that_is_proven() {
    let ending = Ending::Ended {
        by: Net::Adoption,
        lost: HelperLost::Gone,
        end: end(OK, Some(9), Vec::new()),
        empty: true,
    };
    let result = of(&ending, None, &[]);
    assert_eq!(result.status, Outcome::Failed);
    assert_eq!(
        result.termination_reason,
        Some(TerminationReason::CrashDetected)
    );
    assert_eq!(result.exit_code, Some(0));
    assert_eq!(result.cpu_time_ms, None);
}

#[test]
fn a_child_that_ended_at_its_gate_is_no_command_that_exited() {
    let exits = |code| Ending::Ended {
        by: Net::Adoption,
        lost: HelperLost::Gone,
        end: end(Some(Exit::Exited { code }), Some(9), Vec::new()),
        empty: true,
    };
    for (code, running, told) in [
        (GATE_CLOSED_EXIT, false, None),
        (GATE_CLOSED_EXIT, true, Some(GATE_CLOSED_EXIT)),
        (3, false, Some(3)),
    ] {
        let result = seen(&exits(code), None, None, &[], running);
        assert_eq!(result.exit_code, told, "{code} {running}");
        assert_eq!(result.status, Outcome::Failed);
        let observed = result.evidence == Evidence::Observed;
        assert_eq!(observed, told.is_some(), "{code} {running}");
        assert!(result.reason.is_some());
    }
}

#[test]
fn a_stop_that_comes_before_the_program_is_executed_is_a_stop() {
    use TerminationReason::{Completed, TimedOut, UserCancelled};
    let failed = |stage| {
        Ending::NotExecuted(LaunchFailure {
            stage,
            errno: 3,
            subject: Vec::new().into(),
        })
    };
    for (stage, stop, signal, status, reason, code) in [
        (
            Stage::Gate,
            Some(UserCancelled),
            Some(15),
            Outcome::Cancelled,
            UserCancelled,
            None,
        ),
        (
            Stage::Gate,
            Some(TimedOut),
            Some(15),
            Outcome::Failed,
            TimedOut,
            None,
        ),
        // Whatever ended it, it was no signal of ours.
        (
            Stage::Gate,
            Some(UserCancelled),
            None,
            Outcome::Failed,
            Completed,
            Some(126),
        ),
        (
            Stage::Gate,
            None,
            None,
            Outcome::Failed,
            Completed,
            Some(126),
        ),
        // The program was refused before the stop could matter.
        (
            Stage::Exec,
            Some(UserCancelled),
            Some(15),
            Outcome::Failed,
            Completed,
            Some(126),
        ),
    ] {
        let result = signalled(&failed(stage), stop, signal, &[]);
        let case = (stage, stop, signal);
        assert_eq!(
            (result.status, result.termination_reason, result.exit_code),
            (status, Some(reason), code),
            "{case:?}"
        );
        assert_eq!(result.tree_settlement, Some(TreeSettlement::Empty));
    }
}

#[test]
fn a_gate_that_was_never_opened_is_a_failure_without_an_exit() {
    for (gone, tree) in [
        (true, TreeSettlement::Empty),
        (false, TreeSettlement::Unverified),
    ] {
        let lost = HelperLost::Gone;
        let result = of(&Ending::NeverReleased { lost, gone }, None, &[]);
        assert_eq!(result.status, Outcome::Failed);
        assert_eq!(
            result.termination_reason,
            Some(TerminationReason::CrashDetected)
        );
        assert_eq!((result.exit_code, result.signal), (None, None));
        assert_eq!(result.tree_settlement, Some(tree));
        assert!(
            result
                .reason
                .unwrap()
                .contains("nothing of the command ran")
        );
    }
}

#[test]
fn a_lost_helper_is_never_success_and_invents_no_exit() {
    let result = of(&Ending::Lost(HelperLost::Gone), None, &[]);
    assert_eq!(result.status, Outcome::Indeterminate);
    assert_eq!((result.exit_code, result.signal), (None, None));
    assert_eq!(result.evidence, Evidence::Unobserved);
}

#[test]
fn an_open_pipe_after_the_tree_is_gone_is_indeterminate_and_keeps_the_exit() {
    let result = of(
        &Ending::Empty(end(OK, None, Vec::new())),
        None,
        &[Stream::Stderr],
    );
    assert_eq!(result.status, Outcome::Indeterminate);
    assert_eq!(result.exit_code, Some(0));
    assert!(result.reason.unwrap().contains("stderr"));
}

#[test]
fn whoever_has_ended_is_no_residual_and_keeps_nothing_open() {
    let survivor = |pid, end| Survivor {
        process: ProcessNote::new(pid, 1, b"x".to_vec(), None),
        end,
    };
    let unreaped = survivor(7, SurvivorEnd::Unreaped);
    let alive = survivor(8, SurvivorEnd::Alive(WhyAlive::Permission));
    let only = Ending::Remains(end(OK, Some(9), vec![unreaped.clone()]));
    let result = of(&only, None, &[]);
    assert_eq!(result.status, Outcome::Succeeded);
    assert_eq!(result.tree_settlement, Some(TreeSettlement::Reaped));
    assert_eq!(
        (result.unreaped_pids, result.residual_pids),
        (vec![7], Vec::new())
    );
    let both = Ending::Remains(end(OK, Some(9), vec![unreaped.clone(), alive]));
    let result = of(&both, None, &[]);
    assert_eq!(result.status, Outcome::Indeterminate);
    assert_eq!(
        (result.unreaped_pids, result.residual_pids),
        (vec![7], vec![8])
    );
    // One more than are listed can be anything.
    let mut more = end(OK, Some(9), vec![unreaped]);
    more.survivors_total = 2;
    let result = of(&Ending::Remains(more), None, &[]);
    assert_eq!(result.status, Outcome::Indeterminate);
}

/// Numbers of a helper are not added up beyond what a number can be: that would end the supervisor.
#[test]
fn usage_without_measure_is_no_crash() {
    let usage = Usage {
        user_us: u64::MAX,
        system_us: 1,
        max_rss_kib: u64::MAX,
    };
    let endless = TreeEnd {
        usage,
        ..end(OK, None, Vec::new())
    };
    let result = of(&Ending::Empty(endless), None, &[]);
    assert_eq!(result.peak_memory_bytes, Some(u64::MAX));
    assert_eq!(result.cpu_time_ms, Some(u64::MAX / 1000));
}

/// A tree that the kernel ended for its memory, with and without a stop at the same time.
fn killed_for_memory(
    ending: &Ending,
    stop: Option<TerminationReason>,
    signalled: Option<i32>,
) -> OperationResult {
    let stop = stop.map(|reason| StopRequest {
        reason,
        manner: StopManner::Terminate,
        grace: Duration::ZERO,
    });
    settle(Facts {
        operation_id: "op",
        run_id: "run",
        driver: Driver::Reaper,
        ending,
        early_exit: None,
        running: true,
        stop: stop.as_ref(),
        signalled,
        used: &Used::killed_for_memory(),
        undrained: &[],
        holders: Holders::default(),
        gaps: Gaps::begin(),
        duration_ms: None,
    })
}

#[test]
fn a_limit_is_the_reason_unless_it_was_stopped_for_another_one() {
    use TerminationReason as Reason;
    for (stop, signal, reason, outcome) in [
        (None, None, Reason::MemoryExceeded, Outcome::Failed),
        // Asked for, and over before anything was sent.
        (
            Some(Reason::UserCancelled),
            None,
            Reason::MemoryExceeded,
            Outcome::Failed,
        ),
        (
            Some(Reason::TimedOut),
            None,
            Reason::MemoryExceeded,
            Outcome::Failed,
        ),
        (
            Some(Reason::MemoryExceeded),
            Some(15),
            Reason::MemoryExceeded,
            Outcome::Failed,
        ),
        // What it reached while it was being ended.
        (
            Some(Reason::UserCancelled),
            Some(15),
            Reason::UserCancelled,
            Outcome::Cancelled,
        ),
        (
            Some(Reason::TimedOut),
            Some(9),
            Reason::TimedOut,
            Outcome::Failed,
        ),
        (
            Some(Reason::PidsExceeded),
            Some(15),
            Reason::PidsExceeded,
            Outcome::Failed,
        ),
    ] {
        let ending = Ending::Empty(end(KILLED, signal, Vec::new()));
        let result = killed_for_memory(&ending, stop, signal);
        assert_eq!(
            (result.status, result.termination_reason),
            (outcome, Some(reason)),
            "{stop:?} {signal:?}"
        );
        let reached = result.limits.expect("it had limits").reached;
        assert_eq!(reached, [crate::limits::Limit::Memory]);
        assert_eq!(result.stop.is_some(), signal.is_some());
    }
}

/// Where the end is not proven, no limit makes it so.
#[test]
fn a_limit_proves_no_end() {
    let alive = Survivor {
        process: ProcessNote::new(7, 99, b"sleep".to_vec(), Some(0)),
        end: SurvivorEnd::Alive(WhyAlive::Unknown),
    };
    let ending = Ending::Remains(end(None, Some(9), vec![alive]));
    let result = killed_for_memory(&ending, None, Some(9));
    assert_eq!(result.status, Outcome::Indeterminate);
    assert_eq!(result.termination_reason, None);
}
