//! What the command prints: all of it, unchanged, each stream where it belongs.

use sha2::{Digest, Sha256};
use xioflow_kit::{Run, Stage};

use crate::{Client, each_client, each_client_and_user, facts, shell, text};

/// Far more than fits into pipes and sockets on the way.
const FLOOD_BYTES: usize = 20_000_000;

/// Bytes of every value, in no order that repeats soon.
fn noise(len: usize) -> Vec<u8> {
    let next = |state: &mut u32| {
        *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        Some(state.to_be_bytes()[0])
    };
    let mut state = 1;
    std::iter::from_fn(|| next(&mut state)).take(len).collect()
}

#[test]
fn it_is_passed_on_byte_for_byte_and_streams_stay_apart() {
    each_client_and_user(|stage, client| {
        let (out, err) = (noise(100_000), noise(3_000));
        stage.write("out", &out, 0o644);
        stage.write("err", &err, 0o644);
        let command = shell("cat out; cat err >&2; exit 3");
        let finished = client.run(stage, &["--op", "bytes"], &command).finish();
        finished.assert_code(3).assert_stdout(&out);
        let said = facts("bytes", "failed", "3");
        finished.assert_stderr([err.as_slice(), said.as_bytes()].concat());
    });
}

#[test]
fn arguments_variables_folder_and_umask_are_the_clients() {
    each_client_and_user(|stage, client| {
        let folder = stage.folder("a folder");
        let script = "printf '%s|' \"$VARIABLE\" \"$0\" \"$PWD\"; umask";
        let command = [&shell(script)[..], &["an argument, ✓"]].concat();
        let run = client.run(stage, &[], &command).cwd(&folder);
        let finished = run.env("VARIABLE", "its ✓ value").finish();
        let umask = stage.run("sh").args(["-c", "umask"]).finish().stdout;
        let umask = String::from_utf8_lossy(&umask);
        let expected = format!("its ✓ value|an argument, ✓|{}|{}", text(&folder), umask);
        finished.assert_code(0).assert_stdout(expected);
    });
}

#[test]
fn standard_input_is_given_where_that_is_asked_for() {
    each_client(|stage, client| {
        let given = noise(1000);
        let run = client.run(stage, &["--stdin"], &["cat"]);
        let finished = run.stdin(given.clone()).finish();
        finished.assert_code(0).assert_stdout(given);
        let run = client.run(stage, &[], &["cat"]).stdin("not given");
        run.finish().assert_code(0).assert_stdout("");
    });
}

/// A pipeline of sh(1) that begins with the client.
fn pipeline<'a>(stage: &'a Stage, client: &Client, command: &str, reader: &str) -> Run<'a> {
    let (program, source) = (client.interpreter, client.installed(stage));
    let client = format!("{program} {} -- sh -c '{command}'", text(&source));
    stage
        .run("sh")
        .args(["-c", &format!("{client} | {reader}")])
}

#[test]
fn a_flood_comes_whole_also_to_who_reads_late() {
    each_client(|stage, client| {
        let flood = noise(FLOOD_BYTES);
        stage.write("flood", &flood, 0o644);
        let finished = client.run(stage, &[], &["cat", "flood"]).finish();
        finished.assert_code(0);
        assert!(finished.stdout == flood, "the flood is another one");
        // Its reader begins when the command has printed everything: opening a FIFO waits for the other end.
        stage.run("mkfifo").arg("gate").finish().assert_code(0);
        let reader = "{ cat gate; sha256sum; }";
        let late = pipeline(stage, client, "cat flood; : >gate", reader).finish();
        let hash = Sha256::digest(&flood);
        let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        late.assert_code(0).assert_stdout(format!("{hash}  -\n"));
    });
}

#[test]
fn a_command_that_nobody_reads_any_more_is_told_so() {
    each_client(|stage, client| {
        let finished = pipeline(stage, client, "yes", "head -n 1").finish();
        finished.assert_code(0).assert_stdout("y\n");
        // The stage finds the command, if it goes on.
    });
}
