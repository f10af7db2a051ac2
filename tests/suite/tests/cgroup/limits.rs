//! Limits that the kernel enforces: each kind of excess ends with its own reason, and alone.
//!
//! They need controllers, which a hybrid host does not hand on; a virtual machine does.

use std::fs;

use rustix::process::Signal;
use serde_json::{Value, json};
use xioflow_kit::{Deadline, Delegated, Finished, Run, Stage, each_user, wait};

/// How often each is done, unless this says otherwise; the promise is about 10.
const ROUNDS: u32 = 2;
const ROUNDS_VARIABLE: &str = "XIOFLOW_TEST_ROUNDS";

const MIB: u64 = 1 << 20;

fn rounds() -> u32 {
    let asked = std::env::var(ROUNDS_VARIABLE).ok();
    asked.map_or(ROUNDS, |text| text.parse().expect("a number of rounds"))
}

/// A place with these controllers for each user; those who cannot have one are skipped by name.
fn each_user_with(controllers: &[&str], test: impl Fn(&Stage, &Delegated<'_>)) {
    each_user(|stage| {
        if let Some(place) = Delegated::or_skip(stage)
            && place.has_or_skip(controllers)
        {
            test(stage, &place);
        }
    });
}

fn limited<'a>(
    stage: &'a Stage,
    place: &Delegated<'a>,
    options: &[&str],
    words: &[&str],
) -> Run<'a> {
    let run = place.xioflow().args(["run", "--json"]).args(options);
    run.arg("--").arg(stage.fixture()).args(words)
}

fn finished(run: Run<'_>) -> (Finished, Value) {
    let finished = run.finish();
    let document = finished.json();
    (finished, document)
}

fn number(document: &Value, pointer: &str) -> u64 {
    let number = document.pointer(pointer).and_then(Value::as_u64);
    number.unwrap_or_else(|| panic!("no {pointer} in {document:#}"))
}

fn assert_fields(document: &Value, expected: &Value) {
    for (name, value) in expected.as_object().expect("fields to expect") {
        assert_eq!(&document[name], value, "{name} of {document:#}");
    }
}

/// Nobody lives but arbiters and helpers on their way out, and no leaf is left.
fn assert_nothing_is_left(stage: &Stage, place: &Delegated<'_>) {
    let lives = |it: &String| !it.contains("xioflow-reaper");
    let living: Vec<String> = stage.living().into_iter().filter(lives).collect();
    assert_eq!(living, Vec::<String>::new());
    wait::until("no leaf is left", Deadline::usual(), || {
        place.leaves().is_empty()
    });
}

#[test]
fn a_memory_hog_ends_with_its_own_reason_and_137() {
    each_user_with(&["memory"], |stage, place| {
        for _ in 0..rounds() {
            let run = limited(
                stage,
                place,
                &["--memory", "96MiB"],
                &["hog-memory", "419430400"],
            );
            let (finished, document) = finished(run);
            finished
                .assert_code(137)
                .assert_complains("memory limit of 96.0 MiB");
            assert_fields(
                &document,
                &json!({
                    "status": "failed", "terminationReason": "memory_exceeded", "signal": "SIGKILL",
                    "scope": "containment_cgroup", "resourceSamplingError": null,
                }),
            );
            assert_fields(
                &document["limits"],
                &json!({"enforcement": "hard", "means": {"memory": "kernel"}, "reached": ["memory"]}),
            );
            assert!(number(&document, "/limitEvents/memoryOomKill") > 0);
            let peak = number(&document, "/usage/memoryPeakBytes");
            assert!((80 * MIB..=96 * MIB).contains(&peak), "{peak}");
            assert_nothing_is_left(stage, place);
        }
    });
}

#[test]
fn a_fork_bomb_ends_with_its_own_reason_and_nobody_is_left() {
    each_user_with(&["pids"], |stage, place| {
        for _ in 0..rounds() {
            let run = limited(stage, place, &["--pids", "16"], &["endless-bomb"]);
            let (finished, document) = finished(run);
            finished.assert_complains("limit of 16 processes");
            assert_fields(
                &document,
                &json!({"status": "failed", "terminationReason": "pids_exceeded"}),
            );
            assert!(number(&document, "/limitEvents/pidsMax") > 0);
            let peak = document["usage"]["pidsPeak"].as_u64();
            assert!(peak.is_none_or(|peak| peak <= 16), "{document:#}");
            assert_nothing_is_left(stage, place);
        }
    });
}

#[test]
fn a_busy_loop_is_slowed_and_ends_when_its_time_is_used_up() {
    each_user_with(&["cpu"], |stage, place| {
        for _ in 0..rounds() {
            let options = ["--cpus", "0.5", "--cpu-time", "2s"];
            let (finished, document) = finished(limited(stage, place, &options, &["burn-cpu"]));
            finished.assert_complains("2.0 s of processor time");
            assert_fields(
                &document,
                &json!({"status": "failed", "terminationReason": "cpu_exceeded"}),
            );
            assert_eq!(
                document["limits"]["means"],
                json!({"cpus": "kernel", "cpuTime": "group"})
            );
            let used_us =
                number(&document, "/usage/cpuUserUs") + number(&document, "/usage/cpuSystemUs");
            assert!((2_000_000..4_000_000).contains(&used_us), "{used_us}");
            // Half a processor: twice as long, but for what it may use at once.
            assert!(number(&document, "/durationMs") >= 3500, "{document:#}");
            assert_nothing_is_left(stage, place);
        }
    });
}

