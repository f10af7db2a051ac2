//! Numbers of processes are given out again. Whoever has one that is recorded, and is not who was recorded,
//! gets no signal: not from recovery, not from an adjudication, not from a cancellation.
//!
//! The counter of a pid namespace can be set back, so in one of its own this is not left to chance.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use xioflow_kernel::journal::{AdjudicationVerdict, Query};
use xioflow_kernel::{AdjudicateError, DescendantPolicy, ProcessIdentity, StopManner};
use xioflow_kit::{Deadline, Stage, running_as_root, wait};
use xioflow_protocol::{
    Identity, LAST_WORD_FORMAT, LastWord, ProcessNote, Survivor, SurvivorEnd, TreeEnd, Usage,
    WhyAlive,
};

use crate::left::{ID, Left, Legacy, as_json, identity_of};
use crate::stop::end;
use crate::{assert_isolated, command, decision, open, text};

/// Attempts to be given a number; another process may take it in between.
const ATTEMPTS: usize = 200;

#[test]
fn a_stranger_with_a_recorded_number_is_never_signalled() {
    if !running_as_root() || !can_unshare() {
        println!("skipped: no pid namespace of one's own (root and CLONE_NEWPID)");
        return;
    }
    let program = std::env::current_exe().expect("this program");
    // The first process of a namespace waits for orphans and has no other part in it.
    let first = "\"$@\"; status=$?; exit $status";
    let inside = Command::new("/usr/bin/unshare")
        .args([
            "--pid",
            "--fork",
            "--mount-proc",
            "/bin/sh",
            "-c",
            first,
            "sh",
        ])
        .arg(program)
        .args([
            "strangers::inside",
            "--ignored",
            "--test-threads=1",
            "--nocapture",
        ])
        .stdin(Stdio::null())
        .output()
        .expect("unshare runs");
    let said = String::from_utf8_lossy(&inside.stdout);
    let errors = String::from_utf8_lossy(&inside.stderr);
    assert!(inside.status.success(), "{said}\n{errors}");
    assert!(said.contains("4 passed"), "{said}");
}

fn can_unshare() -> bool {
    let tried = Command::new("/usr/bin/unshare")
        .args([
            "--pid",
            "--fork",
            "--mount-proc",
            "/bin/sh",
            "-c",
            "echo 1 >/proc/sys/kernel/ns_last_pid",
        ])
        .stderr(Stdio::null())
        .status();
    tried.is_ok_and(|status| status.success())
}

/// Somebody with the number of another, who writes down every signal that comes.
struct Stranger {
    process: Child,
    /// Another one in the session that it leads.
    member: Option<u32>,
    signals: PathBuf,
}

impl Stranger {
    /// Makes one that has this number; as the leader of a session with a member, or in that of the test.
    fn with_number(stage: &Stage, pid: u32, leads: bool) -> Self {
        for attempt in 0..ATTEMPTS {
            let name = format!("stranger-{pid}-{leads}-{attempt}");
            let (ready, signals) = (stage.path(&name), stage.path(format!("{name}.signals")));
            let of_session = stage.path(format!("{name}.member"));
            let mut command = match leads {
                true => Command::new("/usr/bin/setsid"),
                false => Command::new("/usr/bin/env"),
            };
            if leads {
                let script = "sleep 120 & echo $! >\"$0\"; exec \"$@\"";
                command.args(["/bin/sh", "-c", script, text(&of_session)]);
            }
            command
                .arg(stage.fixture())
                .args(["--ttl", "120", "--ready", text(&ready)])
                .args(["record-signals", text(&signals)])
                .env_clear()
                .envs(stage.environment())
                .stdin(Stdio::null());
            let before = (pid - 1).to_string();
            fs::write("/proc/sys/kernel/ns_last_pid", before).expect("a namespace of our own");
            let process = command.spawn().expect("the fixture starts");
            let is_it = process.id() == pid;
            stage.wait_ready(&ready);
            let member = leads.then(|| xioflow_kit::fixture_pids(&of_session)[0]);
            let mut stranger = Self {
                process,
                member,
                signals,
            };
            if is_it {
                return stranger;
            }
            stranger.end();
        }
        panic!("number {pid} is not given out");
    }

    fn end(&mut self) {
        self.process.kill().expect("a child");
        self.process.wait().expect("a child");
        self.member.into_iter().for_each(end);
    }

