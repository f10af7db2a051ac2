//! Disks that are full, limited or taken away, as the system itself does it.

use xioflow_kit::{Stage, each_user, running_as_root};

use crate::world::World;

/// A small disk that the command makes full while it runs; it is freed again after another submission.
const FULL: &str = r#"
    disk=$(dirname "$XIOFLOW_DOMAIN")
    mount -t tmpfs -o size=1m none "$disk" || exit 90
    "$X" run --op first -- true || exit 91
    a() { "$X" run --op a --lease disk -- sh -c '
        echo ran >> "$MARKS"; head -c 2000000 /dev/zero > "$0/full"; echo out' "$disk" > /dev/null 2>> told; }
    a; [ $? = 70 ] || exit 92
    echo "asked again:" >> told
    a; [ $? = 70 ] || exit 95
    "$X" run --op b -- sh -c 'echo ran >> "$MARKS.b"' 2>> told && exit 93
    rm "$disk/full"
    "$X" run --op c -- true || exit 94
    "$X" show a --json
    "$X" status --json
    "$X" shutdown
    cat told >&2"#;

/// A result for which there is no room is kept by the owner, and nothing new begins before it is on record.
#[test]
fn a_disk_that_is_full_for_a_while_costs_nothing_that_was_seen() {
    if !running_as_root() {
        eprintln!("skipped: needs root, to mount a small file system");
        return;
    }
    let stage = Stage::new();
    let world = World::new(&stage, "a full disk");
    let marks = stage.path("marks");
    let run = stage.run("unshare").args(["--mount", "sh", "-c", FULL]);
    let run = run.env("X", stage.program("xioflow")).env("MARKS", &marks);
    let told = run.env("XIOFLOW_DOMAIN", &world.domain).finish();
    let code = told.status.code();
    assert!([Some(0), Some(70)].contains(&code), "{told}");
    told.assert_complains("no space")
        .assert_complains("domain.db");
    let count = |path: &std::path::Path| std::fs::read_to_string(path).map_or(0, |it| it.len());
    assert_eq!(count(&marks), 4, "it ran once: {told}");
    assert_eq!(
        count(&stage.path("marks.b")),
        0,
        "it ran without a record: {told}"
    );
    // Its owner knows what it came to, also for whoever asks once more.
    let complaints = String::from_utf8_lossy(&told.stderr);
    let (_, again) = complaints.split_once("asked again:").expect("it was");
    let known = "operation a ended (succeeded) but its result could not be recorded";
    assert!(again.contains(known), "{told}");
    let shown = String::from_utf8_lossy(&told.stdout);
    assert!(shown.contains("\"outcome\": \"succeeded\""), "{told}");
    assert!(shown.contains("\"unfinished\": []"), "{told}");
    assert!(shown.contains("\"leases\": []"), "{told}");
}

/// SIGXFSZ ends a program that does not look after it.
#[test]
fn a_file_size_limit_is_an_error_with_a_name() {
    each_user(|stage| {
        for (limit, what) in [("40", "domain.db"), ("200", "a-stdout.log")] {
            let world = World::new(stage, format!("ulimit -f {limit}"));
            let script = format!("ulimit -f {limit}; exec \"$@\" >/dev/null");
            let run = stage.run("bash").args(["-c", &script, "bash"]);
            let run = run.arg(stage.program("xioflow"));
            let run = run.args(world.words()).env("XIOFLOW_DOMAIN", &world.domain);
            let told = run.finish();
            world.told(&told);
            told.assert_complains(what);
            world.holds(&told);
        }
    });
}

#[test]
fn a_folder_of_output_that_is_taken_away_is_a_fact_of_that_output() {
    each_user(|stage| {
        let world = World::new(stage, "artifacts/ is removed");
        let script = "rm -r \"$XIOFLOW_DOMAIN/artifacts\"; seq 1 15000";
        let run = world
            .xioflow()
            .args(["run", "--no-arbiter", "--op", "a", "--json"]);
        let told = run.args(["--", "sh", "-c", script]).finish();
        told.assert_code(0);
        let result: serde_json::Value = serde_json::from_slice(&told.stdout).expect("a result");
        let error = result["stdoutSpillError"].as_str().unwrap_or_default();
        assert!(error.contains("artifacts/a-stdout.log"), "{told}");
        let next = world
            .xioflow()
            .args(["run", "--no-arbiter", "--op", "b", "--"]);
        next.args(["seq", "1", "15000"]).finish().assert_code(0);
        let stored = world.ask("SELECT artifact FROM operation_outputs WHERE operation_id = 'b'");
        assert_eq!(stored, "b-stdout.log");
    });
}

/// The domain's user may not write there any more, while descriptors stay open.
#[test]
fn a_folder_that_becomes_read_only_loses_no_result() {
    let stage = Stage::ordinary();
    let world = World::new(&stage, "the folder becomes read-only");
    let script = format!("chmod 500 \"$XIOFLOW_DOMAIN\"; {}", world.script());
    let run = world
        .xioflow()
        .args(["run", "--no-arbiter", "--op", "a", "--lease", "disk"]);
    let told = run.args(["--", "sh", "-c", &script]).finish();
    told.assert_code(0);
    let refused = world.xioflow().args(["run", "--no-arbiter", "--", "true"]);
    refused
        .finish()
        .assert_code(73)
        .assert_complains("permission denied");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(&world.domain, mode).expect("chmod");
    let again = world.xioflow().args(["run", "--no-arbiter", "--", "true"]);
    again.finish().assert_code(0);
    let recorded = world.ask("SELECT outcome FROM operations WHERE id = 'a'");
    assert_eq!(recorded, "succeeded");
    assert_eq!(world.ask("SELECT count(*) || '' FROM resource_leases"), "0");
}

/// SQLite shares memory through a file. Where that is cut off, touching it is SIGBUS, and no program
/// can go on; a file system that finds no room for it then does the same.
#[test]
fn a_supervisor_that_loses_its_shared_memory_dies_as_if_killed() {
    each_user(|stage| {
        let world = World::new(stage, "the shared memory is cut off");
        let script = format!(
            "truncate -s 0 \"$XIOFLOW_DOMAIN/domain.db-shm\"; {}",
            world.script()
        );
        let run = world
            .xioflow()
            .args(["run", "--no-arbiter", "--op", "a", "--lease", "disk"]);
        let told = run.args(["--", "sh", "-c", &script]).finish();
        let signal = std::os::unix::process::ExitStatusExt::signal(&told.status);
        world.expect(&told, signal == Some(7), "it is SIGBUS");
        let next = world.xioflow().args(["run", "--no-arbiter", "--", "true"]);
        next.finish()
            .assert_code(0)
            .assert_complains("its helper saw how");
        assert_eq!(world.marks(), 1);
        let recorded = world.ask("SELECT outcome FROM operations WHERE id = 'a'");
        assert!(["succeeded", "failed"].contains(&&*recorded), "{recorded}");
        assert_eq!(world.ask("SELECT count(*) || '' FROM resource_leases"), "0");
    });
}
