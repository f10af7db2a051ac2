//! Stored output is removed for its age, its size and a quota, and never while something needs it.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;
use xioflow_kernel::journal::{Change, Journal, OpenOptions, PruneReason, Stream};
use xioflow_kernel::{
    Domain, DomainOptions, OperationResult, OutputError, PruneOptions, Pruned, StopManner,
    prune_preview,
};
use xioflow_kit::Stage;

use crate::{events, fixture, open, open_with, shell};

/// More than the journal takes, so it stays in a file.
const LEN: u64 = 100_000;

fn print(stage: &Stage, domain: &Domain, id: &str) -> OperationResult {
    let command = fixture(stage, &["flood-output", "stdout", &LEN.to_string()]);
    let operation = domain.operation(command).expect("a builder").id(id);
    operation.run().expect("a result")
}

fn to(max_bytes: u64) -> PruneOptions {
    PruneOptions {
        max_bytes: Some(max_bytes),
        ..PruneOptions::default()
    }
}

fn older_than(max_age: Duration) -> PruneOptions {
    PruneOptions {
        max_age: Some(max_age),
        ..PruneOptions::default()
    }
}

fn removed(pruned: &Pruned) -> Vec<&str> {
    let ids = pruned.removed.iter().map(|file| file.operation_id.as_str());
    ids.collect()
}

fn folder(stage: &Stage) -> PathBuf {
    stage.domain().join("artifacts")
}

fn files(stage: &Stage) -> BTreeSet<String> {
    let entries = fs::read_dir(folder(stage)).expect("the folder");
    let name = |entry: fs::DirEntry| entry.file_name().into_string().expect("a text");
    entries
        .map(|entry| name(entry.expect("an entry")))
        .collect()
}

#[test]
fn the_oldest_goes_for_its_size_and_its_record_stays() {
    let stage = Stage::new();
    let domain = open(&stage);
    let results = ["one", "two", "three"].map(|id| print(&stage, &domain, id));
    let kept_open = domain.output("one", Stream::Stdout).expect("a reader");

    let pruned = domain.prune(&to(2 * LEN)).expect("pruned");
    assert_eq!(removed(&pruned), ["one"]);
    assert_eq!(pruned.removed[0].reason, PruneReason::Size);
    assert_eq!(
        (pruned.bytes_before, pruned.bytes_after),
        (3 * LEN, 2 * LEN)
    );
    assert_eq!(files(&stage).len(), 2);
    assert_eq!(domain.artifact_bytes().expect("owned").used, 2 * LEN);

    let mut bytes = vec![0; 16];
    let len = kept_open.read_at(0, &mut bytes);
    assert_eq!(len.expect("who has it open goes on reading"), 16);

    let error = domain
        .output("one", Stream::Stdout)
        .expect_err("it is gone");
    let OutputError::Pruned { reason, .. } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(*reason, Some(PruneReason::Size));
    let sentence = error.to_string();
    assert!(
        sentence.contains("stdout of operation one was pruned on 20"),
        "{sentence}"
    );
    assert!(sentence.ends_with(", by size"), "{sentence}");

    let again = print(&stage, &domain, "one");
    assert!(again.replayed && again.stdout_pruned_at.is_some());
    assert_eq!((&again.stdout_ref, &again.output_ref), (&None, &None));
    assert_eq!(
        (again.stdout_bytes, &again.stdout_hash),
        (LEN, &results[0].stdout_hash)
    );
    assert_eq!((again.spill_error, again.stdout_truncated), (None, true));
    let other = print(&stage, &domain, "two");
    assert_eq!(
        (other.stdout_pruned_at, other.stdout),
        (None, results[1].stdout.clone())
    );
    assert!(events(&domain, "one").contains(&"OUTPUT_PRUNED".to_owned()));
    assert_eq!(
        removed(&domain.prune(&to(2 * LEN)).expect("pruned")),
        [""; 0]
    );
}

#[test]
fn age_is_counted_from_the_result() {
    let stage = Stage::new();
    let domain = open(&stage);
    print(&stage, &domain, "op");
    let hour = Duration::from_secs(3600);
    assert_eq!(
        removed(&domain.prune(&older_than(hour)).expect("pruned")),
        [""; 0]
    );
    // A result of this very millisecond is not older than that.
    while removed(&domain.prune(&older_than(Duration::ZERO)).expect("pruned")).is_empty() {
        std::thread::yield_now();
    }
    assert!(files(&stage).is_empty());
}

