//! `--max-stored`: a command that prints without end fills no disk, whatever happens to its
//! supervisor and to the place of its output.

use std::fs;

use rustix::process::Signal;
use serde_json::{Value, json};
use xioflow_kit::{Deadline, Stage, each_user, running_as_root, wait};

use crate::{assert_fields, run, run_alone, run_json, sha256_of, shell, text};

const ROOM: u64 = 1024 * 1024;

fn on_disk(stage: &Stage) -> u64 {
    let entries = fs::read_dir(stage.domain().join("artifacts")).expect("the folder");
    entries
        .map(|entry| entry.expect("an entry").metadata().expect("a file").len())
        .sum()
}

#[test]
fn an_endless_printer_is_stopped_by_its_time_and_not_by_its_output() {
    each_user(|stage| {
        let options = ["--op", "yes", "--max-stored", "1MiB", "--timeout", "1s"];
        let (finished, document) = run_json(stage, &options, &["yes"]);
        finished.assert_code(124);
        let printed = document["stdoutBytes"].as_u64().expect("a count");
        assert!(printed > 4 * ROOM, "{document:#}");
        assert_eq!(document["stdoutLines"], printed.div_ceil(2));
        let expected = json!({
            "terminationReason": "timed_out",
            "spillError": null,
            "stdoutGap": { "from": ROOM - 65536, "to": printed - 65536 },
            "stdoutTruncated": true,
            "stderrGap": null,
        });
        assert_fields(&document, &expected);
        let stored = on_disk(stage);
        assert!(stored <= ROOM, "{stored} bytes");
        let name = document["stdoutRef"].as_str().expect("a file");
        let file = stage.domain().join("artifacts").join(name);
        assert_eq!(sha256_of(&file), document["stdoutHash"]);
        finished.assert_complains(&format!("bytes {} to", ROOM - 65536));
        let shown = stage.xioflow().args(["show", "yes", "--json"]).finish();
        assert_eq!(shown.json()["result"]["stdout"], document["stdout"]);
    });
}

#[test]
fn the_room_holds_when_the_supervisor_is_killed() {
    let stage = Stage::new();
    run_alone(&stage, &[], &["true"]).finish().assert_code(0);
    let options = ["--op", "yes", "--max-stored", "1MiB", "--json"];
    let started = run_alone(&stage, &options, &["yes"]).start();
    let folder = stage.domain().join("artifacts");
    let file = folder.join("yes-stdout.log");
    let filled = || {
        let len = fs::metadata(&file).ok()?.len();
        (len >= ROOM - 65536).then_some(())
    };
    wait::in_folder(&folder, Deadline::usual(), filled).expect("the file fills up");
    started.signal(Signal::KILL);
    drop(started.finish());
    assert!(on_disk(&stage) <= ROOM);
    // The next command settles it, and the stored beginning can be read.
    run_alone(&stage, &["--quiet"], &["true"])
        .finish()
        .assert_code(0);
    assert!(on_disk(&stage) <= ROOM);
    let logs = stage.xioflow().args(["logs", "yes"]).finish();
    logs.assert_code(0);
    assert_eq!(logs.stdout.len() as u64, ROOM - 65536);
}

#[test]
fn logs_read_around_the_gap_and_name_it() {
    each_user(|stage| {
        let script = "seq 1 100000; echo the end";
        run(
            stage,
            &["--op", "op", "--max-stored", "256KiB"],
            &shell(script),
        )
        .finish()
        .assert_code(0);
        let logs = stage.xioflow().args(["logs", "op"]).finish();
        logs.assert_code(0);
        let printed = String::from_utf8_lossy(&logs.stdout);
        assert!(printed.starts_with("1\n2\n3\n") && printed.ends_with("100000\nthe end\n"));
        assert_eq!(printed.len(), 256 * 1024);
        logs.assert_complains(&format!(
            "bytes {} to {} of stdout",
            192 * 1024,
            588_903 - 65_536
        ));
        let again = run(
            stage,
            &["--op", "op", "--max-stored", "256KiB"],
            &shell(script),
        )
        .finish();
        again.assert_code(0).assert_complains("were not stored");
        assert_eq!(again.stdout, logs.stdout);
    });
}

#[test]
fn how_much_is_stored_is_no_part_of_what_makes_it_the_same() {
    let stage = Stage::new();
    let id = ["--op", "op", "--max-stored"];
    run(&stage, &[&id[..], &["0"]].concat(), &["echo", "out"])
        .finish()
        .assert_code(0)
        .assert_stdout("out\n");
    let again = run(&stage, &[&id[..], &["1GiB"]].concat(), &["echo", "out"]).finish();
    again.assert_code(0).assert_stdout("");
    again.assert_complains("bytes 0 to 4 of stdout");
}

/// A command that prints what it has printed feeds itself, and its room holds all the same.
#[test]
fn a_command_that_reads_its_own_output_fills_no_disk() {
    let stage = Stage::new();
    let script = "echo seed; while :; do cat \"$1\"/*; done";
    let artifacts = stage.domain().join("artifacts");
    let words = ["sh", "-c", script, "sh", text(&artifacts)];
    let options = ["--max-stored", "256KiB", "--timeout", "1s"];
    let (finished, document) = run_json(&stage, &options, &words);
    finished.assert_code(124);
    assert!(
        document["stdoutBytes"].as_u64() > Some(256 * 1024),
        "{document:#}"
    );
    assert!(on_disk(&stage) <= 256 * 1024);
}

