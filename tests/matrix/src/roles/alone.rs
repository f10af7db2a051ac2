//! Scenarios of one process. Whatever is refused on the way is noted and borne: the helper may have been
//! killed, and the process has to come to its end.

use serde_json::json;
use xioflow_kernel::PruneOptions;
use xioflow_killpoint as killpoint;

use super::host::{Host, Running};
use crate::folder::Folder;
use crate::scenario::named;
use crate::work::Work;

/// Plays one from its first step to its last.
pub(super) fn play(folder: &Folder, name: &str) {
    let host = Host::alone(folder);
    let works = named(name).works;
    match name {
        "complete" => complete(&host, works),
        "cancel" | "enclosed" => cancel(&host, &works[0]),
        "timeout" | "escapees" | "flood" => works.iter().for_each(|work| host.run(work)),
        "prune" => prune(&host, works),
        "replay" => replay(&host, works),
        "refused" => refused(&host, works),
        other => panic!("{other} is not played alone"),
    }
    drop(host);
    folder.tell("closed");
}

/// One in a Run that its host opens and ends, one in a Run of its own.
fn complete(host: &Host<'_>, works: &[Work]) {
    let run = host.domain.begin_run("matrix", &json!({})).expect("a Run");
    host.folder.tell(&format!("run {} running", run.id()));
    host.run_in(&run, &works[0]);
    if let Ok(status) = run.report_succeeded() {
        host.folder.tell(&format!("run {} {status}", run.id()));
    }
    host.run(&works[1]);
}

/// All stored output goes.
fn prune(host: &Host<'_>, works: &[Work]) {
    works.iter().for_each(|work| host.run(work));
    let options = PruneOptions {
        max_bytes: Some(0),
        ..PruneOptions::default()
    };
    let pruned = host.domain.prune(&options).expect("a pruning");
    for file in pruned.removed {
        host.folder.tell(&format!("pruned {}", file.artifact));
    }
}

fn cancel(host: &Host<'_>, work: &Work) {
    let running = host.start(work);
    await_running(host.folder, work.id);
    // It may have ended meanwhile, with its helper.
    running.canceller.cancel().ok();
    running.wait();
}

/// The point at which a command has shown that it runs.
pub(super) fn await_running(folder: &Folder, id: &str) {
    if folder.await_effect(id) {
        killpoint::pass(|| "supervisor:process-running");
    }
}

/// The same again, after it has ended and while it runs.
fn replay(host: &Host<'_>, works: &[Work]) {
    host.run(&works[0]);
    host.run(&works[0]);
    let first = host.start(&works[1]);
    await_running(host.folder, works[1].id);
    let joined = host.start(&works[1]);
    host.domain.attach(works[1].id).ok();
    // One that was refused, as its helper was killed, has left the operation to the other.
    if first.canceller.cancel().is_err() {
        joined.canceller.cancel().ok();
    }
    [first, joined].into_iter().for_each(Running::wait);
}

/// One waits for the lease of another and is cancelled there; one cannot be executed.
fn refused(host: &Host<'_>, works: &[Work]) {
    let holder = host.start(&works[0]);
    await_running(host.folder, works[0].id);
    let waiter = host.start(&works[1]);
    killpoint::pass(|| "supervisor:waiter-queued");
    waiter.canceller.cancel().ok();
    waiter.wait();
    holder.canceller.cancel().ok();
    holder.wait();
    host.run(&works[2]);
}