#[test]
fn what_is_needed_stays_and_is_counted() {
    let stage = Stage::new();
    let domain = open(&stage);
    let run = domain.begin_run("several", &json!({})).expect("a Run");
    let command = fixture(&stage, &["flood-output", "stdout", &LEN.to_string()]);
    let of_run = run.operation(command).expect("a builder").id("of-run");
    of_run.run().expect("a result");
    let script = "yes | head -c 100000; echo ready >&2; exec sleep 600";
    let mut running = domain
        .operation(shell(&stage, script))
        .expect("a builder")
        .id("running");
    let output = running.subscribe();
    let running = running.start().expect("started");
    while !has_printed_to_stderr(&output) {}

    let pruned = domain.prune(&to(0)).expect("pruned");
    assert_eq!(removed(&pruned), [""; 0]);
    assert_eq!(
        (pruned.kept.open_run.files, pruned.kept.open_run.bytes),
        (1, LEN)
    );
    assert_eq!(pruned.kept.unfinished.files, 2, "{pruned:?}");
    assert!(files(&stage).contains("running-stdout.log"));
    assert!(domain.output("of-run", Stream::Stdout).is_ok());

    run.report_succeeded().expect("ended");
    let pruned = domain.prune(&to(0)).expect("pruned");
    assert_eq!(removed(&pruned), ["of-run"], "its Run has ended");
    running
        .canceller()
        .stop(StopManner::Kill, Duration::ZERO)
        .expect("it runs");
    running.wait().expect("a result");
    let pruned = domain.prune(&to(0)).expect("pruned");
    assert_eq!(removed(&pruned), ["running"]);
}

fn has_printed_to_stderr(output: &xioflow_kernel::Subscription) -> bool {
    match output.next_piece().expect("it runs") {
        xioflow_kernel::Piece::Data { stream, .. } | xioflow_kernel::Piece::Gap { stream, .. } => {
            stream == Stream::Stderr
        }
    }
}

#[test]
fn what_is_no_file_of_ours_is_named_and_left_alone() {
    let stage = Stage::new();
    let domain = open(&stage);
    for id in ["link", "folder", "gone", "plain"] {
        print(&stage, &domain, id);
    }
    let at = |name: &str| folder(&stage).join(name);
    let outside = stage.path("outside");
    fs::write(&outside, "not ours").expect("a file");
    fs::remove_file(at("link-stdout.log")).expect("removed");
    symlink(&outside, at("link-stdout.log")).expect("a link");
    fs::remove_file(at("folder-stdout.log")).expect("removed");
    fs::create_dir(at("folder-stdout.log")).expect("a folder");
    fs::remove_file(at("gone-stdout.log")).expect("removed");
    fs::write(at("notes.txt"), "12345").expect("a file");
    symlink("/etc/passwd", at("elsewhere")).expect("a link");

    let preview = PruneOptions {
        dry_run: true,
        ..to(0)
    };
    let foreseen = prune_preview(&stage.domain(), &preview).expect("a preview");
    assert!(at("plain-stdout.log").exists());
    let pruned = domain.prune(&to(0)).expect("pruned");
    assert_eq!(
        Pruned {
            dry_run: false,
            ..foreseen
        },
        pruned
    );
    assert_eq!(removed(&pruned), ["plain"]);
    assert_eq!(pruned.missing_total, 1);
    let obstacles: BTreeSet<_> = pruned
        .obstacles
        .iter()
        .map(|it| (&*it.name, &*it.what))
        .collect();
    let expected = [("folder-stdout.log", "folder"), ("link-stdout.log", "link")];
    assert_eq!(obstacles, BTreeSet::from(expected));
    let unknown: BTreeSet<_> = pruned.unknown.iter().map(String::as_str).collect();
    assert_eq!(unknown, BTreeSet::from(["elsewhere", "notes.txt"]));
    assert_eq!(
        (pruned.unknown_total.files, pruned.unknown_total.bytes),
        (2, 5)
    );

    assert_eq!(fs::read(&outside).expect("untouched"), b"not ours");
    let left = [
        "elsewhere",
        "folder-stdout.log",
        "link-stdout.log",
        "notes.txt",
    ];
    assert_eq!(files(&stage), left.map(str::to_owned).into());
    // Reading what was replaced is an answer with a name.
    for id in ["link", "folder", "gone"] {
        let error = domain.output(id, Stream::Stdout).expect_err("no file");
        assert!(
            error.to_string().contains(&format!("{id}-stdout.log")),
            "{error}"
        );
    }
}

/// A crash between the record and the removal leaves a file that the next opening removes; one that is found
/// later, the next pruning.
#[test]
fn an_interrupted_pruning_is_finished_by_whoever_comes_next() {
    let stage = Stage::new();
    for (id, by_opening) in [("one", true), ("two", false)] {
        print(&stage, &open(&stage), id);
        let artifact = folder(&stage).join(format!("{id}-stdout.log"));
        let bytes = fs::read(&artifact).expect("stored");
        let journal = Journal::open(stage.domain(), &OpenOptions::default()).expect("owned");
        let change = Change::PruneOutput {
            operation_id: id.to_owned(),
            stream: Stream::Stdout,
            reason: PruneReason::Age,
        };
        journal.commit(vec![change]).expect("recorded");
        drop(journal);
        assert!(artifact.exists());
        let domain = open(&stage);
        if !by_opening {
            fs::write(&artifact, bytes).expect("as a power loss would leave it");
            let pruned = domain.prune(&PruneOptions::default()).expect("pruned");
            assert_eq!((pruned.leftovers.files, pruned.leftovers.bytes), (1, LEN));
        }
        assert!(!artifact.exists(), "{id}");
        let error = domain.output(id, Stream::Stdout).expect_err("it is gone");
        assert!(error.to_string().ends_with(", for its age"), "{error}");
    }
}