/// Runs with a file system of its own in the place of the artifacts, mounted with these options.
fn run_on(options: &str, command: &str) -> Value {
    let stage = Stage::new();
    run_alone(&stage, &[], &["true"]).finish().assert_code(0);
    let script = "mount -t tmpfs -o \"$1\" none \"$2\" && shift 2 && exec \"$@\"";
    let (artifacts, xioflow) = (stage.domain().join("artifacts"), stage.program("xioflow"));
    let words = [
        "--mount",
        "sh",
        "-c",
        script,
        "sh",
        options,
        text(&artifacts),
    ];
    // In a name space of its own, where an arbiter that is started elsewhere would not be.
    let run = [text(&xioflow), "run", "--no-arbiter", "--json"];
    let finished = stage
        .run("/usr/bin/unshare")
        .args(words)
        .args(run)
        .args(["--", "sh", "-c", command])
        .finish();
    finished.assert_code(3);
    finished.json()
}

#[test]
fn a_disk_that_fills_up_in_mid_stream_is_a_fact() {
    if !running_as_root() {
        eprintln!("skipped: needs root, to mount a small file system");
        return;
    }
    let printing = "head -c 900000 /dev/zero | tr '\\0' x; echo the end; exit 3";
    let document = run_on("size=512k", printing);
    assert_fields(
        &document,
        &json!({
            "exitCode": 3, "stdoutBytes": 900_008, "stdoutRef": null, "stdoutHash": null,
            "stdoutGap": null, "isTruncated": false,
        }),
    );
    let error = document["spillError"].as_str().expect("a storage error");
    assert!(
        error.contains("failed to write") && error.contains("No space left"),
        "{error}"
    );
    assert!(
        document["stdout"]
            .as_str()
            .expect("text")
            .ends_with("the end\n")
    );
}

#[test]
fn a_place_that_cannot_be_written_is_a_fact() {
    if !running_as_root() {
        eprintln!("skipped: needs root, to mount a small file system");
        return;
    }
    let document = run_on("ro", "echo out; echo err >&2; exit 3");
    assert_fields(
        &document,
        &json!({ "exitCode": 3, "stdout": "out\n", "stderr": "err\n", "stdoutRef": null }),
    );
    let error = document["stderrSpillError"]
        .as_str()
        .expect("a storage error");
    assert!(error.contains("Read-only"), "{error}");
}

/// `xioflow run` in a pipeline is no place where bytes are lost: where they are not stored, the command
/// waits for the reader, as it would without us.
#[test]
fn a_pipeline_gets_every_byte_whatever_is_stored() {
    each_user(|stage| {
        for stored in ["0", "200KiB"] {
            let script = format!(
                "{} run --max-stored {stored} -- head -c 3000000 /dev/zero | wc -c",
                text(&stage.program("xioflow"))
            );
            let finished = stage.run("sh").args(["-c", &script]).finish();
            finished.assert_code(0).assert_stdout("3000000\n");
        }
    });
}

/// What a stop left behind is told once, with its sum.
#[test]
fn bytes_that_a_stopped_flood_left_are_summed_up() {
    let stage = Stage::new();
    // So that there is a domain to look at.
    run(&stage, &[], &["true"]).finish().assert_code(0);
    // The reader begins when the flood has been stopped.
    let script = format!(
        "{} run --max-stored 100KiB --timeout 300ms -- yes | {{ cat {} >/dev/null; cat >/dev/null; }}",
        text(&stage.program("xioflow")),
        text(&stage.path("fifo"))
    );
    let made = stage.run("mkfifo").arg(stage.path("fifo")).finish();
    made.assert_code(0);
    let started = stage.run("sh").args(["-c", &script]).start();
    let stopped = wait::in_folder(&stage.domain(), Deadline::usual(), || {
        let listed = stage.xioflow().args(["list", "--json"]).finish().json();
        (listed["operations"][0]["outcome"] == "failed").then_some(())
    });
    assert!(stopped.is_some(), "it is not stopped");
    fs::write(stage.path("fifo"), "").expect("the reader waits");
    let finished = started.finish();
    let notes = String::from_utf8_lossy(&finished.stderr);
    let missing = notes.matches("were not passed on").count();
    assert!(missing <= 1, "{notes}");
}

/// The command fills the disk under its own record, and the arbiter lives on when there is room again.
#[test]
fn a_result_that_found_no_room_is_recorded_when_there_is_some() {
    if !running_as_root() {
        eprintln!("skipped: needs root, to mount a small file system");
        return;
    }
    let stage = Stage::new();
    let (xioflow, small) = (stage.program("xioflow"), stage.folder("small"));
    let script = "mount -t tmpfs -o size=2m none \"$2\" || exit 99
        xioflow() { \"$xioflow\" --domain \"$small/domain\" \"$@\"; }
        xioflow=$1 small=$2
        xioflow run -- true
        fill() { xioflow run --op full --lease x -- sh -c \"cat /dev/zero > '$2/fill'; echo end\" sh; }
        fill \"$@\" 2> \"$3\"; echo \"exit $?\"
        rm \"$2/fill\"
        xioflow run --lease x -- echo next; echo \"exit $?\"
        fill \"$@\" 2> /dev/null; echo \"exit $?\"
        xioflow shutdown; echo \"exit $?\"";
    let said = stage.path("said");
    let finished = stage
        .run("/usr/bin/unshare")
        .args(["--mount", "sh", "-c", script, "sh"])
        .args([text(&xioflow), text(&small), text(&said)])
        .finish();
    finished.assert_code(0);
    finished.assert_stdout("end\nexit 70\nnext\nexit 0\nend\nexit 0\nexit 0\n");
    let said = std::fs::read_to_string(&said).expect("what it said");
    assert!(said.contains("full ended (succeeded)"), "{said}");
    assert!(said.contains("cause: database or disk is full"), "{said}");
}
