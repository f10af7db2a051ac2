//! Whoever holds a tree is killed: the helper alone, and the helper together with its supervisor.

use std::process::Command;

use rustix::process::Signal;
use serde_json::json;
use xioflow_kernel::journal::Outcome;
use xioflow_kernel::{Command as Program, DomainOptions};
use xioflow_kit::{Deadline, Stage, each_user, wait};

use crate::alone;
use crate::commanded::{Commanded, parent, signal};
use crate::strangers::Strangers;

/// A tree with whatever does not go down with its session.
const PARTS: [&str; 15] = [
    "shapes",
    "mixed",
    "60",
    "deaf",
    "6",
    "stopped",
    "4",
    "traced",
    "2",
    "subreapers",
    "3",
    "wanderers",
    "2",
    "suspended",
    "2",
];

#[test]
fn a_command_line_without_its_helper_ends_the_tree() {
    let _one = alone();
    each_user(|stage| {
        let strangers = Strangers::of(stage);
        let run = Commanded::start(stage, "lost", &["--no-arbiter"], &PARTS);
        let pids = run.stand();
        signal(parent(pids[0]), Signal::KILL);
        let (finished, living) = run.finish();
        assert!(living.is_empty(), "{living:?}\n{finished}");
        assert_ne!(finished.json()["status"], "succeeded", "{finished}");
        strangers.assert_left_alone();
    });
}

#[test]
fn an_arbiter_without_a_helper_ends_the_tree() {
    let _one = alone();
    each_user(|stage| {
        let strangers = Strangers::of(stage);
        let run = Commanded::start(stage, "lost", &[], &PARTS);
        let pids = run.stand();
        signal(parent(pids[0]), Signal::KILL);
        let (finished, living) = run.finish();
        let living: Vec<_> = living
            .iter()
            .filter(|one| one.contains("fixture"))
            .collect();
        assert!(living.is_empty(), "{living:?}\n{finished}");
        assert_ne!(finished.json()["status"], "succeeded", "{finished}");
        strangers.assert_left_alone();
        stage.end_arbiters();
    });
}

/// In a process of its own, which adopts whatever loses its parent.
#[test]
fn a_host_that_adopts_orphans_ends_the_tree() {
    let _one = alone();
    let strangers = Strangers::of(&Stage::new());
    let host = Command::new(std::env::current_exe().expect("this program"))
        .args(["killed::inside_a_host", "--ignored", "--nocapture"])
        .output()
        .expect("this program runs");
    let errors = String::from_utf8_lossy(&host.stderr);
    assert!(host.status.success(), "{errors}");
    let said = String::from_utf8_lossy(&host.stdout);
    assert!(said.contains("1 passed"), "{said}");
    strangers.assert_left_alone();
}

#[test]
#[ignore = "the half that is a host of its own"]
fn inside_a_host_that_adopts_orphans() {
    let stage = Stage::new();
    let ready = stage.path("ready");
    let options = DomainOptions::default().adopt_orphans(true);
    let options = options.helper(stage.program("xioflow-reaper"));
    let domain = options.open(stage.domain()).expect("a domain of our own");
    let program = Program::new(stage.fixture()).cwd(stage.path(""));
    let program = program.args(["--ready", ready.to_str().expect("ASCII")]);
    let program = program.args(PARTS);
    let environment = stage.environment().into_iter();
    let program = environment.fold(program, |program, (name, value)| program.env(name, value));
    let operation = domain.operation(program).expect("a builder");
    let running = operation.start().expect("a thread");
    wait::file(&ready, Deadline::usual());
    let pids = xioflow_kit::fixture_pids(&ready);
    signal(parent(pids[0]), Signal::KILL);
    let result = running.wait().expect("a result");
    let living = stage.living().into_iter();
    let living: Vec<_> = living.filter(|one| one.contains("fixture")).collect();
    assert!(living.is_empty(), "{living:?}");
    assert_eq!(result.status, Outcome::Failed, "{result:?}");
    assert!(result.residual_pids.is_empty(), "{result:?}");
}

/// What is in the session of the root can be identified, and is ended.
#[test]
fn what_can_be_identified_is_ended_by_recovery() {
    let _one = alone();
    each_user(|stage| {
        let strangers = Strangers::of(stage);
        let words = [
            "shapes", "flat", "30", "chain", "10", "siblings", "4", "groups", "2",
        ];
        let run = Commanded::start(stage, "both", &["--no-arbiter", "--lease", "it"], &words);
        let pids = run.stand();
        let leaf = run.kill_with_helper(pids[0]);
        let recovered = stage.xioflow().args(["recover", "--json"]).finish();
        let alive: Vec<_> = pids.iter().filter(|pid| wait::is_alive(**pid)).collect();
        assert!(alive.is_empty(), "{alive:?}\n{recovered}");
        drop(leaf);
        strangers.assert_left_alone();
    });
}

/// Who has left the session and lost its parent is found by nobody: what is said then is that others may live, and
/// the lease is kept until a person has looked.
#[test]
fn what_cannot_be_identified_is_not_called_gone() {
    let _one = alone();
    each_user(|stage| {
        let words = ["shapes", "flat", "5", "daemons", "3"];
        let run = Commanded::start(stage, "both", &["--no-arbiter", "--lease", "it"], &words);
        let pids = run.stand();
        let leaf = run.kill_with_helper(pids[0]);
        let recovered = stage.xioflow().args(["recover", "--json"]).finish();
        let waiting = &recovered.json()["waiting"][0];
        assert_eq!(waiting["leases"], json!(["it"]), "{recovered}");
        let guidance = waiting["guidance"].as_str().expect("what to do");
        assert!(
            guidance.contains("look for others that had left the command's session"),
            "{guidance}"
        );
        let alive: Vec<u32> = pids
            .into_iter()
            .filter(|pid| wait::is_alive(*pid))
            .collect();
        assert_eq!(alive.len(), 3, "the daemons, whom nobody can know");
        alive.into_iter().for_each(|pid| signal(pid, Signal::KILL));
        drop(leaf);
    });
}
