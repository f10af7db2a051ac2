//! What an owner left that crashed, and what the next one makes of it: by evidence, once, and
//! without being held up by anything that lies in its folders.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use xioflow_kernel::journal::{
    Change, Journal, NewOperation, OpenOptions, OperationKind, Outcome, Query, Run, RunStatus,
    Stream, Task,
};
use xioflow_kernel::{
    Domain, ExecuteError, OperationResult, ProcessIdentity, Verdict, artifact_name, stored_result,
};
use xioflow_kit::Stage;
use xioflow_protocol::{Exit, Identity, LAST_WORD_FORMAT, LastWord, TreeEnd, Usage};

use crate::{fixture, open};

/// Puts something in the place of a file.
type Make = fn(&Path);

const ID: &str = "op";
const LEASE: &str = "db";

/// A domain whose owner crashed while an operation ran, with a helper that is gone.
fn crashed(stage: &Stage) {
    let journal = Journal::open(stage.domain(), &OpenOptions::default()).expect("a journal");
    let task = Task {
        id: "task".into(),
        name: "task".into(),
        created_at_ms: 1,
        meta: Value::Null,
    };
    let run = Run {
        id: "run".into(),
        task_id: "task".into(),
        owner: "crashed".into(),
        status: RunStatus::Running,
        termination_reason: None,
        started_at_ms: 1,
        ended_at_ms: None,
        config: json!({}),
    };
    let operation = NewOperation {
        id: ID.into(),
        run_id: "run".into(),
        kind: OperationKind::Process,
        name: "build".into(),
        input_fingerprint: "x".into(),
        required_resources: vec![LEASE.into()],
        mutation_roots: Vec::new(),
        capability_id: None,
        timeout_ms: None,
        resource_budget: None,
        spawn_gated: Some(true),
    };
    let gone = serde_json::to_value(gone()).expect("an identity is JSON");
    let changes = vec![
        Change::SaveTask(task),
        Change::AddRun(run),
        Change::RegisterOperation(Box::new(operation)),
        Change::ActivateOperation {
            operation_id: ID.into(),
            process_identity: gone.clone(),
            holder: gone,
        },
    ];
    journal.commit(changes).expect("a commit");
}

/// A process of this boot that has ended: our own number, but started before everything else.
fn gone() -> ProcessIdentity {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("a boot id");
    ProcessIdentity {
        pid: std::process::id(),
        pgid: None,
        start_ticks: 1,
        boot_id: boot.trim().replace('-', ""),
        pidfd_inode: None,
        os_start_time: None,
        command_fingerprint: None,
        namespaces: None,
        pid_namespace: None,
        cgroup_path: None,
        cgroup_id: None,
        cgroup_namespace: None,
    }
}

/// The same, as its own last word names it.
fn gone_helper() -> Identity {
    let recorded = gone();
    let mut boot_id = [0; 16];
    for (at, byte) in boot_id.iter_mut().enumerate() {
        let digits = &recorded.boot_id[2 * at..2 * at + 2];
        *byte = u8::from_str_radix(digits, 16).expect("a boot id");
    }
    Identity {
        pid: recorded.pid,
        start_ticks: recorded.start_ticks,
        boot_id,
        pidfd_inode: None,
    }
}

fn word(operation_id: &str, released: bool) -> LastWord {
    LastWord {
        format: LAST_WORD_FORMAT,
        operation_id: operation_id.to_owned(),
        holder: gone_helper(),
        root: None,
        released,
        launch_failure: None,
        end: TreeEnd {
            exit: Some(Exit::Exited { code: 3 }),
            survivors: Vec::new(),
            survivors_total: 0,
            usage: Usage::default(),
            last_signal: None,
            group_empty: None,
        },
        empty: true,
        written_at_ms: 1,
        stopped: false,
        namespace: None,
    }
}

fn bytes(word: &LastWord) -> Vec<u8> {
    word.to_bytes().expect("a short word")
}

fn holders(stage: &Stage) -> PathBuf {
    stage.domain().join("holders")
}

/// Leaves something as the last word on the operation.
fn leave(stage: &Stage, content: &[u8]) {
    fs::write(holders(stage).join(format!("{ID}.word")), content).expect("a file of the domain");
}

fn pipe(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::from(0o600), 0).expect("a pipe");
}

fn result(domain: &Domain) -> OperationResult {
    let journal = domain.journal();
    let operation = journal.operation(ID).expect("readable").expect("recorded");
    let outputs = journal.outputs(ID).expect("readable");
    let artifacts = domain.folder().join("artifacts");
    stored_result(&operation, &outputs, &artifacts, 1024 * 1024).expect("a result")
}

