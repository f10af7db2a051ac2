//! Facts: written once, by the owner, and never more than what was seen.

use std::ffi::OsString;
use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::thread;
use std::time::Duration;

use nix::sys::ptrace;
use serde_json::json;
use xioflow_kernel::journal::{Journal, OpenOptions, Query};
use xioflow_kit::{Deadline, wait};

use super::leases::wait_reserved;
use crate::contract::{Contract, Level, Outcome, Unsupported};
use crate::document::Document;
use crate::ways::{Client, RefusalKind};
use crate::work::Work;
use crate::world::{LONG, RESULT, World, assert_gone, assert_one_result, kill, kinds, text};

pub(super) const CONTRACTS: &[Contract] = &[
    Contract {
        number: 20,
        title: "an owner that lost the domain writes nothing",
        level: Level::Record,
        check: fencing,
    },
    Contract {
        number: 41,
        title: "there is one result, and nothing in it is invented",
        level: Level::Stop,
        check: one_result,
    },
    Contract {
        number: 62,
        title: "a daemon without descriptors is not overlooked",
        level: Level::Stop,
        check: daemon,
    },
    Contract {
        number: 65,
        title: "a zombie is never a residual",
        level: Level::Stop,
        check: zombies,
    },
];

fn fencing(world: &World<'_>) -> Outcome {
    let old = world.client()?;
    let (work, mut gate) = world.gated("held");
    let running = old.submit(&work.lease("db"))?;
    gate.wait_reached();
    let new = take_over(world);
    let facts = || {
        let operation = new.operation("held").expect("readable");
        (
            operation,
            new.leases().expect("readable"),
            new.last_seq().expect("readable"),
        )
    };
    let before = facts();
    assert_eq!(before.1.len(), 1, "{before:#?}");
    gate.open();
    let refusal = running.wait().expect_err("it owns nothing any more");
    let kinds = [RefusalKind::Fenced, RefusalKind::NotRecorded];
    assert!(kinds.contains(&refusal.kind), "{refusal}");
    // Neither the result nor the release of the lease came through.
    assert_eq!(facts(), before);
    let late = old.submit(&world.traced("late"))?.wait();
    let refusal = late.expect_err("it owns nothing any more");
    // An arbiter that has lost its domain ends, and refuses until it has.
    let kinds = [
        RefusalKind::Fenced,
        RefusalKind::DomainLocked,
        RefusalKind::DomainClosed,
        RefusalKind::ArbiterGone,
    ];
    assert!(kinds.contains(&refusal.kind), "{refusal}");
    assert_eq!(new.operation("late").expect("readable"), None);
    assert_eq!(facts(), before);
    drop(old);
    assert_eq!(
        facts(),
        before,
        "an owner that was fenced released something"
    );
    new.close().expect("it is the owner");
    // Whoever opens the domain next settles what the fenced owner could not record.
    let client = world.client()?;
    client
        .submit(&world.traced("next"))?
        .wait()
        .expect("a result");
    let record = client.record("held").expect("a record");
    assert_eq!(record.status, "done", "{record:#?}");
    assert_one_result(&*client, "held");
    assert_eq!(world.ran(), ["held", "next"]);
    Ok(())
}

/// Takes the domain from its owner, as after the loss of its lock file.
fn take_over(world: &World<'_>) -> Journal {
    let domain = world.stage.domain();
    fs::remove_file(domain.join("domain.lock")).expect("a lock file");
    Journal::open(&domain, &OpenOptions::default()).expect("it looks free")
}

fn one_result(world: &World<'_>) -> Outcome {
    let client = world.client()?;
    for (work, status, reason) in [
        (world.traced("fine"), "succeeded", "completed"),
        (
            world.fixture("failed", &["exit", "3"]),
            "failed",
            "completed",
        ),
        (
            world.fixture("killed", &["die-by-signal", "9"]),
            "failed",
            "completed",
        ),
        (
            world.program("missing", "/nonexistent/program"),
            "failed",
            "completed",
        ),
        (
            world
                .fixture("late", &["ignore-signals"])
                .timeout(SHORT)
                .grace(SHORT),
            "failed",
            "timed_out",
        ),
    ] {
        let result = client.submit(&work)?.wait().expect("a result");
        assert_ended(&*client, &result, status, reason);
    }
    world.indeterminate("unclear", "db", |work| client.submit(work))?;
    assert_one_result(&*client, "unclear");
    cancelled_while_it_runs(world, &*client)?;
    if client.works_beside_others() {
        cancelled_while_it_waits(world, &*client)?;
    }
    race(world, &*client)
}

