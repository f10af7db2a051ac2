//! What an owner leaves that dies, and what the next one makes of it; and how a person decides about
//! what nobody can prove.

use std::fs;
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};
use xioflow_kernel::journal::{
    Change, Journal, NewOperation, OpenOptions, OperationKind, Run, RunStatus, Task,
};
use xioflow_kit::{Deadline, fixture_pids, wait};

use crate::contract::{Contract, Level, Outcome, Unsupported};
use crate::ways::{Client, Record, RefusalKind};
use crate::world::{World, assert_one_result, kill, kinds, text};

pub(super) const CONTRACTS: &[Contract] = &[
    Contract {
        number: 22,
        title: "what a dead command left in its session is ended",
        level: Level::Record,
        check: dead_leader,
    },
    Contract {
        number: 23,
        title: "whoever has a recorded number is not thereby recorded",
        level: Level::Record,
        check: reused_number,
    },
    Contract {
        number: 24,
        title: "without an identity, only a gate proves that nothing ran",
        level: Level::Record,
        check: before_identity,
    },
    Contract {
        number: 25,
        title: "a Run whose owner died ends",
        level: Level::Record,
        check: runs_converge,
    },
    Contract {
        number: 26,
        title: "what is not proven is decided about, once, and not while it lives",
        level: Level::Record,
        check: adjudication,
    },
];

/// An operation that its owner left without a result.
struct Left {
    id: &'static str,
    spawn_gated: Option<bool>,
    /// Who the command was; without one it has not become active.
    root: Option<Value>,
}

/// The resource of an operation that was left.
fn resource(id: &str) -> String {
    format!("of-{id}")
}

/// Leaves these operations in the domain, each in a Run of its own, as an owner does that was killed.
fn leave(world: &World<'_>, operations: &[Left]) {
    let domain = world.stage.domain();
    let journal = Journal::open(domain, &OpenOptions::default()).expect("nobody owns it yet");
    let mut changes = vec![Change::SaveTask(Task {
        id: "task".into(),
        name: "task".into(),
        created_at_ms: 1,
        meta: Value::Null,
    })];
    for left in operations {
        changes.push(Change::AddRun(Run {
            id: run_of(left.id),
            task_id: "task".into(),
            owner: "gone".into(),
            status: RunStatus::Running,
            termination_reason: None,
            started_at_ms: 1,
            ended_at_ms: None,
            config: json!({}),
        }));
        changes.push(Change::RegisterOperation(Box::new(NewOperation {
            id: left.id.into(),
            run_id: run_of(left.id),
            kind: OperationKind::Process,
            name: left.id.into(),
            input_fingerprint: "left".into(),
            required_resources: vec![resource(left.id)],
            mutation_roots: Vec::new(),
            capability_id: None,
            timeout_ms: None,
            resource_budget: None,
            spawn_gated: left.spawn_gated,
        })));
        if let Some(root) = &left.root {
            changes.push(Change::ActivateOperation {
                operation_id: left.id.into(),
                process_identity: root.clone(),
                holder: identity(std::process::id(), Some(1)),
            });
        }
    }
    journal.commit(changes).expect("a commit");
}

fn run_of(id: &str) -> String {
    format!("run-of-{id}")
}

/// Who a process is; of another one before it, if its start is said.
fn identity(pid: u32, start_ticks: Option<u64>) -> Value {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("alive");
    let (_, fields) = stat.rsplit_once(')').expect("a name");
    let started = fields.split_whitespace().nth(19).expect("field 22");
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("a boot id");
    json!({
        "pid": pid,
        "pgid": pid,
        "startTicks": start_ticks.unwrap_or(started.parse().expect("a number")),
        "bootId": boot.trim().replace('-', ""),
        "pidfdInode": if start_ticks.is_some() { None } else { inode(pid) },
        "osStartTime": null,
        "commandFingerprint": null,
    })
}

/// The inode of a pidfd, where it is unique: by the type of the file system of pidfds since Linux 6.9.
fn inode(pid: u32) -> Option<u64> {
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    let pid = i32::try_from(pid)
        .ok()
        .and_then(Pid::from_raw)
        .expect("a pid");
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).expect("alive");
    let is_unique = rustix::fs::fstatfs(&pidfd).expect("a descriptor").f_type == 0x5049_4446;
    is_unique.then(|| rustix::fs::fstat(&pidfd).expect("a descriptor").st_ino)
}

/// A client of a domain that was left, after it was taken over.
fn client<'a>(world: &'a World<'_>) -> Result<Box<dyn Client + 'a>, Unsupported> {
    let client = world.client()?;
    // A command line comes to a domain with its first command.
    client
        .submit(&world.traced("next"))?
        .wait()
        .expect("a result");
    Ok(client)
}

fn record(client: &dyn Client, id: &str) -> Record {
    let record = client.record(id).expect("it is recorded");
    assert_eq!(record.status, "done", "{record:#?}");
    assert_one_result(client, id);
    record
}

/// Nobody knows how it ended, and it keeps what it had.
fn assert_unclear(client: &dyn Client, id: &str) {
    let record = record(client, id);
    assert_eq!(
        record.outcome.as_deref(),
        Some("indeterminate"),
        "{record:#?}"
    );
    let result = record.result.expect("a result");
    result
        .assert(&json!({ "exitCode": null, "signal": null }))
        .assert_nothing_invented();
    assert!(
        holds(client, id),
        "it has given its leases back: {:?}",
        client.leases()
    );
}