    fn assert_left_alone(mut self) {
        let state = wait::state(self.process.id());
        assert!(
            state.is_some_and(|it| it != 'Z'),
            "the stranger is {state:?}"
        );
        let signals = fs::read_to_string(&self.signals).expect("its file");
        assert_eq!(signals, "", "the stranger got signals");
        let member = self.member.is_none_or(wait::is_alive);
        assert!(member, "the stranger's session got signals");
        self.end();
    }
}

/// A process that is gone, with who it was.
fn gone(stage: &Stage, name: &str) -> ProcessIdentity {
    let (mut process, _) = command(stage, name, &["sleep"]);
    let identity = identity_of(process.id());
    process.kill().expect("a child");
    process.wait().expect("a child");
    identity
}

/// A command and its helper, with numbers between them for what a stranger starts.
fn both_gone(stage: &Stage) -> (ProcessIdentity, ProcessIdentity) {
    let root = gone(stage, "root");
    for between in ["between-1", "between-2", "between-3"] {
        gone(stage, between);
    }
    (root, gone(stage, "holder"))
}

/// Waits until a tick after the one in which this one started: number and tick are all that is recorded of a
/// survivor, so a stranger of the same tick is told apart by nothing.
fn later_than(identity: &ProcessIdentity) {
    let started_in = |name: &str| {
        let mut process = Command::new("sleep").arg("60").spawn().expect(name);
        let ticks = identity_of(process.id()).start_ticks;
        process.kill().expect("a child");
        process.wait().expect("a child");
        ticks
    };
    wait::until("another tick", Deadline::usual(), || {
        started_in("sleep") > identity.start_ticks
    });
}

fn told(identity: &ProcessIdentity) -> Identity {
    let mut boot_id = [0; 16];
    for (at, byte) in boot_id.iter_mut().enumerate() {
        let digits = &identity.boot_id[2 * at..2 * at + 2];
        *byte = u8::from_str_radix(digits, 16).expect("a boot id");
    }
    Identity {
        pid: identity.pid,
        start_ticks: identity.start_ticks,
        boot_id,
        pidfd_inode: identity.pidfd_inode,
    }
}

/// The stranger started in the very tick in which the one before did.
fn in_one_tick(before: &ProcessIdentity, stranger: &Stranger) -> ProcessIdentity {
    ProcessIdentity {
        start_ticks: identity_of(stranger.process.id()).start_ticks,
        ..before.clone()
    }
}

#[test]
#[ignore = "the half that runs in a pid namespace of its own"]
fn inside_the_command_and_its_helper_have_become_strangers() {
    for leads in [true, false] {
        let stage = Stage::new();
        let (root, holder) = both_gone(&stage);
        later_than(&holder);
        let as_root = Stranger::with_number(&stage, root.pid, leads);
        let as_holder = Stranger::with_number(&stage, holder.pid, leads);
        let mut left = Left::with_root(&root);
        left.holder = as_json(&holder);
        Legacy::of(left).leave(&stage);
        let domain = open(&stage);
        let found = decision(&domain);
        assert_eq!(
            (found.case, found.signalled.as_slice()),
            ('G', &[][..]),
            "{found:?}"
        );
        assert!(
            found.evidence.contains("the command is gone"),
            "{}",
            found.evidence
        );
        assert_isolated(&stage, &domain);
        // The session of that number is the stranger's as well.
        let stopped = AdjudicationVerdict::ConfirmedStopped;
        let decided = domain.adjudicate(ID, stopped, "ada", None);
        assert!(decided.expect("it is not ours").residual_pids.is_empty());
        as_root.assert_left_alone();
        as_holder.assert_left_alone();
    }
}

