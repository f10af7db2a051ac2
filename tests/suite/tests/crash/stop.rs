//! Helper and supervisor are gone, and the command is not.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use xioflow_kernel::journal::{AdjudicationVerdict, Reader};
use xioflow_kernel::{
    AdjudicateError, DomainOptions, First, ProcessIdentity, Verdict, preview_recovery,
};
use xioflow_kit::{Deadline, Stage, wait};

use crate::left::{ID, Left, Legacy, as_json, identity_of};
use crate::{assert_free, assert_isolated, command, decision, is_over, open, result, text};

/// The patience of recovery with helpers, all of them together.
const HOLDERS_TOGETHER: Duration = Duration::from_secs(15);

pub(crate) fn end(pid: u32) {
    let pid = Pid::from_raw(i32::try_from(pid).expect("a pid")).expect("a pid");
    kill_process(pid, Signal::KILL).expect("ours");
}

#[test]
fn a_command_without_a_holder_is_ended_and_keeps_its_leases() {
    let stage = Stage::new();
    let (mut root, pids) = command(&stage, "tree", &["spawn-tree", "flat", "3"]);
    Legacy::of(Left::with_root(&identity_of(root.id()))).leave(&stage);
    let domain = open(&stage);
    let decision = decision(&domain);
    assert_eq!(
        (decision.case, decision.verdict),
        ('N', Verdict::StoppedAliveProcess)
    );
    let mut signalled = decision.signalled.clone();
    signalled.sort_unstable();
    let mut expected = pids.clone();
    expected.sort_unstable();
    assert_eq!(signalled, expected);
    assert!(pids.iter().all(|pid| !wait::is_alive(*pid)), "{pids:?}");
    root.wait().expect("a child");
    assert_isolated(&stage, &domain);
    let guidance = result(&domain, ID).recovery_guidance.unwrap_or_default();
    assert!(guidance.contains("4 processes were ended"), "{guidance}");
    let stopped = AdjudicationVerdict::ConfirmedStopped;
    domain
        .adjudicate(ID, stopped, "ada", None)
        .expect("nothing of it lives");
    assert_free(&stage, &domain);
}

#[test]
fn one_that_ignores_being_asked_is_killed() {
    let stage = Stage::new();
    let (mut root, pids) = command(&stage, "deaf", &["ignore-signals"]);
    Legacy::of(Left::with_root(&identity_of(root.id()))).leave(&stage);
    let domain = open(&stage);
    assert_eq!(
        (
            decision(&domain).case,
            decision(&domain).signalled.as_slice()
        ),
        ('N', &pids[..])
    );
    root.wait().expect("a child");
    assert_isolated(&stage, &domain);
}

#[test]
fn one_that_is_stopped_is_ended_too() {
    let stage = Stage::new();
    let (mut root, pids) = command(&stage, "stopped", &["stop-self"]);
    wait::until("it has stopped", Deadline::usual(), || {
        wait::state(pids[0]) == Some('T')
    });
    Legacy::of(Left::with_root(&identity_of(root.id()))).leave(&stage);
    let domain = open(&stage);
    assert_eq!(decision(&domain).case, 'N');
    root.wait().expect("a child");
}

/// A zombie has its number as long as nobody waits for it, so whoever is in its session belongs to it.
#[test]
fn what_a_dead_command_left_in_its_session_is_ended() {
    let stage = Stage::new();
    let (mut root, identity, member) = with_member(&stage);
    wait::until("its leader has ended", Deadline::usual(), || {
        wait::state(root.id()) == Some('Z')
    });
    Legacy::of(Left::with_root(&identity)).leave(&stage);
    let domain = open(&stage);
    assert_eq!(decision(&domain).case, 'N');
    assert_eq!(decision(&domain).signalled, [member]);
    assert!(is_over(member));
    root.wait().expect("a child");
    assert_isolated(&stage, &domain);
}

/// A command that is gone, with a member of its session that is not.
pub(crate) fn leaderless(stage: &Stage) -> (ProcessIdentity, u32) {
    let (mut root, identity, member) = with_member(stage);
    root.wait().expect("a child");
    (identity, member)
}

/// A command that has ended, or is about to, and a member of its session.
fn with_member(stage: &Stage) -> (Child, ProcessIdentity, u32) {
    let (ready, gate) = (stage.path("ready"), stage.path("gate"));
    let script = format!(
        "sleep 120 & echo $! >{0}.new; mv {0}.new {0}; while [ ! -e {1} ]; do sleep 0.01; done",
        text(&ready),
        text(&gate)
    );
    let root = Command::new("/usr/bin/setsid")
        .args(["/bin/sh", "-c", &script])
        .env_clear()
        .envs(stage.environment())
        .stdin(Stdio::null())
        .spawn()
        .expect("a shell starts");
    wait::file(&ready, Deadline::usual());
    let identity = identity_of(root.id());
    std::fs::write(&gate, "").expect("a file of the stage");
    (root, identity, xioflow_kit::fixture_pids(&ready)[0])
}

