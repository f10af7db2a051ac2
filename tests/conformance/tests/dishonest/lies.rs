//! The lies, each with the contracts that have to find it.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use xioflow_conformance::{Document, Ended, Record, Terms, Work, ways};
use xioflow_kit::Stage;

use crate::liar::{HONEST, Liar};

/// All of them.
pub(crate) fn all() -> Vec<Liar> {
    [RESULTS, RECORDS, RECOVERIES, WORKS, ANSWERS].concat()
}

/// Changes a result, if there is one.
fn with(ended: Ended, change: impl FnOnce(&mut Value)) -> Ended {
    ended.map(|Document(mut document)| {
        change(&mut document);
        Document(document)
    })
}

const RESULTS: &[Liar] = &[
    Liar {
        name: "invents-an-exit",
        breaks: &[41],
        told_by: "not told as it was seen",
        ended: |ended| {
            with(ended, |result| {
                if !result["signal"].is_null() {
                    result["exitCode"] = json!(137);
                }
            })
        },
        ..HONEST
    },
    Liar {
        name: "calls-an-unseen-exit-success",
        breaks: &[6, 18],
        told_by: "\"status\": \"succeeded\"",
        ended: |ended| {
            with(ended, |result| {
                if result["status"] == "indeterminate" {
                    result["status"] = json!("succeeded");
                }
            })
        },
        ..HONEST
    },
    Liar {
        name: "calls-every-tree-empty",
        breaks: &[10, 62],
        told_by: "treeSettlement is",
        ended: |ended| with(ended, |result| result["treeSettlement"] = json!("empty")),
        ..HONEST
    },
    Liar {
        name: "takes-the-dead-for-residuals",
        breaks: &[8, 9, 10, 62, 65],
        told_by: "residualPids is [1]",
        ended: |ended| with(ended, |result| result["residualPids"] = json!([1])),
        ..HONEST
    },
    Liar {
        name: "loses-the-exit-of-a-command-with-survivors",
        breaks: &[10, 62],
        told_by: "exitCode is null",
        ended: |ended| {
            with(ended, |result| {
                if result["treeSettlement"] == "reaped" {
                    result["exitCode"] = Value::Null;
                }
            })
        },
        ..HONEST
    },
    Liar {
        name: "calls-every-tree-enclosed",
        breaks: &[67],
        told_by: "driver is \"pidns\"",
        ended: |ended| {
            with(ended, |result| {
                result["driver"] = json!("pidns");
            })
        },
        ..HONEST
    },
    Liar {
        name: "praises-every-stop-action",
        breaks: &[66],
        told_by: "exitCode is 0",
        ended: |ended| {
            with(ended, |result| {
                if result["stopAction"]["ran"] == true {
                    result["stopAction"]["exitCode"] = json!(0);
                }
            })
        },
        ..HONEST
    },
    Liar {
        name: "keeps-a-byte-too-many",
        breaks: &[2, 3],
        told_by: " of ",
        ended: |ended| {
            with(ended, |result| {
                let kept = result["stdout"].as_str().unwrap_or_default().len();
                if result["stdoutTruncated"] == true {
                    result["stdout"] = json!("x".repeat(kept + 200));
                }
            })
        },
        ..HONEST
    },
    Liar {
        name: "hides-what-was-not-stored",
        breaks: &[5],
        told_by: "spillError",
        ended: |ended| with(ended, |result| result["spillError"] = Value::Null),
        ..HONEST
    },
    Liar {
        name: "prunes-nothing",
        breaks: &[44],
        told_by: "is still there after a pruning",
        prune: |_, _| {},
        ..HONEST
    },
    Liar {
        name: "prunes-what-runs",
        breaks: &[44],
        told_by: "a stored file",
        prune: |client, stage| {
            client.prune_all();
            let files = std::fs::read_dir(stage.domain().join("artifacts")).expect("a folder");
            for file in files {
                std::fs::remove_file(file.expect("an entry").path()).expect("a file");
            }
        },
        ..HONEST
    },
    Liar {
        name: "publishes-another-hash",
        breaks: &[4, 14, 15, 44],
        told_by: "stdoutHash",
        ended: |ended| with(ended, |result| result["stdoutHash"] = json!("00")),
        ..HONEST
    },
    Liar {
        name: "keeps-silent-about-a-replay",
        breaks: &[18, 45, 46, 48, 64],
        told_by: "replayed is false",
        ended: |ended| with(ended, |result| result["replayed"] = json!(false)),
        ..HONEST
    },
    Liar {
        name: "tells-each-replay-a-little-differently",
        breaks: &[45, 48],
        told_by: "replayed",
        ended: |ended| {
            with(ended, |result| {
                if result["replayed"] == true {
                    result["durationMs"] = json!(0);
                }
            })
        },
        ..HONEST
    },
];

