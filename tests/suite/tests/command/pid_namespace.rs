//! `--driver pidns`: a tree in a pid namespace of its own ends with whoever holds it, by the kernel, and is
//! a tree like any other while it is held.

use rustix::process::Signal;
use serde_json::{Value, json};
use xioflow_kit::{Deadline, Run, Stage, Started, each_user, wait};

use crate::recover::signal;
use crate::{assert_fields, living_commands, run, run_alone, run_json, shell, text};

const PIDNS: [&str; 2] = ["--driver", "pidns"];

/// Leaves its session and keeps nothing of it, is deaf, and says when all of that stands.
const ESCAPES: &str = "trap '' TERM INT; (setsid setsid sleep 300 </dev/null >/dev/null 2>&1 &); \
                       (setsid sleep 300 </dev/null >/dev/null 2>&1 &); : > ready; sleep 300";

/// As `each_user`, for those whom this machine lets have such a namespace.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn each_user_with_namespaces(test: impl Fn(&Stage)) {
    each_user(|stage| {
        let own: &[&str] = match stage.is_privileged() {
            true => &["--pid", "--fork", "--mount-proc", "true"],
            false => &["-U", "-r", "--pid", "--fork", "--mount-proc", "true"],
        };
        let tried = stage.run("/usr/bin/unshare").args(own).finish();
        if tried.status.success() {
            test(stage);
        } else {
            let why = String::from_utf8_lossy(&tried.stderr);
            eprintln!("skipped: needs pid namespaces: {}", why.trim());
        }
    });
}

fn pidns<'a>(stage: &'a Stage, options: &[&str], script: &str) -> Run<'a> {
    run(stage, &[&PIDNS, options].concat(), &shell(script))
}

fn pidns_alone<'a>(stage: &'a Stage, options: &[&str], script: &str) -> Run<'a> {
    run_alone(stage, &[&PIDNS, options].concat(), &shell(script))
}

fn await_ready(stage: &Stage) {
    let ready = stage.path("ready");
    wait::file(&ready, Deadline::usual());
    std::fs::remove_file(ready).expect("a file of the stage");
}

fn shown(stage: &Stage, id: &str) -> Value {
    stage.xioflow().args(["show", id, "--json"]).finish().json()
}

/// The number of a recorded process, as everybody outside of the namespace knows it.
fn recorded(record: &Value, pointer: &str) -> u32 {
    let pid = record.pointer(pointer).and_then(Value::as_u64);
    let pid = pid.and_then(|pid| u32::try_from(pid).ok());
    pid.unwrap_or_else(|| panic!("no {pointer} in {record:#}"))
}

const ROOT: &str = "/processIdentity/pid";
const INIT: &str = "/processIdentity/pidNamespace/init/pid";
const HELPER: &str = "/holder/pid";

fn assert_nothing_lives(stage: &Stage) {
    let living = || stage.living();
    assert!(stage.wait_empty(Deadline::usual()), "{:?}", living());
}

/// Nobody of them comes to act any more once it is stopped, so that nobody else ends anything.
fn kill_at_once(stage: &Stage, id: &str, started: Started<'_>, helper_first: bool) {
    let helper = recorded(&shown(stage, id), HELPER);
    let mut both = [started.pid(), helper];
    if helper_first {
        both.reverse();
    }
    both.iter().for_each(|pid| wait::halt(*pid));
    both.iter().for_each(|pid| signal(*pid, Signal::KILL));
    drop(started.finish());
}

#[test]
fn nothing_lives_when_supervisor_and_helper_are_killed_at_once() {
    each_user_with_namespaces(|stage| {
        for helper_first in [false, true] {
            let id = format!("op-{helper_first}");
            let options = ["--op", &id, "--lease", "port:8080"];
            let started = pidns_alone(stage, &options, ESCAPES).start();
            await_ready(stage);
            kill_at_once(stage, &id, started, helper_first);
            assert_nothing_lives(stage);
            let settled = stage.xioflow().args(["recover", "--json"]).finish().json();
            let decision = &settled["decisions"][0];
            assert_fields(
                decision,
                &json!({ "operationId": id, "case": "S", "verdict": "marked_dead",
                         "status": "failed", "leases": "freed", "signalled": [] }),
            );
            let evidence = decision["evidence"].as_str().unwrap_or_default();
            assert!(evidence.contains("init of its pid namespace"), "{evidence}");
            assert_fields(
                &shown(stage, &id)["result"],
                &json!({ "status": "failed", "terminationReason": "exit_unobserved", "exitCode": null,
                         "signal": null, "evidence": "unobserved", "treeSettlement": "reaped",
                         "scope": "pid_namespace", "driver": "pidns" }),
            );
            let next = run_alone(stage, &["--lease", "port:8080"], &["true"]).finish();
            next.assert_code(0);
        }
    });
}