/// Then the inode of its pidfd tells them apart, or nothing does, and nobody is signalled either.
#[test]
#[ignore = "the half that runs in a pid namespace of its own"]
fn inside_the_stranger_started_in_the_same_tick() {
    let stage = Stage::new();
    let root = gone(&stage, "root");
    if root.pidfd_inode.is_none() {
        return;
    }
    let stranger = Stranger::with_number(&stage, root.pid, true);
    let mut left = Left::with_root(&in_one_tick(&root, &stranger));
    left.lease = None;
    let mut coarse = left.clone();
    let without_inode = ProcessIdentity {
        pidfd_inode: None,
        ..in_one_tick(&root, &stranger)
    };
    coarse.id = "coarse".to_owned();
    coarse.root = Some(as_json(&without_inode));
    let mut legacy = Legacy::of(left);
    legacy.operations.push(coarse);
    legacy.leave(&stage);
    let domain = open(&stage);
    let found: Vec<_> = domain
        .recovered()
        .iter()
        .map(|it| (it.operation_id.as_str(), it.case, it.signalled.len()))
        .collect();
    assert_eq!(found, [(ID, 'G', 0), ("coarse", 'G', 0)]);
    let evidence = |at: usize| domain.recovered()[at].evidence.as_str();
    assert!(
        evidence(0).contains("the command is gone"),
        "{}",
        evidence(0)
    );
    assert!(
        evidence(1).contains("the command cannot be looked at"),
        "{}",
        evidence(1)
    );
    let stopped = AdjudicationVerdict::ConfirmedStopped;
    domain
        .adjudicate(ID, stopped, "ada", None)
        .expect("it is gone");
    // Somebody is there, and nothing tells who: that is no "no".
    let refused = domain.adjudicate("coarse", stopped, "ada", None);
    assert!(
        matches!(refused, Err(AdjudicateError::StillAlive { .. })),
        "{refused:?}"
    );
    stranger.assert_left_alone();
}

#[test]
#[ignore = "the half that runs in a pid namespace of its own"]
fn inside_one_that_was_left_has_become_a_stranger() {
    let stage = Stage::new();
    let (root, holder) = both_gone(&stage);
    let residual = gone(&stage, "residual");
    later_than(&residual);
    let stranger = Stranger::with_number(&stage, residual.pid, true);
    let mut left = Left::with_root(&root);
    left.holder = as_json(&holder);
    Legacy::of(left).leave(&stage);
    let note = ProcessNote::new(residual.pid, residual.start_ticks, b"left".to_vec(), None);
    let word = LastWord {
        format: LAST_WORD_FORMAT,
        operation_id: ID.to_owned(),
        holder: told(&holder),
        root: Some(told(&root)),
        released: true,
        launch_failure: None,
        end: TreeEnd {
            exit: None,
            survivors: vec![Survivor {
                process: note,
                end: SurvivorEnd::Alive(WhyAlive::Permission),
            }],
            survivors_total: 1,
            usage: Usage::default(),
            last_signal: Some(9),
            group_empty: None,
        },
        empty: false,
        written_at_ms: 1,
        stopped: true,
        namespace: None,
    };
    let path = stage.domain().join("holders").join(format!("{ID}.word"));
    fs::write(path, word.to_bytes().expect("a short word")).expect("a file of the domain");
    let domain = open(&stage);
    assert_eq!(
        (decision(&domain).case, decision(&domain).signalled.len()),
        ('B', 0)
    );
    let stopped = AdjudicationVerdict::ConfirmedStopped;
    let decided = domain.adjudicate(ID, stopped, "ada", None);
    assert!(decided.expect("it is not ours").residual_pids.is_empty());
    stranger.assert_left_alone();
}

/// A running operation whose command has ended: its tree is ended, and not who has the command's number.
#[test]
#[ignore = "the half that runs in a pid namespace of its own"]
fn inside_a_cancellation_ends_the_tree_and_nobody_else() {
    let stage = Stage::new();
    let domain = open(&stage);
    let ready = stage.path("ready");
    let script = format!(
        "setsid sleep 120 & echo $! >{0}.new; mv {0}.new {0}",
        text(&ready)
    );
    let shell = xioflow_kernel::Command::new("/bin/sh").args(["-c", &script]);
    let shell = shell.cwd(stage.path("")).inherit_env();
    let operation = domain.operation(shell).expect("a builder").id("live");
    let running = operation
        .descendants(DescendantPolicy::Wait)
        .start()
        .expect("a thread");
    wait::file(&ready, Deadline::usual());
    let member = xioflow_kit::fixture_pids(&ready)[0];
    let operation = domain
        .journal()
        .operation("live")
        .expect("readable")
        .expect("recorded");
    let identity = operation.process_identity.expect("it runs");
    let root = u32::try_from(identity["pid"].as_u64().expect("a pid")).expect("a pid");
    wait::until("its helper has waited for it", Deadline::usual(), || {
        wait::state(root).is_none()
    });
    let stranger = Stranger::with_number(&stage, root, true);
    let grace = std::time::Duration::from_secs(1);
    domain
        .cancel("live", StopManner::Terminate, grace)
        .expect("it runs");
    let result = running.wait().expect("a result");
    assert_eq!(result.status, xioflow_kernel::journal::Outcome::Cancelled);
    assert!(!wait::is_alive(member), "what was left of the tree lives");
    stranger.assert_left_alone();
}