const RECORDS: &[Liar] = &[
    Liar {
        name: "records-results-twice",
        breaks: &[1, 8, 40, 41],
        told_by: "2 results",
        events: |events| {
            let twice = |event: &xioflow_conformance::Event| {
                1 + usize::from(event.kind == "OPERATION_RESULT_RECORDED")
            };
            let times = events.iter().flat_map(|one| vec![one.clone(); twice(one)]);
            times.collect()
        },
        ..HONEST
    },
    Liar {
        name: "records-an-intent-last",
        breaks: &[17],
        told_by: "OPERATION_INTENT_REGISTERED",
        events: |mut events| {
            events.sort_by_key(|event| event.kind == "OPERATION_INTENT_REGISTERED");
            events
        },
        ..HONEST
    },
    Liar {
        name: "says-that-nothing-is-held",
        breaks: &[6, 48],
        told_by: "left: ",
        leases: |_| Vec::new(),
        ..HONEST
    },
];

/// Changes a record, if there is one.
fn of(record: Option<Record>, change: impl FnOnce(&mut Record)) -> Option<Record> {
    record.map(|mut record| {
        change(&mut record);
        record
    })
}

/// About what an owner left that died.
const RECOVERIES: &[Liar] = &[
    Liar {
        name: "frees-what-is-not-settled",
        breaks: &[22, 23, 24, 26],
        told_by: "it has given its leases back",
        leases: |_| Vec::new(),
        ..HONEST
    },
    Liar {
        name: "calls-what-it-ended-cancelled",
        breaks: &[22],
        told_by: "cancelled",
        record: |record| of(record, |it| it.outcome = Some("cancelled".to_owned())),
        ..HONEST
    },
    Liar {
        name: "signals-whoever-has-the-number",
        breaks: &[23],
        told_by: "a stranger got signals",
        aside: signal_the_stranger,
        ..HONEST
    },
    Liar {
        name: "believes-that-everything-was-gated",
        breaks: &[24],
        told_by: "indeterminate",
        record: |record| of(record, |it| it.outcome = Some("failed".to_owned())),
        ..HONEST
    },
    Liar {
        name: "leaves-runs-open",
        breaks: &[25],
        told_by: "of its Run",
        record: |record| of(record, |it| it.run_status = Some("running".to_owned())),
        ..HONEST
    },
    Liar {
        name: "confirms-what-lives",
        breaks: &[26],
        told_by: "something of it lives",
        adjudicated: |_| Ok(()),
        ..HONEST
    },
    Liar {
        name: "frees-before-it-decides",
        breaks: &[26],
        told_by: "not in this order",
        events: |mut events| {
            events.sort_by_key(|event| event.kind == "OPERATION_ADJUDICATED");
            events
        },
        ..HONEST
    },
];