/// Nothing of it ran, and it has given back what it had.
fn assert_failed(client: &dyn Client, id: &str) {
    let record = record(client, id);
    assert_eq!(record.outcome.as_deref(), Some("failed"), "{record:#?}");
    let result = record.result.expect("a result");
    result.assert(&json!({ "exitCode": null, "signal": null }));
    assert!(
        !holds(client, id),
        "it keeps its leases: {:?}",
        client.leases()
    );
}

fn holds(client: &dyn Client, id: &str) -> bool {
    client.leases().iter().any(|lease| lease.operation_id == id)
}

/// A command that has ended, with a member of its session that has not. Nobody has waited for the
/// command yet.
fn ended_command(world: &World<'_>) -> (Child, Value, u32) {
    let (ready, gate) = (world.stage.path("member"), world.stage.path("gate"));
    let script = format!(
        "sleep 120 & echo $! >{0}.new; mv {0}.new {0}; until [ -e {1} ]; do sleep 0.01; done",
        text(&ready),
        text(&gate)
    );
    let command = Command::new("/usr/bin/setsid")
        .args(["/bin/sh", "-c", &script])
        .env_clear()
        .envs(world.stage.environment())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("a shell starts");
    wait::file(&ready, Deadline::usual());
    let identity = identity(command.id(), None);
    fs::write(&gate, "").expect("a file of the stage");
    let pid = command.id();
    wait::until("it has ended", Deadline::usual(), || {
        wait::state(pid) == Some('Z')
    });
    (command, identity, fixture_pids(&ready)[0])
}

/// As long as nobody has waited for it, its number and its session are its own.
fn dead_leader(world: &World<'_>) -> Outcome {
    let (mut command, root, member) = ended_command(world);
    leave(
        world,
        &[Left {
            id: "led",
            spawn_gated: Some(true),
            root: Some(root),
        }],
    );
    let client = client(world)?;
    let gone = wait::pid_gone(member, Deadline::usual());
    command.wait().expect("a child");
    assert!(gone, "a member of its session lives");
    // Others may have left the session, and who held them is gone.
    assert_unclear(&*client, "led");
    Ok(())
}

fn reused_number(world: &World<'_>) -> Outcome {
    let (ready, signals) = (world.stage.path("stranger"), world.stage.path("signals"));
    let fixture = world.stage.run(world.stage.fixture());
    let stranger = fixture
        .args(["--ttl", "120", "--ready", text(&ready)])
        .args(["record-signals", text(&signals)])
        .start();
    wait::file(&ready, Deadline::usual());
    // Whoever was recorded had the number before.
    let root = identity(stranger.pid(), Some(1));
    leave(
        world,
        &[Left {
            id: "reused",
            spawn_gated: Some(true),
            root: Some(root),
        }],
    );
    let client = client(world)?;
    assert_unclear(&*client, "reused");
    let alive = wait::is_alive(stranger.pid());
    let heard = fs::read_to_string(&signals).expect("its file");
    stranger.signal(Signal::KILL);
    drop(stranger.finish());
    assert!(
        alive && heard.is_empty(),
        "a stranger got signals: {heard:?}"
    );
    Ok(())
}

fn before_identity(world: &World<'_>) -> Outcome {
    let left = |id, spawn_gated| Left {
        id,
        spawn_gated,
        root: None,
    };
    leave(
        world,
        &[
            left("gated", Some(true)),
            left("ungated", Some(false)),
            left("unknown", None),
        ],
    );
    let client = client(world)?;
    assert_failed(&*client, "gated");
    assert_unclear(&*client, "ungated");
    assert_unclear(&*client, "unknown");
    Ok(())
}

fn runs_converge(world: &World<'_>) -> Outcome {
    leave(
        world,
        &[
            Left {
                id: "known",
                spawn_gated: Some(true),
                root: None,
            },
            Left {
                id: "unknown",
                spawn_gated: None,
                root: None,
            },
        ],
    );
    let client = client(world)?;
    for (id, status) in [("known", "failed"), ("unknown", "indeterminate")] {
        let record = record(&*client, id);
        assert_eq!(
            record.run_status.as_deref(),
            Some(status),
            "of its Run, {record:#?}"
        );
    }
    Ok(())
}

/// The command is gone, so nobody may end the member of its session; it is seen, though.
fn adjudication(world: &World<'_>) -> Outcome {
    let (mut command, root, member) = ended_command(world);
    command.wait().expect("a child");
    leave(
        world,
        &[Left {
            id: "unclear",
            spawn_gated: Some(true),
            root: Some(root),
        }],
    );
    let client = client(world)?;
    assert_unclear(&*client, "unclear");
    let decide = |actor: &str| client.adjudicate("unclear", actor);
    let refused = decide("ada").inspect_err(|_| kill(member))?;
    let refusal = refused.expect_err("something of it lives");
    refusal.assert(RefusalKind::StillAlive, &["unclear", &member.to_string()]);
    assert_unclear(&*client, "unclear");
    kill(member);
    decide("ada")?.expect("nothing of it lives");
    let of_it = kinds(&*client, "unclear");
    let order = ["OPERATION_ADJUDICATED", "RESOURCES_RELEASED"];
    assert!(
        of_it.ends_with(&order.map(str::to_owned)),
        "not in this order at the end: {of_it:?}"
    );
    assert!(
        !holds(&*client, "unclear"),
        "it keeps its leases: {:?}",
        client.leases()
    );
    let refusal = decide("bob")?.expect_err("it is decided");
    refusal.assert(RefusalKind::AlreadyAdjudicated, &["ada"]);
    let record = record(&*client, "unclear");
    assert_eq!(
        record.outcome.as_deref(),
        Some("indeterminate"),
        "{record:#?}"
    );
    let result = record.result.expect("a result");
    assert_eq!(result.field("adjudication")["actor"], "ada", "in {result}");
    Ok(())
}
