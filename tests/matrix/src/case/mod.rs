//! One case: a scenario is played, somebody is killed at one point, a fresh process recovers, and everything
//! that was promised is looked at. Its process ends with 0, with [`MISSED`], or by a panic that says what is
//! wrong.

mod processes;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use serde::Deserialize;
use xioflow_kernel::Decision;
use xioflow_kit::Deadline;

use crate::folder::Folder;
use crate::invariants::{self, Again, Breach, Living, Seen};
use crate::lies::Lie;
use crate::picture::Picture;
use crate::point::{CaseName, Whom};
use crate::roles::role;
use crate::scenario::{Kind, Scenario, named};
use crate::traced;

/// The exit status of a case whose point was not passed this time: some depend on how output happens to come
/// in pieces, or on who is faster.
pub(crate) const MISSED: u8 = 77;

/// How long one process of a case may take: far more than any does, so that only a hang reaches it.
const LONGEST: Duration = Duration::from_secs(60);

/// How long a tree may live on after a recovery that has found it to be gone, or ends it. I3 says 3 s; a
/// busy machine gets more, and what lives on by mistake lives for a minute.
const TREE_ENDS_WITHIN: Duration = Duration::from_secs(10);

/// Runs a case, or a lie about one.
pub(crate) fn run(programs: &Path, name: &CaseName, lie: Option<Lie>) -> ExitCode {
    processes::begin();
    let place = tempfile::Builder::new()
        .prefix("case-")
        .tempdir()
        .expect("a folder");
    let folder = Folder::new(place.path().to_owned(), programs.to_owned());
    let scenario = named(&name.scenario);
    prepare(&folder, &scenario);
    if !play(&folder, &scenario, name) {
        processes::end_all();
        return ExitCode::from(MISSED);
    }
    let mut breaches = examine_recovery(&folder, &scenario, name.whom, lie);
    // A domain that is wrong already may not even be opened again.
    if breaches.is_empty() {
        breaches = examine_resubmission(&folder, &scenario, lie);
    }
    let left = processes::living(Deadline::after(TREE_ENDS_WITHIN), |_| false);
    processes::end_all();
    let left = left.into_iter().map(|it| Breach {
        promise: "I3",
        what: format!("{it:?} lives after everything"),
    });
    breaches.extend(left);
    assert!(breaches.is_empty(), "{}", in_words(&folder, &breaches));
    ExitCode::SUCCESS
}

/// Prints the points of a scenario, one a line as in a trace, and below `steps` the helper's system calls.
pub(crate) fn discover(programs: &Path, scenario: &Scenario, steps: bool) -> String {
    processes::begin();
    let place = tempfile::Builder::new()
        .prefix("case-")
        .tempdir()
        .expect("a folder");
    let folder = Folder::new(place.path().to_owned(), programs.to_owned());
    prepare(&folder, scenario);
    if steps {
        traced::install(&folder, None);
    }
    once(&folder, scenario, &[(TRACE, text(&folder.trace()))], false);
    // A recovery may have found a tree that nobody holds.
    let is_excused = |_: &_| matches!(scenario.kind, Kind::Recovery { .. });
    let left = processes::living(Deadline::after(TREE_ENDS_WITHIN), is_excused);
    processes::end_all();
    let is_quiet = left.iter().all(is_excused);
    assert!(is_quiet, "undisturbed, and there live {left:?}");
    match steps {
        true => read(&folder.path().join(traced::LOG)),
        false => read(&folder.trace()),
    }
}

const AT: &str = "XIOFLOW_TEST_KILL_AT";
const WHOM: &str = "XIOFLOW_TEST_KILL_WHOM";
const TRACE: &str = "XIOFLOW_TEST_KILL_TRACE";

/// Makes what a scenario begins with: for a recovery, a domain whose owner was killed.
fn prepare(folder: &Folder, scenario: &Scenario) {
    let Kind::Recovery { of, at, whom, .. } = scenario.kind else {
        return;
    };
    let before = CaseName {
        scenario: of.to_owned(),
        point: at.to_owned(),
        whom,
    };
    assert!(play(folder, &named(of), &before), "{before} was not passed");
    fs::remove_file(folder.trace()).expect("a trace");
}

/// Plays a scenario in which somebody is killed; whether that point was passed.
fn play(folder: &Folder, scenario: &Scenario, name: &CaseName) -> bool {
    if name.whom == Whom::Step {
        traced::install(folder, Some(&name.point));
        once(folder, scenario, &[], false);
        // A helper without an owner goes on for a while.
        processes::living(Deadline::after(TREE_ENDS_WITHIN), |it| {
            it.operation.is_some()
        });
        return traced::was_killed(&read(&folder.path().join(traced::LOG)));
    }
    let variables = [
        (AT, name.point.clone()),
        (WHOM, name.whom.as_str().to_owned()),
        (TRACE, text(&folder.trace())),
    ];
    once(folder, scenario, &variables, name.whom.ends_owner());
    let trace = read(&folder.trace());
    let passed = trace.lines().filter_map(|line| line.rsplit_once(' '));
    let Some((_, helper)) = passed.into_iter().find(|(point, _)| *point == name.point) else {
        return false;
    };
    if name.whom == Whom::OwnerFirst && helper != "-" {
        processes::kill(helper.parse().expect("a pid"));
    }
    true
}

