//! What a command prints: bounded in memory, whole on disk, seen while it comes.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;
use xioflow_kernel::artifact_name;
use xioflow_kernel::journal::Stream;

use crate::contract::{Contract, Level, Outcome, Unsupported};
use crate::document::Document;
use crate::ways::Client;
use crate::work::Work;
use crate::world::{World, sha256, text};

pub(super) const CONTRACTS: &[Contract] = &[
    Contract {
        number: 2,
        title: "large output is bounded in memory",
        level: Level::Output,
        check: bounded,
    },
    Contract {
        number: 3,
        title: "truncation keeps head and tail, between characters",
        level: Level::Output,
        check: head_and_tail,
    },
    Contract {
        number: 4,
        title: "the whole output is stored and hashed",
        level: Level::Output,
        check: stored_whole,
    },
    Contract {
        number: 5,
        title: "a failure to store is declared",
        level: Level::Output,
        check: declared_loss,
    },
    Contract {
        number: 15,
        title: "output is seen while it comes, and holds nothing up",
        level: Level::Output,
        check: live,
    },
    Contract {
        number: 44,
        title: "no stored file is left that nobody refers to",
        level: Level::Output,
        check: hygiene,
    },
];

/// Twelve million bytes, more than the usual limit of ten MiB.
const FLOOD_LEN: usize = 12_000_000;

fn flood(world: &World<'_>, id: &str, len: usize) -> Work {
    world.fixture(id, &["flood-output", "stdout", &len.to_string()])
}

/// What the fixture prints, by its description: numbered lines of 16 bytes.
fn flooded(len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..len.div_ceil(16))
        .flat_map(|line| format!("{line:015}\n").into_bytes())
        .collect();
    bytes.truncate(len);
    bytes
}

fn run(client: &dyn Client, work: &Work) -> Result<Document, Unsupported> {
    Ok(client.submit(work)?.wait().expect("a result"))
}

fn bounded(world: &World<'_>) -> Outcome {
    let client = world.client()?;
    let cap = 10 * 1024 * 1024;
    let work = flood(world, "flood", FLOOD_LEN).max_output_bytes(cap);
    let result = run(&*client, &work)?;
    result.assert(&json!({
        "status": "succeeded", "exitCode": 0, "isTruncated": true, "stdoutTruncated": true,
        "stderrTruncated": false, "stdoutBytes": FLOOD_LEN,
    }));
    let kept = result.text("stdout").len();
    assert!(kept <= cap, "{kept} bytes are kept of at most {cap}");
    Ok(())
}

/// Characters of two, three and four bytes, 120 KB of them between two lines to look for.
fn many_characters() -> String {
    let line = "zażółć gęślą jaźń — 百聞は一見に如かず 🜚🜛🜜\n";
    let mut text = "the very first line\n".to_owned();
    while text.len() < 120_000 {
        text.push_str(line);
    }
    text.push_str("the very last line\n");
    text
}

fn head_and_tail(world: &World<'_>) -> Outcome {
    let client = world.client()?;
    let printed = many_characters();
    let file = world.stage.write("characters", &printed, 0o644);
    // Consecutive limits, so that the cut falls on every byte of a character.
    for cap in 10_000..10_005 {
        let id = format!("cap-{cap}");
        let work = world.program(&id, "/bin/cat").args([text(&file)]);
        let result = run(&*client, &work.max_output_bytes(cap))?;
        result.assert(&json!({ "isTruncated": true, "stdoutBytes": printed.len() }));
        let kept = result.text("stdout");
        assert!(
            kept.len() <= cap,
            "{} bytes of {cap} in {result}",
            kept.len()
        );
        assert!(kept.starts_with("the very first line\n"), "{result}");
        assert!(kept.ends_with("the very last line\n"), "no end in {kept:?}");
        assert!(!kept.contains('\u{FFFD}'), "a character was cut: {kept:?}");
        assert_marker(kept, printed.len());
    }
    for cap in [0, 1, 10, 60, 100, 255] {
        let id = format!("cap-{cap}");
        let work = world.program(&id, "/bin/cat").args([text(&file)]);
        let result = run(&*client, &work.max_output_bytes(cap))?;
        let kept = result.text("stdout").len();
        assert!(kept <= cap, "{kept} bytes of {cap} in {result}");
    }
    Ok(())
}

/// The marker says exactly how many bytes are not there.
fn assert_marker(kept: &str, total: usize) {
    let (head, rest) = kept.split_once("\n[... truncated ").expect("a marker");
    let (count, tail) = rest.split_once(" bytes ...]\n").expect("a whole marker");
    let missing = total - head.len() - tail.len();
    assert_eq!(count.parse(), Ok(missing), "of {total} bytes: {kept:?}");
}