/// The end is told so, nothing in it is invented, and it is recorded once.
fn assert_ended(client: &dyn Client, result: &Document, status: &str, reason: &str) {
    result
        .assert(&json!({ "status": status, "terminationReason": reason }))
        .assert_nothing_invented();
    assert_one_result(client, result.text("operationId"));
}

fn cancelled_while_it_runs(world: &World<'_>, client: &dyn Client) -> Outcome {
    let (work, ready) = world.announced("cancelled", &["sleep"]);
    let submitted = client.submit(&work)?;
    world.stage.wait_ready(&ready);
    submitted.cancel()?.expect("it is active");
    let result = submitted.wait().expect("a result");
    assert_ended(client, &result, "cancelled", "user_cancelled");
    Ok(())
}

/// Nothing of it ran, and it never held anything: its result is all that there is of it.
fn cancelled_while_it_waits(world: &World<'_>, client: &dyn Client) -> Outcome {
    let (holder, mut gate) = world.gated("holder");
    let holding = client.submit(&holder.lease("port"))?;
    gate.wait_reached();
    let waiting = world.traced("waiting").lease("port").lease("mark");
    let submitted = client.submit(&waiting.wait(LONG))?;
    wait_reserved(world, client, "mark", "waiting")?;
    submitted.cancel()?.expect("it waits");
    let result = submitted.wait().expect("a result");
    assert_ended(client, &result, "cancelled", "user_cancelled");
    result.assert(&json!({ "evidence": "unobserved", "treeSettlement": null }));
    assert_eq!(kinds(client, "waiting"), [RESULT]);
    gate.open();
    holding.wait().expect("a result");
    assert!(!world.ran().contains(&"waiting".to_owned()));
    Ok(())
}

/// A timeout and a grace, in the middle of what the races try.
const SHORT: Duration = Duration::from_millis(60);
/// How many times a timeout and a cancellation meet.
const RACES: u32 = 30;

/// A timeout and a cancellation that come at about the same time, for commands that obey and for
/// commands that do not.
fn race(world: &World<'_>, client: &dyn Client) -> Outcome {
    for turn in 0..RACES {
        let id = format!("race-{turn}");
        let mode = if turn % 2 == 0 {
            "sleep"
        } else {
            "ignore-signals"
        };
        let work = world.fixture(&id, &[mode]).timeout(SHORT).grace(SHORT);
        let submitted = client.submit(&work)?;
        world.wait_for_record(&id, |_| true);
        let offset = random_up_to(2 * SHORT);
        // The time is not waited for anything: it is what this varies.
        thread::park_timeout(offset);
        let cancelled = submitted.cancel()?;
        let result = submitted.wait().expect("a result");
        let told = (result.text("status"), result.text("terminationReason"));
        let fair = [("cancelled", "user_cancelled"), ("failed", "timed_out")];
        assert!(fair.contains(&told), "after {offset:?}: {result}");
        if let Err(refusal) = cancelled {
            refusal.assert(RefusalKind::AlreadyCompleted, &[]);
        }
        result.assert_nothing_invented();
        assert_one_result(client, &id);
        let record = client.record(&id).expect("a record");
        assert_eq!(record.outcome.as_deref(), Some(told.0), "{record:#?}");
    }
    Ok(())
}

/// A time that differs from turn to turn and from run to run.
fn random_up_to(longest: Duration) -> Duration {
    let random = RandomState::new().build_hasher().finish();
    let micros = u64::try_from(longest.as_micros()).expect("a short time");
    Duration::from_micros(random % micros)
}

fn daemon(world: &World<'_>) -> Outcome {
    let client = world.client()?;
    for (id, mode) in [
        ("obeys", &["--exit", "0", "daemonise", "2"][..]),
        ("deaf", &["--exit", "0", "daemonise", "ignore", "1"]),
    ] {
        let (work, ready) = world.announced(id, mode);
        let submitted = client.submit(&work)?;
        let pids = world.stage.wait_ready(&ready);
        let result = submitted.wait().expect("a result");
        result
            .assert(&json!({
                "status": "succeeded", "exitCode": 0, "treeSettlement": "reaped",
                "residualProcessesReaped": true, "residualPids": [],
            }))
            .assert_nothing_invented();
        assert_gone(&pids);
    }
    let clean = client.submit(&world.fixture("clean", &["exit", "0"]))?;
    clean.wait().expect("a result").assert(&json!({
        "treeSettlement": "empty", "residualProcessesReaped": false, "survivors": [],
    }));
    daemon_that_may_stay(world, &*client)
}