/// The operation's end is not known: it holds what it held, and a conflict names it.
fn assert_isolated(stage: &Stage, domain: &Domain, case: char, why: &str) {
    let [decision] = domain.recovered() else {
        panic!("{:?}", domain.recovered());
    };
    assert_eq!((decision.case, decision.verdict), (case, Verdict::Isolated));
    let result = result(domain);
    assert_eq!(result.status, Outcome::Indeterminate);
    assert_eq!((result.exit_code, result.signal.as_deref()), (None, None));
    let reason = result.reason.unwrap_or_default();
    assert!(reason.contains(why), "{reason:?} does not say {why:?}");
    assert_held(stage, domain);
}

fn assert_held(stage: &Stage, domain: &Domain) {
    let next = domain.operation(fixture(stage, &["exit", "0"]));
    let error = next.expect("a builder").lease(LEASE).run();
    let error = error.expect_err("the lease is held");
    let ExecuteError::ResourceConflict {
        resource, holder, ..
    } = &error
    else {
        panic!("{error:?}");
    };
    assert_eq!((resource.as_str(), holder.as_str()), (LEASE, ID));
}

#[test]
fn a_last_word_is_the_result_and_what_was_printed_its_output() {
    let stage = Stage::new();
    crashed(&stage);
    leave(&stage, &bytes(&word(ID, true)));
    // More than is kept in the journal, and bytes that no text has.
    let printed: Vec<u8> = (0..300_000_u32).map(|at| at.to_le_bytes()[0]).collect();
    let artifacts = stage.domain().join("artifacts");
    fs::write(artifacts.join(artifact_name(ID, Stream::Stdout)), &printed).expect("a file");
    let domain = open(&stage);
    let [decision] = domain.recovered() else {
        panic!("{:?}", domain.recovered());
    };
    assert_eq!(
        (decision.case, decision.verdict),
        ('A', Verdict::SettledByLastWord)
    );
    let result = result(&domain);
    assert_eq!(
        (result.status, result.exit_code),
        (Outcome::Failed, Some(3))
    );
    assert_eq!(result.stdout_bytes, 300_000);
    let hash: String = Sha256::digest(&printed)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert_eq!(result.stdout_hash.as_deref(), Some(hash.as_str()));
    assert_eq!(
        (result.stderr_bytes, result.stderr_hash.as_deref()),
        (0, None)
    );
    // What was in a pipe when its supervisor died was seen by nobody.
    assert_eq!((result.spill_error, result.output_complete), (None, None));
    assert_eq!(domain.journal().leases().expect("readable"), []);
    assert!(
        !holders(&stage).join("op.word").exists(),
        "it has been told"
    );
}

#[test]
fn recovery_done_again_changes_nothing() {
    for content in [bytes(&word(ID, true)), b"rubbish".to_vec()] {
        let stage = Stage::new();
        crashed(&stage);
        leave(&stage, &content);
        let (first, events) = {
            let domain = open(&stage);
            assert_eq!(domain.recovered().len(), 1);
            let events = domain
                .journal()
                .events(0, Some(ID), None)
                .expect("readable");
            (result(&domain), events)
        };
        for _ in 0..2 {
            let domain = open(&stage);
            assert_eq!(domain.recovered(), []);
            assert_eq!(result(&domain), first);
            let again = domain
                .journal()
                .events(0, Some(ID), None)
                .expect("readable");
            assert_eq!(again, events);
            if first.status == Outcome::Indeterminate {
                assert_held(&stage, &domain);
            }
        }
    }
}

#[test]
fn a_word_that_is_cut_off_anywhere_says_nothing() {
    let whole = bytes(&word(ID, true));
    for len in (0..whole.len()).step_by(5).chain([whole.len() - 1]) {
        let stage = Stage::new();
        crashed(&stage);
        leave(&stage, &whole[..len]);
        assert_isolated(&stage, &open(&stage), 'C', "last word cannot be used");
    }
}

#[test]
fn a_word_with_something_behind_it_says_nothing() {
    let stage = Stage::new();
    crashed(&stage);
    leave(&stage, &[bytes(&word(ID, true)), b"\0".to_vec()].concat());
    assert_isolated(&stage, &open(&stage), 'C', "last word cannot be used");
}

#[test]
fn a_word_in_a_newer_format_is_named_and_not_read() {
    let stage = Stage::new();
    crashed(&stage);
    let newer = LastWord {
        format: LAST_WORD_FORMAT + 1,
        ..word(ID, true)
    };
    leave(&stage, &bytes(&newer));
    assert_isolated(
        &stage,
        &open(&stage),
        'C',
        "format 2, this release reads format 1",
    );
    assert!(
        holders(&stage).join("op.word").exists(),
        "a newer release can read it"
    );
}