/// What the reaper alone cannot do, and the reason for the namespace.
#[test]
fn without_a_namespace_an_escapee_lives_and_the_lease_is_kept() {
    each_user(|stage| {
        let options = ["--op", "op", "--lease", "port:8080"];
        let started = run_alone(stage, &options, &shell(ESCAPES)).start();
        await_ready(stage);
        kill_at_once(stage, "op", started, false);
        let settled = stage.xioflow().args(["recover", "--json"]).finish().json();
        assert_eq!(settled["decisions"][0]["leases"], "kept", "{settled:#}");
        let escapees = stage.living();
        assert!(!escapees.is_empty(), "nobody got away");
        for escapee in escapees {
            let pid = escapee.split(|it: char| !it.is_ascii_digit());
            let pid = pid.filter_map(|it| it.parse().ok()).next();
            signal(pid.expect("a number"), Signal::KILL);
        }
    });
}

#[test]
fn a_killed_helper_takes_its_tree_along() {
    each_user_with_namespaces(|stage| {
        let started = pidns(stage, &["--op", "op", "--json"], ESCAPES).start();
        await_ready(stage);
        signal(recorded(&shown(stage, "op"), HELPER), Signal::KILL);
        let finished = started.finish();
        finished.assert_code(70);
        assert_fields(
            &finished.json(),
            &json!({ "status": "failed", "terminationReason": "crash_detected", "exitCode": null,
                     "treeSettlement": "reaped", "scope": "pid_namespace", "residualPids": [],
                     "recoveryGuidance": null }),
        );
        assert_eq!(living_commands(stage), Vec::<String>::new());
        stage.end_arbiters();
    });
}

/// The init is no process of the tree: killed, it takes everybody along, and the helper tells of it.
#[test]
fn a_killed_init_takes_the_tree_along_and_the_helper_sees_how_it_ended() {
    each_user_with_namespaces(|stage| {
        let started = pidns(stage, &["--op", "op", "--json"], ESCAPES).start();
        await_ready(stage);
        signal(recorded(&shown(stage, "op"), INIT), Signal::KILL);
        let finished = started.finish();
        finished.assert_code(137);
        assert_fields(
            &finished.json(),
            &json!({ "status": "failed", "signal": "SIGKILL", "evidence": "observed",
                     "scope": "pid_namespace", "residualPids": [] }),
        );
        assert_eq!(living_commands(stage), Vec::<String>::new());
        stage.end_arbiters();
    });
}

#[test]
fn it_is_a_tree_like_any_other_while_it_is_held() {
    each_user_with_namespaces(|stage| {
        let script = "(setsid sleep 300 </dev/null >/dev/null 2>&1 &); echo $$; ls -d /proc/[0-9]* | wc -l; exit 3";
        let finished = pidns(stage, &["--json"], script).finish();
        finished.assert_code(3);
        let document = finished.json();
        assert_fields(
            &document,
            &json!({ "exitCode": 3, "treeSettlement": "reaped", "scope": "pid_namespace",
                     "driver": "pidns", "survivorsTotal": 1 }),
        );
        let survivor = &document["survivors"][0];
        assert_fields(survivor, &json!({ "command": "sleep", "end": "signaled" }));
        let printed = document["stdout"].as_str().unwrap_or_default();
        let numbers: Vec<u32> = printed.lines().filter_map(|it| it.parse().ok()).collect();
        // The init, itself, what is left, and the two that count.
        assert!(
            numbers.len() == 2 && numbers.iter().all(|it| *it < 10),
            "{printed}"
        );
        pidns(stage, &[], "kill -TERM $$").finish().assert_code(143);
        pidns(stage, &[], "cat no-such-file")
            .finish()
            .assert_code(1);
        let missing = run(stage, &PIDNS, &["no-such-program"]).finish();
        missing.assert_code(127);
    });
}

#[test]
fn a_command_can_neither_see_nor_signal_who_holds_it() {
    each_user_with_namespaces(|stage| {
        // Those whose parent is outside of a namespace have none.
        let script = "echo $PPID; for it in /proc/[0-9]*; do \
                      case $(cat $it/comm) in xioflow*) kill -9 ${it#/proc/};; esac; done; \
                      kill -9 -1; exit 4";
        let finished = pidns(stage, &["--json"], script).finish();
        finished.assert_code(4);
        let document = finished.json();
        assert_fields(
            &document,
            &json!({ "exitCode": 4, "evidence": "observed", "stdout": "0\n" }),
        );
    });
}