/// What a crash leaves between the result and the removal of its file is in the journal as well.
#[test]
fn a_file_whose_output_moved_into_the_journal_is_a_leftover() {
    let stage = Stage::new();
    let domain = open(&stage);
    for id in ["small", "silent"] {
        let script = if id == "small" { "echo out" } else { "true" };
        let operation = domain.operation(shell(&stage, script)).expect("a builder");
        operation.id(id).run().expect("a result");
        fs::write(folder(&stage).join(format!("{id}-stdout.log")), "out\n").expect("a file");
    }
    let pruned = domain.prune(&PruneOptions::default()).expect("pruned");
    assert_eq!((pruned.leftovers.files, pruned.unknown_total.files), (1, 1));
    assert_eq!(
        files(&stage),
        BTreeSet::from(["silent-stdout.log".to_owned()])
    );
    assert_eq!(
        pruned.unknown,
        ["silent-stdout.log"],
        "nothing says what it was"
    );
}

/// Whoever opens the domain after the crash removes it; what is no leftover stays.
#[test]
fn an_opening_removes_what_the_journal_has_already() {
    let stage = Stage::new();
    for (id, script) in [("small", "echo out"), ("silent", "true"), ("mute", "true")] {
        let domain = open(&stage);
        let operation = domain.operation(shell(&stage, script)).expect("a builder");
        operation.id(id).run().expect("a result");
    }
    let large = print(&stage, &open(&stage), "large");
    // Between the result and the removal; before the first byte; and what nothing explains.
    for (name, content) in [("small", "out\n"), ("silent", ""), ("mute", "said")] {
        let path = folder(&stage).join(format!("{name}-stdout.log"));
        fs::write(path, content).expect("a file");
    }
    drop(open(&stage));
    let left = ["large-stdout.log", "mute-stdout.log"].map(str::to_owned);
    assert_eq!(files(&stage), BTreeSet::from(left));
    assert_eq!(large.stdout_bytes, LEN);
}

#[test]
fn many_outputs_are_worked_off_in_pages() {
    let stage = Stage::new();
    let domain = open(&stage);
    // 2 files each, so pages end between those of one operation as well.
    let script = "yes | head -c 70000; yes | head -c 70000 >&2";
    for at in 0..150 {
        let operation = domain.operation(shell(&stage, script)).expect("a builder");
        operation.id(format!("op-{at:03}")).run().expect("a result");
    }
    let pruned = domain.prune(&to(20 * 70_000)).expect("pruned");
    assert_eq!((pruned.removed_total.files, files(&stage).len()), (280, 20));
    assert_eq!(pruned.removed.len(), 256, "the first are named");
    assert_eq!(pruned.removed[0].operation_id, "op-000");
    let kept = domain.output("op-140", Stream::Stderr);
    assert!(kept.is_ok(), "{kept:?}");
}

#[test]
fn a_quota_has_the_oldest_output_make_room() {
    let stage = Stage::new();
    let quota = DomainOptions::default().max_artifact_bytes(4 * LEN);
    let domain = open_with(&stage, quota);
    for at in 0..12 {
        let result = print(&stage, &domain, &format!("op-{at}"));
        assert_eq!(result.stdout_gap, None, "{at}: stored whole");
    }
    let used = domain.artifact_bytes().expect("owned").used;
    assert!(used <= 4 * LEN, "{used}");
    let error = domain
        .output("op-0", Stream::Stdout)
        .expect_err("it made room");
    assert!(
        error
            .to_string()
            .ends_with("to make room for a new operation"),
        "{error}"
    );
    assert!(domain.output("op-11", Stream::Stdout).is_ok());

    let run = domain.begin_run("several", &json!({})).expect("a Run");
    let mut gaps = 0;
    for at in 0..6 {
        let command = fixture(&stage, &["flood-output", "stdout", &LEN.to_string()]);
        let operation = run.operation(command).expect("a builder");
        let result = operation
            .id(format!("of-run-{at}"))
            .run()
            .expect("a result");
        gaps += u32::from(result.stdout_gap.is_some());
    }
    assert!(gaps > 0, "what an open Run needs makes no room");
    assert!(domain.output("of-run-0", Stream::Stdout).is_ok());
}

#[test]
fn without_a_quota_nothing_goes_by_itself() {
    let stage = Stage::new();
    let domain = open(&stage);
    for at in 0..5 {
        print(&stage, &domain, &format!("op-{at}"));
    }
    drop(domain);
    let domain = open(&stage);
    print(&stage, &domain, "one-more");
    assert_eq!(files(&stage).len(), 6);
    domain.close();
    let error = domain.prune(&to(0)).expect_err("closed");
    assert_eq!(error.to_string(), "the domain is closed");
}