/// As long as it lives the operation is open, so nothing says `empty` of its tree.
fn daemon_that_may_stay(world: &World<'_>, client: &dyn Client) -> Outcome {
    let (work, ready) = world.announced("stays", &["--exit", "0", "daemonise", "1"]);
    let work = Work {
        descendants_may_stay: true,
        ..work
    };
    let submitted = client.submit(&work)?;
    let pids = world.stage.wait_ready(&ready);
    assert!(wait::pid_gone(pids[0], Deadline::usual()));
    let open = client.record("stays").expect("a record");
    assert_eq!((open.status.as_str(), &open.result), ("active", &None));
    kill(pids[1]);
    let result = submitted.wait().expect("a result");
    result.assert(&json!({
        "status": "succeeded", "exitCode": 0, "treeSettlement": "empty",
        "residualProcessesReaped": false, "residualPids": [],
    }));
    Ok(())
}

/// A process with a child that has ended and that nobody waits for.
fn parent_of_a_zombie(ready: &std::path::Path) -> String {
    let draft = ready.with_extension("draft");
    format!(
        "(exit 0) & echo $! > {draft}; mv {draft} {ready}; exec sleep 120",
        draft = text(&draft),
        ready = text(ready),
    )
}

fn zombies(world: &World<'_>) -> Outcome {
    let client = world.client()?;
    // Below a command that is stopped.
    let ready = world.stage.path("stopped");
    let work = world.shell("stopped", &parent_of_a_zombie(&ready));
    let submitted = client.submit(&work)?;
    wait_for_zombie(&ready);
    submitted.cancel()?.expect("it is active");
    let result = submitted.wait().expect("a result");
    result
        .assert(&json!({ "status": "cancelled", "residualPids": [], "unreapedPids": [] }))
        .assert_nothing_invented();
    // Below a process that outlives its command.
    let ready = world.stage.path("outlived");
    let script = format!(
        "setsid sh -c '{}' & until [ -e {} ]; do :; done; exit 0",
        parent_of_a_zombie(&ready),
        text(&ready),
    );
    let result = client.submit(&world.shell("outlived", &script))?.wait();
    let result = result.expect("a result");
    result.assert(&json!({
        "status": "succeeded", "exitCode": 0, "treeSettlement": "reaped",
        "residualProcessesReaped": true, "residualPids": [], "unreapedPids": [],
    }));
    for survivor in result.field("survivors").as_array().expect("a list") {
        assert_ne!(survivor["end"], "alive", "{result}");
    }
    zombie_of_a_stranger(world, &*client)
}

/// A process that has ended, and that its holder cannot wait for because somebody traces it: it is
/// told apart from one that lives, and nothing is held for it.
fn zombie_of_a_stranger(world: &World<'_>, client: &dyn Client) -> Outcome {
    let (daemon, ready) = world.announced("traced", &["--exit", "0", "daemonise", "1"]);
    let (mut work, mut gate) = world.gated("traced");
    let words = [daemon.program].into_iter().chain(daemon.args);
    // The same gate, behind the daemon.
    let script = work.args.pop().expect("a script");
    let mut with_daemon = OsString::from("\"$@\"; ");
    with_daemon.push(script);
    let work = work
        .args([with_daemon, "sh".into()])
        .args(words)
        .lease("db");
    let submitted = client.submit(&work)?;
    gate.wait_reached();
    let pids = world.stage.wait_ready(&ready);
    let traced = nix::unistd::Pid::from_raw(i32::try_from(pids[1]).expect("a pid"));
    let seized = ptrace::seize(traced, ptrace::Options::empty());
    gate.open();
    let result = submitted.wait().expect("a result");
    if let Err(error) = seized {
        return Err(Unsupported::in_part(format!(
            "this host lets nobody trace the process of a command ({error})"
        )));
    }
    let told = result.assert(&json!({
        "status": "succeeded", "exitCode": 0, "treeSettlement": "reaped", "residualPids": [],
        "unreapedPids": [pids[1]],
    }));
    assert_eq!(told.field("survivors")[0]["end"], "unreaped", "{told}");
    assert_eq!(client.leases(), []);
    nix::sys::wait::waitpid(traced, None).expect("its tracer is told of its end");
    Ok(())
}

fn wait_for_zombie(ready: &std::path::Path) {
    wait::file(ready, Deadline::usual());
    let pid = fs::read_to_string(ready).expect("a pid");
    let pid = pid.trim().parse().expect("a pid");
    assert!(wait::pid_gone(pid, Deadline::usual()), "{pid} lives on");
}