fn stored_whole(world: &World<'_>) -> Outcome {
    let client = world.client()?;
    let work = flood(world, "flood", FLOOD_LEN).max_output_bytes(1024);
    let result = run(&*client, &work)?;
    let expected = flooded(FLOOD_LEN);
    result.assert(&json!({
        "stdoutBytes": FLOOD_LEN, "stdoutHash": sha256(&expected), "spillError": null,
    }));
    assert_eq!(result.field("outputRef"), result.field("stdoutRef"));
    let file = world.artifacts().join(result.text("stdoutRef"));
    let stored = fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    assert!(
        stored == expected,
        "{} is not what was printed",
        file.display()
    );
    assert!(client.stored_output("flood") == expected, "not read back");
    // Output that fits is whole, wherever it is stored.
    let small = world.shell("small", "printf 'out\\377'");
    let result = run(&*client, &small)?;
    result.assert(&json!({ "isTruncated": false, "stdoutHash": sha256(b"out\xff") }));
    assert_eq!(client.stored_output("small"), b"out\xff");
    Ok(())
}

fn declared_loss(world: &World<'_>) -> Outcome {
    let client = world.client()?;
    run(&*client, &world.traced("first"))?;
    // A file of that name is somebody's, and stays what it is.
    let taken = world
        .artifacts()
        .join(artifact_name("taken", Stream::Stdout));
    fs::write(&taken, "mine").expect("a file in the folder");
    let result = run(&*client, &flood(world, "taken", 300_000))?;
    assert_lost(&result, &taken, 300_000);
    assert_eq!(fs::read(&taken).expect("it is there"), b"mine");
    if world.stage.is_privileged() {
        return Ok(());
    }
    // Nor can anything be made in a folder that forbids it.
    let forbid = |mode| {
        let mode = fs::Permissions::from_mode(mode);
        fs::set_permissions(world.artifacts(), mode).expect("chmod");
    };
    forbid(0o500);
    let result = run(&*client, &flood(world, "forbidden", 300_000))?;
    forbid(0o700);
    let name = artifact_name("forbidden", Stream::Stdout);
    assert_lost(&result, &world.artifacts().join(name), 300_000);
    Ok(())
}

/// The command is told as it was; that its output is not stored is told, too.
fn assert_lost(result: &Document, path: &std::path::Path, len: usize) {
    result.assert(&json!({
        "status": "succeeded", "exitCode": 0, "stdoutBytes": len, "stdoutRef": null,
        "stdoutHash": null, "outputRef": null, "outputHash": null,
    }));
    for name in ["spillError", "stdoutSpillError"] {
        let error = result.text(name);
        assert!(
            error.contains(text(path)),
            "{name} names no file in {result}"
        );
    }
    assert!(
        result.text("stdout").starts_with("000000000000000\n"),
        "{result}"
    );
}

fn live(world: &World<'_>) -> Outcome {
    let client = world.client()?;
    let (work, mut gate) = world.talking("live");
    let mut submitted = client.submit(&work.live())?;
    // It goes on until the gate is opened, so what is seen comes before its end.
    gate.talk_until_heard(&mut *submitted);
    gate.open();
    let result = submitted.wait().expect("a result");
    result.assert(&json!({ "status": "succeeded", "exitCode": 0 }));
    // Somebody who looks away does not hold the command up, nor its record.
    let ignored = client.submit(&flood(world, "ignored", FLOOD_LEN).live())?;
    world.wait_for_record("ignored", |_| true);
    world.wait_recorded("ignored");
    let result = ignored.wait().expect("a result");
    result.assert(&json!({
        "status": "succeeded", "exitCode": 0, "stdoutBytes": FLOOD_LEN,
        "stdoutHash": sha256(&flooded(FLOOD_LEN)),
    }));
    Ok(())
}

fn hygiene(world: &World<'_>) -> Outcome {
    let client = world.client()?;
    for id in ["small", "silent", "missing"] {
        let work = match id {
            "small" => world.shell(id, "echo out; echo err >&2"),
            "silent" => world.fixture(id, &["exit", "0"]),
            _ => world.program(id, "/nonexistent/program"),
        };
        let result = run(&*client, &work)?;
        result.assert(&json!({ "isTruncated": false, "stdoutRef": null, "stderrRef": null }));
    }
    assert_eq!(world.stored_files(), Vec::<String>::new());
    let large = run(
        &*client,
        &flood(world, "large", 3_000_000).max_output_bytes(1024),
    )?;
    assert_eq!(world.stored_files(), [large.text("stdoutRef")]);
    if client.works_beside_others() {
        spared_while_it_runs(world, &*client)?;
    } else {
        client.prune_all();
    }
    assert!(
        !world
            .stored_files()
            .contains(&large.text("stdoutRef").to_owned()),
        "what nothing needs is still there after a pruning"
    );
    let record = client.record("large").expect("a record");
    record.result.expect("a result").assert(&json!({
        "status": "succeeded", "exitCode": 0, "stdoutBytes": 3_000_000, "stdoutHash": sha256(&flooded(3_000_000)),
    }));
    Ok(())
}

/// A pruning in the middle of an operation takes nothing of what that prints.
fn spared_while_it_runs(world: &World<'_>, client: &dyn Client) -> Outcome {
    let (work, mut gate) = world.talking_much("growing");
    let mut submitted = client.submit(&work.live())?;
    gate.talk_until_heard(&mut *submitted);
    client.prune_all();
    gate.open();
    let result = submitted.wait().expect("a result");
    result.assert(&json!({ "status": "succeeded", "exitCode": 0, "outputComplete": true }));
    let stored = client.stored_output("growing");
    result.assert(&json!({ "stdoutBytes": stored.len(), "stdoutHash": sha256(&stored) }));
    Ok(())
}
