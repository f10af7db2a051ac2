//! Stopping: the whole tree, within bounds, and an error where there is nothing to stop.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;
use xioflow_kit::{Deadline, fixture_pids, wait};

use crate::contract::{Contract, Level, Outcome, Unsupported};
use crate::document::Document;
use crate::pulse::Pulse;
use crate::ways::{Client, RefusalKind};
use crate::work::Work;
use crate::world::{World, assert_gone, assert_one_result, kinds};

pub(super) const CONTRACTS: &[Contract] = &[
    Contract {
        number: 8,
        title: "a stop reaches the whole group",
        level: Level::Stop,
        check: group,
    },
    Contract {
        number: 9,
        title: "escapees are ended too, or admitted",
        level: Level::Stop,
        check: escapees,
    },
    Contract {
        number: 10,
        title: "pipe holders are reaped and the real exit is kept",
        level: Level::Stop,
        check: pipe_holders,
    },
    Contract {
        number: 11,
        title: "a timeout is bounded whatever escapes",
        level: Level::Stop,
        check: bounded_timeout,
    },
    Contract {
        number: 12,
        title: "stopping what is not active is an error",
        level: Level::Stop,
        check: not_active,
    },
    Contract {
        number: 66,
        title: "a stop action runs once, before anything is freed, and changes nothing of the end",
        level: Level::Stop,
        check: stop_action,
    },
    Contract {
        number: 67,
        title: "a pid namespace of its own is told as such, and its tree is gone with the result",
        level: Level::Stop,
        check: enclosed,
    },
];

/// Begins a fixture, cancels it once it stands, and returns its result and its pids.
fn cancelled(
    client: &dyn Client,
    world: &World<'_>,
    (work, ready): (Work, PathBuf),
) -> Result<(Document, Vec<u32>), Unsupported> {
    let id = work.id.clone();
    let work = work.lease("db").grace(Duration::from_millis(200));
    let submitted = client.submit(&work)?;
    let pids = world.stage.wait_ready(&ready);
    submitted.cancel()?.expect("it is active");
    let result = submitted.wait().expect("a result");
    assert_one_result(client, &id);
    Ok((result, pids))
}

fn group(world: &World<'_>) -> Outcome {
    let client = world.client()?;
    for (id, mode) in [("flat", "flat"), ("chain", "chain")] {
        let work = world.announced(id, &["spawn-tree", mode, "8"]);
        let (result, pids) = cancelled(&*client, world, work)?;
        assert_eq!(pids.len(), 9, "{pids:?}");
        assert_gone(&pids);
        result
            .assert(&json!({
                "status": "cancelled", "terminationReason": "user_cancelled", "residualPids": [],
            }))
            .assert_nothing_invented();
        assert_eq!(client.leases(), []);
    }
    Ok(())
}

fn escapees(world: &World<'_>) -> Outcome {
    let client = world.client()?;
    for (id, mode) in [
        ("escaped", &["escape-setsid", "3"][..]),
        ("deaf", &["escape-setsid", "ignore", "3"]),
        ("daemon", &["daemonise", "3"]),
    ] {
        let (result, pids) = cancelled(&*client, world, world.announced(id, mode))?;
        assert!(pids.len() > 3, "{pids:?}");
        match result.text("status") {
            // Said to be stopped: then nobody lives, and nothing is held.
            "cancelled" => {
                result.assert(&json!({ "residualPids": [] }));
                assert_gone(&pids);
                assert_eq!(client.leases(), []);
            }
            // Admitted: then somebody is named, and the lease is kept.
            "indeterminate" => {
                let residual = result.field("residualPids").as_array();
                assert!(residual.is_some_and(|pids| !pids.is_empty()), "{result}");
                assert_eq!(client.leases().len(), 1);
            }
            other => panic!("{other:?} is no end of a stop, in {result}"),
        }
    }
    Ok(())
}

/// The contract's own bound, for a command whose timeout is twice that.
const REAPED_WITHIN: Duration = Duration::from_secs(5);

fn pipe_holders(world: &World<'_>) -> Outcome {
    let client = world.client()?;
    let (work, ready) = world.announced("holder", &["--exit", "0", "hold-pipe", "2"]);
    let pulse = Pulse::start();
    let submitted = client.submit(&work.timeout(2 * REAPED_WITHIN))?;
    let pids = world.stage.wait_ready(&ready);
    let result = submitted.wait().expect("a result");
    let took = pulse.stop();
    assert!(took < REAPED_WITHIN, "{took:?} for {result}");
    result
        .assert(&json!({
            "status": "succeeded", "exitCode": 0, "terminationReason": "completed",
            "residualProcessesReaped": true, "residualPids": [], "treeSettlement": "reaped",
        }))
        .assert_nothing_invented();
    assert_gone(&pids);
    Ok(())
}

/// The contract's own figures.
const TIMEOUT: Duration = Duration::from_millis(600);
const RESOLVED_WITHIN: Duration = Duration::from_millis(3500);

fn bounded_timeout(world: &World<'_>) -> Outcome {
    let client = world.client()?;
    for (name, mode) in [
        ("setsid", &["escape-setsid", "ignore", "2"][..]),
        ("daemon", &["daemonise", "ignore", "2"]),
    ] {
        // On a busy host the time may be over before anybody has escaped.
        let ids = (0..ATTEMPTS_MAX).map(|attempt| format!("{name}-{attempt}"));
        let mut escaped = false;
        for id in ids {
            escaped = times_out(world, &*client, &id, mode)?;
            if escaped {
                break;
            }
        }
        assert!(escaped, "nobody escapes within {TIMEOUT:?}");
    }
    Ok(())
}

