//! Damage of what is stored.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use xioflow_kit::{Stage, each_user};

use crate::planted::kill_supervisor;
use crate::{COMMANDS, Damaged};

fn cut(path: &Path, len: u64) {
    let file = OpenOptions::new().write(true).open(path).expect("a file");
    file.set_len(len).expect("cut off");
}

/// Changes one bit.
fn flip(path: &Path, at: u64) {
    let file = File::options()
        .read(true)
        .write(true)
        .open(path)
        .expect("a file");
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).expect("a byte");
    byte[0] ^= 4;
    file.write_all_at(&byte, at).expect("written");
}

#[test]
fn a_database_that_is_cut_off_is_refused_by_every_command() {
    let stage = Stage::new();
    for len in [1, 60, 100, 4096, 20_000] {
        let damaged = Damaged::new(&stage, format!("domain.db of {len} bytes"));
        let database = damaged.file("domain.db");
        cut(&database, len);
        assert_eq!(damaged.each_answers("domain.db"), COMMANDS, "{len}");
        let now = fs::metadata(&database).expect("still there").len();
        assert_eq!(now, len, "it was changed");
    }
}

/// A page of noise anywhere: what does not need it is answered, everything else is named damaged.
#[test]
fn a_page_of_noise_is_named_by_whoever_needs_it() {
    let stage = Stage::new();
    let pages = {
        let whole = Damaged::new(&stage, "whole");
        fs::metadata(whole.file("domain.db"))
            .expect("a database")
            .len()
            / 4096
    };
    let mut refusals = 0;
    for page in (1..pages).step_by(3) {
        let damaged = Damaged::new(&stage, format!("noise in page {page}"));
        let noise: Vec<u8> = (0..4096_u32).map(|at| (at * 31 % 251) as u8).collect();
        let file = OpenOptions::new()
            .write(true)
            .open(damaged.file("domain.db"));
        file.expect("a database")
            .write_all_at(&noise, page * 4096)
            .expect("written");
        refusals += damaged.each_answers("domain.db").len();
    }
    assert!(refusals > 0, "nobody noticed anything");
}

/// Without its log the database is what it was at the last checkpoint: older, and whole.
#[test]
fn a_log_that_is_damaged_loses_its_end_and_nothing_else() {
    let stage = Stage::new();
    for (title, damage) in [
        ("cut off", (|log: &Path| cut(log, 30_000)) as fn(&Path)),
        ("a bit flipped", |log| flip(log, 30_000)),
        ("emptied", |log| cut(log, 0)),
    ] {
        let damaged = Damaged::new(&stage, format!("log: {title}"));
        // The supervisor is killed, and so leaves a log with what happened since it opened the domain.
        kill_supervisor(&stage);
        let log = damaged.file("domain.db-wal");
        damage(&log);
        assert_eq!(
            damaged.each_answers("domain.db"),
            Vec::<&str>::new(),
            "{title}"
        );
        let listed = damaged.xioflow("list");
        for operation in ["small", "big"] {
            let text = String::from_utf8_lossy(&listed.stdout);
            assert!(text.contains(operation), "{title}: {listed}");
        }
    }
}

/// SQLite would pass over all of it, with commits that were told.
#[test]
fn a_log_whose_header_is_damaged_is_refused_until_it_is_moved_away() {
    let stage = Stage::new();
    let damaged = Damaged::new(&stage, "log: its header".to_owned());
    kill_supervisor(&stage);
    let log = damaged.file("domain.db-wal");
    flip(&log, 8);
    assert_eq!(
        damaged.each_answers("domain.db-wal has a damaged header"),
        COMMANDS
    );
    let doctor = damaged.xioflow("doctor --json --domain");
    assert!(
        String::from_utf8_lossy(&doctor.stdout).contains("damaged_log"),
        "{doctor}"
    );
    fs::rename(&log, stage.path("aside")).expect("moved away");
    assert_eq!(damaged.each_answers("domain.db"), Vec::<&str>::new());
}

#[test]
fn stored_output_that_has_changed_is_told_by_logs_and_results() {
    each_user(|stage| {
        let damaged = Damaged::new(stage, "a bit of stored output");
        flip(&damaged.file("artifacts/big-stdout.log"), 100_000);
        let logs = damaged.xioflow("logs big");
        logs.assert_code(70)
            .assert_complains("big-stdout.log holds other bytes");
        let shown = damaged.xioflow("show big --json");
        shown.assert_code(0);
        let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).expect("a document");
        let error = shown["result"]["stdoutSpillError"]
            .as_str()
            .unwrap_or_default();
        assert!(error.contains("holds other bytes"), "{shown}");
        // A repetition is the same operation, and says the same.
        let again = damaged.xioflow("run --no-arbiter --op big -- seq 1 30000");
        again.assert_code(70).assert_complains("holds other bytes");
        // A part has no hash of its own.
        damaged
            .xioflow("logs big --tail 1")
            .assert_code(0)
            .assert_stdout("30000\n");
        damaged
            .xioflow("logs small")
            .assert_code(0)
            .assert_stdout("hello\n");
    });
}

#[test]
fn stored_output_that_is_shorter_or_gone_is_told() {
    each_user(|stage| {
        let damaged = Damaged::new(stage, "cut off");
        let file = damaged.file("artifacts/big-stdout.log");
        cut(&file, 100);
        assert_eq!(damaged.each_answers("big-stdout.log"), ["logs big"]);
        fs::remove_file(&file).expect("removed");
        assert_eq!(damaged.each_answers("big-stdout.log"), ["logs big"]);
    });
}

/// A last word with a bit flipped anywhere, or cut off anywhere: a recorded end that cannot be proven,
/// or, where the bit says nothing of it, the end as it was.
#[test]
fn a_damaged_last_word_proves_nothing() {
    let stage = Stage::new();
    let mut outcomes = std::collections::BTreeMap::new();
    for step in 0..6_u64 {
        let damaged = Damaged::new(&stage, format!("last word, step {step}"));
        kill_supervisor(&stage);
        let word = damaged.file("holders/a.word");
        xioflow_kit::wait::file(&word, xioflow_kit::Deadline::usual());
        let len = fs::metadata(&word).expect("a last word").len();
        match step {
            0 => cut(&word, 0),
            1 => cut(&word, len / 2),
            2 => cut(&word, len - 1),
            step => flip(&word, len * (step - 2) / 5),
        }
        let next = damaged.xioflow("run --no-arbiter -- true");
        next.assert_code(0);
        let shown = damaged.xioflow("show a --json");
        let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).expect("a document");
        let outcome = shown["outcome"].as_str().unwrap_or_default().to_owned();
        assert!(["failed", "indeterminate"].contains(&&*outcome), "{shown}");
        *outcomes.entry(outcome).or_insert(0) += 1;
    }
    assert!(
        outcomes.get("indeterminate").is_some_and(|it| *it >= 3),
        "{outcomes:?}"
    );
}