#[test]
fn it_is_cancelled_timed_out_and_suspended_like_any_other() {
    each_user_with_namespaces(|stage| {
        let started = pidns(stage, &["--op", "cancelled", "--grace", "100ms"], ESCAPES).start();
        await_ready(stage);
        started.signal(Signal::INT);
        started.finish().assert_code(130);
        let limits = ["--timeout", "1s", "--grace", "0s", "--json"];
        let finished = pidns(stage, &limits, ESCAPES).finish();
        finished.assert_code(124);
        let gone = json!({ "scope": "pid_namespace", "residualPids": [] });
        assert_fields(&finished.json(), &gone);
        std::fs::remove_file(stage.path("ready")).expect("it had begun");

        let options = ["--op", "stopped", "--grace", "100ms"];
        let started = pidns(stage, &options, ESCAPES).as_job().start();
        await_ready(stage);
        let both = [started.pid(), recorded(&shown(stage, "stopped"), ROOT)];
        let stands = |wanted| {
            move || {
                both.map(wait::state)
                    .iter()
                    .all(|it| (*it == Some('T')) == wanted)
            }
        };
        started.signal(Signal::TSTP);
        wait::until("standstill", Deadline::usual(), stands(true));
        started.signal(Signal::CONT);
        wait::until("going on", Deadline::usual(), stands(false));
        started.signal(Signal::TERM);
        started.finish().assert_code(143);
        stage.end_arbiters();
        assert_nothing_lives(stage);
    });
}

#[test]
fn it_is_left_to_the_arbiter_and_attached_to() {
    each_user_with_namespaces(|stage| {
        let script =
            "echo early; : > ready; until test -e go; do sleep 0.01; done; echo late; exit 5";
        let detached = pidns(stage, &["--detach", "--op", "job"], script).finish();
        detached.assert_code(0).assert_stdout("job\n");
        await_ready(stage);
        let mut follower = stage.xioflow().args(["attach", "job"]).start();
        follower.wait_for_output(b"early\n");
        stage.write("go", "", 0o644);
        let live = follower.finish();
        live.assert_code(5).assert_stdout("early\nlate\n");
        assert_eq!(shown(stage, "job")["result"]["driver"], "pidns");
        stage.end_arbiters();
    });
}

/// A quota of none, in a user namespace where it may be set.
fn forbidden<'a>(stage: &'a Stage, options: &[&str], command: &[&str]) -> Run<'a> {
    let script = "echo 0 >/proc/sys/user/max_pid_namespaces && exec \"$@\"";
    let xioflow = stage.program("xioflow");
    stage
        .run("/usr/bin/unshare")
        .args([
            "-U",
            "-r",
            "sh",
            "-c",
            script,
            "sh",
            text(&xioflow),
            "run",
            "--no-arbiter",
        ])
        .args(options)
        .arg("--")
        .args(command)
}

#[test]
fn a_host_that_forbids_it_is_named_with_the_call_and_what_to_do() {
    each_user_with_namespaces(|stage| {
        let command = ["touch", "mark"];
        let options = [&PIDNS[..], &["--op", "op", "--lease", "db"]].concat();
        let refused = forbidden(stage, &options, &command).finish();
        refused
            .assert_code(69)
            .assert_complains("this host refuses the driver pidns: unshare")
            .assert_complains("sysctl -w user.max_user_namespaces");
        assert!(!stage.path("mark").exists());
        let listed = stage.xioflow().args(["list", "--json"]).finish().json();
        assert_eq!(listed["operations"], json!([]), "{listed:#}");
        // Its id and its lease are free, and without the demand it runs there too.
        let options = ["--op", "op", "--lease", "db"];
        forbidden(stage, &options, &command).finish().assert_code(0);
        assert!(stage.path("mark").exists());
    });
}

#[test]
fn the_driver_is_part_of_what_an_operation_is_where_the_command_can_see_it() {
    each_user_with_namespaces(|stage| {
        let ask = |options: &[&str]| {
            let (finished, document) = run_json(
                stage,
                &[options, &["--op", "op"]].concat(),
                &["echo", "once"],
            );
            (
                finished.status.code(),
                document["reused"].clone(),
                document["driver"].clone(),
            )
        };
        let executed = ask(&["--driver", "reaper"]);
        assert_eq!(executed, (Some(0), json!("executed"), json!("reaper")));
        let replayed = (Some(0), json!("replayed_recorded"), json!("reaper"));
        assert_eq!(ask(&[]), replayed);
        assert_eq!(ask(&["--driver", "auto"]), replayed);
        // Not even asked whether there is a group to be had: nothing runs.
        assert_eq!(ask(&["--driver", "cgroup"]), replayed);
        assert_eq!(ask(&PIDNS).0, Some(76));
        stage.end_arbiters();
    });
}

#[test]
fn the_environment_says_it_where_no_option_does() {
    each_user_with_namespaces(|stage| {
        let ask = |options: &[&str], named: &str| {
            let options = [&["--json", "--no-arbiter"], options].concat();
            let finished = run(stage, &options, &["true"]).env("XIOFLOW_DRIVER", named);
            finished.finish()
        };
        assert_eq!(ask(&[], "pidns").json()["driver"], "pidns");
        assert_ne!(ask(&[], "").json()["driver"], "pidns");
        let option = ask(&["--driver", "reaper"], "pidns");
        assert_eq!(option.json()["driver"], "reaper");
        let unknown = ask(&[], "vm");
        unknown.assert_code(64).assert_complains("XIOFLOW_DRIVER");
    });
}