/// How often a timeout may come before the tree stands.
const ATTEMPTS_MAX: u32 = 10;

/// Lets an escaping command time out, and says whether its tree stood by then.
fn times_out(
    world: &World<'_>,
    client: &dyn Client,
    id: &str,
    mode: &[&str],
) -> Result<bool, Unsupported> {
    let (work, ready) = world.announced(id, mode);
    let pulse = Pulse::start();
    let result = client.submit(&work.timeout(TIMEOUT))?.wait();
    let (result, took) = (result.expect("a result"), pulse.stop());
    assert!(took < RESOLVED_WITHIN, "{took:?} for {result}");
    result.assert_nothing_invented();
    assert_one_result(client, id);
    let escaped = ready.exists();
    if result.text("status") != "indeterminate" {
        result.assert(&json!({ "status": "failed", "terminationReason": "timed_out" }));
        if escaped {
            assert_gone(&fixture_pids(&ready));
        }
    }
    Ok(escaped)
}

fn not_active(world: &World<'_>) -> Outcome {
    let client = world.client()?;
    let unknown = client.cancel("unknown")?.expect_err("there is none");
    unknown.assert(RefusalKind::NotFound, &["unknown"]);
    let work = world.traced("finished");
    client.submit(&work)?.wait().expect("a result");
    let before = kinds(&*client, "finished");
    let finished = client.cancel("finished")?.expect_err("it has ended");
    finished.assert(RefusalKind::AlreadyCompleted, &["finished"]);
    assert_eq!(kinds(&*client, "finished"), before);
    client.close()?;
    let closed = client
        .cancel("finished")?
        .expect_err("the domain is closed");
    closed.assert(RefusalKind::DomainClosed, &[]);
    let late = client.submit(&world.traced("late"))?.wait();
    late.expect_err("the domain is closed")
        .assert(RefusalKind::DomainClosed, &[]);
    assert_eq!(client.record("late"), None);
    Ok(())
}

fn stop_action(world: &World<'_>) -> Outcome {
    let client = world.client()?;
    let path = |name: &str| world.stage.path(name).display().to_string();
    let [trace, begun, go] = ["trace", "begun", "go"].map(path);
    let script = format!(
        "echo acted | tee -a {trace}; : > {begun}; while [ ! -e {go} ]; do sleep 0.02; done; exit 7"
    );
    let (work, ready) = world.announced("delegates", &["sleep"]);
    let work = Work {
        stop_action: Some(script),
        ..work.lease("db").grace(Duration::from_millis(200))
    };
    let submitted = client.submit(&work)?;
    let pids = world.stage.wait_ready(&ready);
    submitted.cancel()?.expect("it is active");
    wait::file(begun.as_ref(), Deadline::usual());
    assert_gone(&pids);
    assert_eq!(client.leases().len(), 1, "freed while its stop action ran");
    fs::write(&go, "").expect("a file of the stage");
    let result = submitted.wait().expect("a result");
    result.assert(&json!({
        "status": "cancelled", "terminationReason": "user_cancelled", "treeSettlement": "empty",
    }));
    Document(result.0["stopAction"].clone()).assert(&json!({
        "ran": true, "exitCode": 7, "stdout": "acted\n", "treeSettlement": "empty",
    }));
    assert_eq!(client.leases(), []);
    let again = client.submit(&work)?.wait().expect("a result");
    assert_eq!(again.0["stopAction"], result.0["stopAction"]);
    assert_eq!(fs::read_to_string(&trace).expect("a trace"), "acted\n");
    // One that comes to its own exit needs none.
    let quiet = Work {
        stop_action: Some(format!("echo acted >> {trace}")),
        ..world.shell("exits", "exit 3")
    };
    let result = client.submit(&quiet)?.wait().expect("a result");
    assert_eq!(result.0["stopAction"]["ran"], json!(false), "{result:?}");
    assert_eq!(fs::read_to_string(&trace).expect("a trace"), "acted\n");
    Ok(())
}

fn enclosed(world: &World<'_>) -> Outcome {
    let client = world.client()?;
    let daemon = "(setsid sleep 300 </dev/null >/dev/null 2>&1 &)";
    let script = format!("{daemon}; echo in $(ls -d /proc/[0-9]* | wc -l); exit 3");
    let work = Work {
        enclosed: true,
        ..world.shell("enclosed", &script).lease("db")
    };
    let result = match client.submit(&work)?.wait() {
        Err(refusal) if refusal.kind == RefusalKind::NotEnforceable => {
            assert_eq!(client.record("enclosed"), None, "refused, and recorded");
            return Err(Unsupported::because(refusal.text));
        }
        ended => ended.expect("a result"),
    };
    result.assert(&json!({
        "status": "failed", "exitCode": 3, "evidence": "observed", "driver": "pidns",
        "scope": "pid_namespace", "treeSettlement": "reaped", "survivorsTotal": 1,
    }));
    // By the number out here.
    let survivor = result.0["survivors"][0]["pid"].as_u64();
    let survivor = survivor.and_then(|pid| u32::try_from(pid).ok());
    assert_gone(&[survivor.expect("a number")]);
    assert_eq!(client.leases(), []);
    let plain = Work {
        enclosed: false,
        ..world.shell("plain", "true")
    };
    let result = client.submit(&plain)?.wait().expect("a result");
    // In what the host gives, which is no namespace.
    let scope = match result.0["driver"].as_str() {
        Some("cgroup") => json!({ "driver": "cgroup", "scope": "containment_cgroup" }),
        _ => json!({ "driver": "reaper", "scope": "subreaper_tree" }),
    };
    result.assert(&scope);
    Ok(())
}