/// Once its leader is waited for, the number of a session may be anybody's.
#[test]
fn a_session_whose_leader_is_gone_gets_no_signal() {
    let stage = Stage::new();
    let (identity, member) = leaderless(&stage);
    Legacy::of(Left::with_root(&identity)).leave(&stage);
    let domain = open(&stage);
    assert_eq!(
        (
            decision(&domain).case,
            decision(&domain).signalled.as_slice()
        ),
        ('G', &[][..])
    );
    assert!(wait::is_alive(member));
    assert_isolated(&stage, &domain);
    end(member);
}

/// What a daemon became is seen by nobody: it may be what the leases are there for.
#[test]
fn one_that_had_left_the_session_lives_and_the_leases_are_kept_for_it() {
    let stage = Stage::new();
    let (mut root, pids) = command(&stage, "daemon", &["daemonise"]);
    let daemon = pids[1];
    Legacy::of(Left::with_root(&identity_of(root.id()))).leave(&stage);
    let domain = open(&stage);
    assert_eq!(decision(&domain).signalled, [root.id()]);
    assert!(wait::is_alive(daemon));
    root.wait().expect("a child");
    assert_isolated(&stage, &domain);
    end(daemon);
}

#[test]
fn a_helper_that_was_stopped_is_continued() {
    let stage = Stage::new();
    let mut holder = Command::new("/usr/bin/setsid")
        .args(["/bin/sh", "-c", "kill -STOP $$"])
        .env_clear()
        .envs(stage.environment())
        .spawn()
        .expect("a shell starts");
    wait::until("it has stopped", Deadline::usual(), || {
        wait::state(holder.id()) == Some('T')
    });
    Legacy::of(Left {
        holder: as_json(&identity_of(holder.id())),
        ..Left::default()
    })
    .leave(&stage);
    let reaper = std::thread::spawn(move || holder.wait().expect("a child"));
    let domain = open(&stage);
    assert_eq!(decision(&domain).case, 'G', "{:?}", decision(&domain));
    reaper.join().expect("it has ended");
}

#[test]
fn helpers_that_do_not_end_are_waited_for_once_and_left_alone() {
    let stage = Stage::new();
    let mut holders = Vec::new();
    let mut legacy = Legacy::default();
    for at in 0..3 {
        let (holder, _) = command(&stage, &format!("holder-{at}"), &["sleep"]);
        legacy.runs.push((
            format!("run-{at}"),
            xioflow_kernel::journal::RunStatus::Running,
        ));
        legacy.operations.push(Left {
            id: format!("op-{at}"),
            run_id: format!("run-{at}"),
            lease: None,
            holder: as_json(&identity_of(holder.id())),
            ..Left::default()
        });
        holders.push(holder);
    }
    legacy.leave(&stage);
    let began = Instant::now();
    let domain = open(&stage);
    let took = began.elapsed();
    assert!(took < 2 * HOLDERS_TOGETHER, "{took:?}");
    let cases: Vec<char> = domain.recovered().iter().map(|it| it.case).collect();
    assert_eq!(cases, ['E', 'E', 'E']);
    let stopped = AdjudicationVerdict::ConfirmedStopped;
    let refused = domain.adjudicate("op-0", stopped, "ada", None);
    assert!(
        matches!(refused, Err(AdjudicateError::StillAlive { .. })),
        "{refused:?}"
    );
    for mut holder in holders {
        assert!(wait::is_alive(holder.id()));
        end(holder.id());
        holder.wait().expect("a child");
    }
}

/// Whoever only asks what would be decided is told, and nothing happens.
#[test]
fn a_preview_says_whom_recovery_would_end_and_ends_nobody() {
    let stage = Stage::new();
    let (mut root, _) = command(&stage, "tree", &["sleep"]);
    Legacy::of(Left::with_root(&identity_of(root.id()))).leave(&stage);
    let reader = Reader::open(stage.domain()).expect("a domain");
    for _ in 0..2 {
        let preview = preview_recovery(&reader, &stage.domain()).expect("readable");
        let [expected] = preview.as_slice() else {
            panic!("{preview:?}");
        };
        assert_eq!(
            (expected.case, expected.first),
            ('N', Some(First::StopProcesses))
        );
        assert!(expected.signalled.is_empty() && wait::is_alive(root.id()));
    }
    drop(reader);
    let domain = open(&stage);
    assert_eq!(
        (decision(&domain).case, decision(&domain).first),
        ('N', None)
    );
    root.wait().expect("a child");
}

/// The original's owner may be at work: what it has started is no business of the copy's.
#[test]
fn a_copy_of_a_domain_leaves_the_originals_processes_alone() {
    let stage = Stage::new();
    let (mut root, _) = command(&stage, "tree", &["sleep"]);
    Legacy::of(Left::with_root(&identity_of(root.id()))).leave(&stage);
    let copy = stage.path("copy");
    let copied = Command::new("cp")
        .arg("-r")
        .args([stage.domain(), copy.clone()])
        .status();
    assert!(copied.expect("cp runs").success());
    let domain = DomainOptions::default()
        .helper(stage.program("xioflow-reaper"))
        .open(&copy)
        .expect("a domain of its own");
    assert_eq!(
        (decision(&domain).case, decision(&domain).signalled.len()),
        ('Q', 0)
    );
    assert!(wait::is_alive(root.id()));
    assert_isolated(&stage, &domain);
    drop(domain);
    let original = open(&stage);
    assert_eq!(decision(&original).case, 'N');
    root.wait().expect("a child");
}
