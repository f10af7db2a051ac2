//! Runs a scenario under strace(1), and makes sure that what was recorded is all that was done.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use xioflow_kit::Stage;
use xioflow_storage::disk::{Disk, Found, Survival, Tree, outline};
use xioflow_storage::recording::{self, CALLS, Event, What};
use xioflow_storage::trace;

use crate::check::Facts;
use crate::scenario::Scenario;

/// Longest string in a trace; what is written at once is shorter.
const STRING_MAX: &str = "4194304";

/// A scenario as it happened.
pub(crate) struct Recorded {
    pub(crate) events: Vec<Event>,
    /// What is known for good once a helper has ended; see [`Scenario::last_word_on`].
    pub(crate) settled: Option<(String, serde_json::Value)>,
}

/// Records a scenario in a domain that does not exist yet, in a folder that does.
pub(crate) fn record(stage: &Stage, scenario: &Scenario) -> Recorded {
    let (place, told) = (stage.folder("place"), stage.folder("told"));
    let output = stage.path("trace");
    let run = stage
        .run("strace")
        .args(["-f", "-y", "-xx", "-s", STRING_MAX, "-e", CALLS])
        .arg("-o")
        .arg(&output)
        .args(["sh", "-c", scenario.script])
        .env("X", stage.program("xioflow"))
        .env("TOLD", &told)
        .env("XIOFLOW_DOMAIN", place.join("domain"));
    run.finish().assert_code(0);
    let text = fs::read_to_string(&output).expect("a trace");
    let recording = trace::read(&text).and_then(|lines| recording::of(&lines, &place, &told));
    let recording = recording.unwrap_or_else(|error| panic!("{}: {error}", scenario.name));
    assert_only_shared_memory(recording.mapped.iter().map(PathBuf::as_path));
    assert_all_is_recorded(&recording.events, &place);
    let settled = scenario.last_word_on.map(|operation| {
        let facts = Facts::of(&recording.events);
        let shown = facts.json(&format!("shown.{operation}"));
        (operation.to_owned(), shown.expect("it was shown"))
    });
    Recorded {
        events: recording.events,
        settled,
    }
}

/// Nothing is kept that a trace cannot show: SQLite rebuilds its shared memory after a crash.
fn assert_only_shared_memory<'a>(mapped: impl Iterator<Item = &'a Path>) {
    for path in mapped {
        let name = path.display();
        assert!(is_shared_memory(path), "{name} is written as memory");
    }
}

fn is_shared_memory(path: &Path) -> bool {
    path.to_string_lossy().ends_with("-shm")
}

/// The changes that were recorded must lead to what there is now.
fn assert_all_is_recorded(events: &[Event], place: &Path) {
    let mut disk = Disk::default();
    for event in events {
        if let What::Changed(path, change) = &event.what {
            disk.apply(event.at, path, change)
                .expect("as it was recorded");
        }
    }
    let mut recorded = outline(&disk.after(Survival::Everything));
    let mut there = outline(&tree(place));
    for outline in [&mut recorded, &mut there] {
        outline.retain(|path, _| !is_shared_memory(path));
    }
    assert_eq!(recorded, there, "the trace does not show all");
}

/// What there is in a folder, without sockets, and without what only lives in memory.
fn tree(folder: &Path) -> Tree {
    let entries = fs::read_dir(folder).expect("a folder");
    let entries = entries.map(|entry| entry.expect("an entry"));
    entries
        .filter(|entry| !entry.file_type().expect("a type").is_socket())
        .map(|entry| (entry.file_name(), found(&entry.path())))
        .collect::<std::collections::BTreeMap<OsString, Found>>()
}

fn found(path: &Path) -> Found {
    if path.is_dir() {
        Found::Folder(tree(path))
    } else {
        Found::File(fs::read(path).expect("a file"))
    }
}