#[test]
fn a_word_about_another_operation_says_nothing_of_this_one() {
    let stage = Stage::new();
    crashed(&stage);
    leave(&stage, &bytes(&word("other", true)));
    assert_isolated(&stage, &open(&stage), 'C', "it is about operation other");
}

/// The id had another helper before, whose supervisor died before anything was recorded. What that one
/// leaves has the same name, and it may come late.
#[test]
fn a_word_of_an_earlier_helper_says_nothing() {
    for released in [false, true] {
        let stage = Stage::new();
        crashed(&stage);
        let mut word = word(ID, released);
        word.holder.start_ticks += 1;
        leave(&stage, &bytes(&word));
        assert_isolated(&stage, &open(&stage), 'C', "it is of another helper");
    }
}

#[test]
fn what_is_no_file_is_no_word_and_holds_nobody_up() {
    let things: [(&str, Make); 4] = [
        ("pipe", pipe),
        ("folder", |path| fs::create_dir(path).expect("a folder")),
        ("Too many levels", |path| {
            symlink("/dev/zero", path).expect("a link")
        }),
        ("too long", |path| {
            let file = fs::File::create(path).expect("a file");
            file.set_len(1 << 40).expect("a hole");
        }),
    ];
    for (why, make) in things {
        let stage = Stage::new();
        crashed(&stage);
        make(&holders(&stage).join("op.word"));
        assert_isolated(&stage, &open(&stage), 'C', why);
    }
}

#[test]
fn rubbish_beside_the_words_is_left_alone() {
    let stage = Stage::new();
    crashed(&stage);
    leave(&stage, &bytes(&word(ID, true)));
    let holders = holders(&stage);
    pipe(&holders.join("pipe.word"));
    fs::create_dir(holders.join("folder.word")).expect("a folder");
    symlink("/dev/zero", holders.join("zero.word")).expect("a link");
    symlink(stage.path("secret"), holders.join("nowhere.word")).expect("a link");
    fs::write(holders.join("note.txt"), "not a word").expect("a file");
    fs::write(
        holders.join("half.word.tmp"),
        &bytes(&word("half", true))[..9],
    )
    .expect("a file");
    let names = |folder: &Path| {
        let entries = fs::read_dir(folder).expect("a folder");
        let mut names: Vec<_> = entries
            .map(|entry| entry.expect("an entry").file_name())
            .collect();
        names.sort();
        names
    };
    let before = names(&holders);
    let domain = open(&stage);
    assert_eq!(result(&domain).exit_code, Some(3));
    let left = names(&holders);
    let told: Vec<_> = before.iter().filter(|name| !left.contains(name)).collect();
    // Nobody is there who would finish the draft.
    assert_eq!(told, ["half.word.tmp", "op.word"]);
}

#[test]
fn words_on_operations_that_are_not_recorded_are_kept_only_if_something_ran() {
    let stage = Stage::new();
    drop(open(&stage));
    for (name, released) in [("ran", true), ("never-ran", false)] {
        let path = holders(&stage).join(format!("{name}.word"));
        fs::write(path, bytes(&word(name, released))).expect("a file");
    }
    drop(open(&stage));
    assert!(holders(&stage).join("ran.word").exists());
    assert!(!holders(&stage).join("never-ran.word").exists());
}

#[test]
fn output_that_is_no_file_is_that_streams_error_and_nothing_more() {
    let things: [(&str, Make); 3] = [
        ("pipe", pipe),
        ("folder", |path| fs::create_dir(path).expect("a folder")),
        ("Too many levels", |path| {
            symlink("/etc/hostname", path).expect("a link")
        }),
    ];
    for (why, make) in things {
        let stage = Stage::new();
        crashed(&stage);
        leave(&stage, &bytes(&word(ID, true)));
        let artifacts = stage.domain().join("artifacts");
        make(&artifacts.join(artifact_name(ID, Stream::Stdout)));
        fs::write(artifacts.join(artifact_name(ID, Stream::Stderr)), "told").expect("a file");
        let domain = open(&stage);
        let result = result(&domain);
        assert_eq!(
            (result.status, result.exit_code),
            (Outcome::Failed, Some(3))
        );
        let error = result.stdout_spill_error.unwrap_or_default();
        assert!(error.contains(why), "{error:?} does not say {why:?}");
        assert_eq!((result.stdout.as_str(), result.stdout_hash), ("", None));
        assert_eq!(
            (result.stderr.as_str(), result.stderr_spill_error),
            ("told", None)
        );
    }
}