/// Ids that nobody has used.
fn another_id() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("another-{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

const WORKS: &[Liar] = &[
    Liar {
        name: "runs-everything-again",
        breaks: &[18, 45, 47],
        told_by: "",
        work: |work| Work {
            id: another_id(),
            ..work
        },
        ..HONEST
    },
    Liar {
        name: "takes-no-leases",
        breaks: &[6, 7, 20, 33],
        told_by: "",
        work: |work| Work {
            leases: Vec::new(),
            ..work
        },
        ..HONEST
    },
    Liar {
        name: "takes-one-timeout-for-another",
        breaks: &[47],
        told_by: "timeout",
        work: |work| Work {
            timeout: work.timeout.map(|_| Duration::from_secs(10)),
            ..work
        },
        ..HONEST
    },
    Liar {
        name: "stops-late",
        breaks: &[11],
        told_by: " for the document",
        work: |work| Work {
            grace: Some(Duration::from_secs(4)),
            ..work
        },
        ..HONEST
    },
    Liar {
        name: "counts-no-operations",
        breaks: &[13],
        told_by: "one is enough",
        terms: |terms| Terms {
            max_concurrent_operations: None,
            ..terms
        },
        ..HONEST
    },
    Liar {
        name: "adds-up-no-memory",
        breaks: &[39],
        told_by: "there is too little",
        terms: |terms| Terms {
            max_total_memory_bytes: None,
            ..terms
        },
        ..HONEST
    },
    Liar {
        name: "degrades-a-hard-limit",
        breaks: &[16],
        told_by: "it is not enforced",
        work: |work| Work {
            hard_limit: None,
            ..work
        },
        ..HONEST
    },
];

const ANSWERS: &[Liar] = &[
    Liar {
        name: "sees-nothing-of-what-runs",
        breaks: &[34],
        told_by: "active",
        record: |record| record.filter(|record| record.status == "done"),
        ..HONEST
    },
    Liar {
        name: "signs-what-it-looks-at",
        breaks: &[35],
        told_by: "has changed it",
        looked: sign_the_lock,
        ..HONEST
    },
    Liar {
        name: "takes-a-loss-for-a-wish",
        breaks: &[36],
        told_by: "terminationReason is \"user_cancelled\"",
        way: &ways::CommandLine::SHARED,
        record: |record| {
            record.map(|mut record| {
                if let Some(Document(result)) = &mut record.result {
                    result["terminationReason"] = json!("user_cancelled");
                }
                record
            })
        },
        ..HONEST
    },
    Liar {
        name: "has-always-cancelled",
        breaks: &[12, 64],
        told_by: "has ended",
        cancelled: |cancelled| match cancelled {
            Err(refusal) if refusal.text.contains("already ended") => Ok(()),
            other => other,
        },
        ..HONEST
    },
    Liar {
        name: "ends-a-run-whatever-is-open",
        breaks: &[21, 43],
        told_by: "succeeded",
        reported: |_| Ok("succeeded".to_owned()),
        ..HONEST
    },
    Liar {
        name: "leaves-a-file-in-the-store",
        breaks: &[44],
        told_by: "stray",
        aside: |stage| {
            let stray = stage.domain().join("artifacts/stray");
            std::fs::write(stray, "").expect("a file in the folder");
        },
        ..HONEST
    },
    Liar {
        name: "leaves-a-process-behind",
        breaks: &[1],
        told_by: "left behind",
        aside: leave_a_process,
        ..HONEST
    },
    Liar {
        name: "panics",
        breaks: &[1],
        told_by: "out of order",
        aside: |_| panic!("out of order"),
        ..HONEST
    },
];

/// Puts another text into the lock file, without touching the lock.
fn sign_the_lock(stage: &Stage) {
    let lock = stage.domain().join("domain.lock");
    std::fs::write(lock, "looked at").expect("the lock file");
}

/// The process whose number is the recorded one's.
fn signal_the_stranger(stage: &Stage) {
    let stranger = xioflow_kit::fixture_pids(&stage.path("stranger"))[0].to_string();
    let signalled = Command::new("kill").args(["-TERM", &stranger]).status();
    assert!(signalled.is_ok_and(|status| status.success()));
}

/// One that no stage can know: without its environment, its folder or its descriptors.
fn leave_a_process(_: &Stage) {
    let left = Command::new("/bin/sh")
        .args(["-c", "setsid sleep 120 >/dev/null 2>&1 &"])
        .current_dir("/")
        .env_clear()
        .stdin(Stdio::null())
        .status();
    left.expect("a shell");
}