/// Plays a scenario once, with these variables for the process that may be killed.
fn once(folder: &Folder, scenario: &Scenario, variables: &[(&str, String)], may_be_killed: bool) {
    let name = scenario.name;
    match scenario.kind {
        Kind::Alone => {
            processes::start(folder, &[role::PLAY, name], variables).finish(may_be_killed)
        }
        Kind::Recovery { role, .. } => {
            processes::start(folder, &[role, name], variables).finish(may_be_killed);
        }
        Kind::Orphan { of, at } => {
            let variables = [(AT, at.to_owned()), (WHOM, Whom::Owner.as_str().to_owned())];
            processes::start(folder, &[role::PLAY, of], &variables).finish(true);
        }
        Kind::Arbiter { clients } => {
            let (arbiter, is_ready) =
                processes::start_ready(folder, &[role::SERVE, name], variables);
            let present = clients.iter().filter(|_| is_ready);
            let started: Vec<_> = present
                .map(|client| processes::start(folder, &[role::CLIENT, name, client], &[]))
                .collect();
            started.into_iter().for_each(|client| client.finish(false));
            arbiter.finish(may_be_killed);
        }
    }
}

fn examine_recovery(
    folder: &Folder,
    scenario: &Scenario,
    whom: Whom,
    lie: Option<Lie>,
) -> Vec<Breach> {
    // What an earlier recovery has decided was said to somebody who is dead.
    fs::remove_file(folder.decisions()).ok();
    let stand_in = folder.path().join(traced::STAND_IN);
    fs::remove_file(stand_in).ok();
    // Before anybody recovers: it is the kernel who ends them.
    let outlived = match scenario.needs_namespaces() && whom.ends_owner() && whom.ends_helper() {
        true => processes::living(Deadline::after(TREE_ENDS_WITHIN), |_| false),
        false => Vec::new(),
    };
    processes::start(folder, &[role::RECOVER, scenario.name], &[]).finish(false);
    if let Some(lie) = lie {
        lie.tell_after_recovery(folder);
    }
    let picture = Picture::take(folder);
    let is_excused = |it: &Living| {
        it.operation
            .as_ref()
            .is_some_and(|id| picture.is_unproven(id))
    };
    let living = processes::living(Deadline::after(TREE_ENDS_WITHIN), is_excused);
    let decisions: Vec<Decision> =
        serde_json::from_str(&read(&folder.decisions())).expect("decisions");
    let breaches = invariants::after_recovery(&Seen {
        works: scenario.works,
        whom: worst(whom, scenario.kind),
        picture: &picture,
        decisions: &decisions,
        told: &read(&folder.told()),
        outlived: &outlived,
        living: &living,
    });
    // What is left of a tree that nobody holds was isolated; the person who looks for it is this harness.
    processes::end_all();
    breaches
}

/// Who had died by the end: in a recovery, also whoever died before it.
fn worst(whom: Whom, kind: Kind) -> Whom {
    match kind {
        Kind::Recovery { whom: before, .. } if before.ends_helper() => before,
        Kind::Recovery { .. } | Kind::Orphan { .. } | Kind::Alone | Kind::Arbiter { .. } => whom,
    }
}

/// How everything that was submitted again was answered.
#[derive(Debug, Deserialize)]
struct Answers {
    answers: Vec<Answer>,
    decisions: Vec<Decision>,
}

#[derive(Debug, Deserialize)]
struct Answer {
    id: String,
    #[serde(default)]
    replayed: Option<bool>,
}

fn examine_resubmission(folder: &Folder, scenario: &Scenario, lie: Option<Lie>) -> Vec<Breach> {
    let before = Picture::take(folder);
    // Commands that would stay end at once, should one be executed now.
    fs::write(folder.over(), "").expect("a file of the case");
    processes::start(folder, &[role::RESUBMIT, scenario.name], &[]).finish(false);
    if let Some(lie) = lie {
        lie.tell_after_resubmission(folder);
    }
    let after = Picture::take(folder);
    let answers: Answers = serde_json::from_str(&read(&folder.answers())).expect("answers");
    let replayed = answers.answers.into_iter();
    let replayed: BTreeMap<String, bool> = replayed
        .filter_map(|answer| Some((answer.id, answer.replayed?)))
        .collect();
    let again = Again {
        before: &before,
        after: &after,
        decisions: &answers.decisions,
        replayed: &replayed,
    };
    invariants::after_resubmission(&again, scenario.works)
}

fn in_words(folder: &Folder, breaches: &[Breach]) -> String {
    let lines = breaches
        .iter()
        .map(|it| format!("    {}: {}\n", it.promise, it.what));
    let broken: String = lines.collect();
    let trace = read(&folder.trace());
    let last: Vec<&str> = trace.lines().rev().take(LAST_POINTS).collect();
    format!(
        "\n{broken}  told:\n{}  decided: {}\n  last points, the newest first: {}\n",
        read(&folder.told()),
        read(&folder.decisions()),
        last.join(", ")
    )
}

/// How much of a trace a failure shows.
const LAST_POINTS: usize = 6;

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn text(path: &Path) -> String {
    path.to_str().expect("an ASCII path").to_owned()
}