/// Two others of the same domain, beside one that runs out of memory.
#[test]
fn one_that_runs_out_of_memory_ends_alone() {
    each_user_with(&["memory"], |stage, place| {
        let others: Vec<_> = ["one", "two"]
            .into_iter()
            .map(|id| {
                let ready = stage.path(id);
                let words = ["--ready", ready.to_str().expect("ASCII"), "sleep"];
                let run = limited(stage, place, &["--op", id, "--memory", "64MiB"], &words).start();
                (run, ready)
            })
            .collect();
        for (_, ready) in &others {
            stage.wait_ready(ready);
        }
        let run = limited(
            stage,
            place,
            &["--memory", "200MiB"],
            &["hog-memory", "838860800"],
        );
        let (finished, document) = finished(run);
        finished.assert_code(137);
        assert_eq!(
            document["terminationReason"], "memory_exceeded",
            "{document:#}"
        );
        for (run, _) in others {
            run.signal(Signal::INT);
            let ended = run.finish();
            assert_eq!(
                ended.json()["terminationReason"],
                "user_cancelled",
                "{ended}"
            );
        }
        assert_nothing_is_left(stage, place);
    });
}

/// The place of all groups has a limit of its own, which is met first.
#[test]
fn a_kill_for_a_limit_above_is_not_the_commands() {
    each_user_with(&["memory"], |stage, place| {
        let above = place.directory().join("memory.max");
        fs::write(&above, (96 * MIB).to_string()).expect("the giver's user may limit the place");
        fs::write(place.directory().join("memory.swap.max"), "0").ok();
        let run = limited(
            stage,
            place,
            &["--memory", "512MiB"],
            &["hog-memory", "419430400"],
        );
        let (finished, document) = finished(run);
        fs::write(&above, "max").expect("it was written before");
        finished.assert_code(137);
        assert_fields(
            &document,
            &json!({"status": "failed", "terminationReason": "completed", "signal": "SIGKILL"}),
        );
        assert_eq!(document["limits"]["reached"], json!([]));
        assert!(number(&document, "/limitEvents/memoryOomKill") > 0);
        finished.assert_complains("for a limit that is above its own");
    });
}

#[test]
fn a_soft_limit_lets_it_end_by_itself() {
    each_user_with(&["memory", "pids"], |stage, place| {
        let options = ["--limits", "soft", "--memory", "64MiB", "--pids", "64"];
        let run = limited(stage, place, &options, &["hog-memory", "209715200"]);
        let (finished, document) = finished(run);
        finished.assert_code(143);
        assert_fields(
            &document,
            &json!({"terminationReason": "memory_exceeded", "signal": "SIGTERM"}),
        );
        assert_eq!(document["limits"]["means"]["memory"], "group");
        assert!(number(&document, "/limitEvents/memoryHigh") > 0);
        assert_eq!(document["limitEvents"]["memoryOomKill"], 0);
    });
}

#[test]
fn what_stays_within_its_limits_is_told_what_it_used() {
    each_user_with(&["memory", "pids", "cpu"], |stage, place| {
        let options = [
            "--memory",
            "256MiB",
            "--pids",
            "64",
            "--cpus",
            "2",
            "--cpu-time",
            "60s",
        ];
        let (finished, document) = finished(limited(stage, place, &options, &["burn-cpu", "200"]));
        finished.assert_code(0);
        assert_eq!(document["status"], "succeeded");
        assert_eq!(document["limits"]["reached"], json!([]));
        assert!(number(&document, "/usage/cpuUserUs") >= 100_000);
        assert!(number(&document, "/usage/memoryPeakBytes") > 0);
        assert_eq!(document["usage"]["source"], "cgroup");
        assert_nothing_is_left(stage, place);
    });
}

/// Each controller that the place does not have; a place that has them all shows only the last part.
#[test]
fn a_hard_limit_in_a_cgroup_without_its_controller_is_refused() {
    each_user(|stage| {
        let Some(place) = Delegated::or_skip(stage) else {
            return;
        };
        let all = [
            ("memory", ["--memory", "64MiB"]),
            ("pids", ["--pids", "16"]),
            ("cpu", ["--cpus", "1"]),
        ];
        for (controller, options) in all {
            if place.has(controller) {
                continue;
            }
            let run = limited(stage, &place, &options, &["exit", "0"]);
            let (finished, document) = finished(run);
            finished.assert_code(69).assert_complains(controller);
            assert_eq!(document["error"]["kind"], "limits_refused");
            assert_nothing_is_left(stage, &place);
        }
        // Every group counts processor time.
        let run = limited(stage, &place, &["--cpu-time", "300ms"], &["burn-cpu"]);
        let (_, document) = finished(run);
        assert_eq!(
            document["terminationReason"], "cpu_exceeded",
            "{document:#}"
        );
        assert_eq!(document["limits"]["means"], json!({"cpuTime": "group"}));
        assert_nothing_is_left(stage, &place);
    });
}
