//! The arbiter, which is killed, and its clients, which see that.

use std::io::{self, Write};
use std::time::Duration;

use xioflow_arbiter::ArbiterOptions;
use xioflow_kernel::{Arbiter, DomainOptions};

use super::host::Host;
use crate::folder::Folder;
use crate::scenario::named;
use crate::work::LEASE_WAIT;

/// After how long without clients the arbiter ends, so that its end is part of the scenario.
const IDLE: Duration = Duration::from_millis(100);
/// How long an operation whose client is gone goes on.
const CLIENT_GRACE: Duration = Duration::from_millis(200);

/// Serves until nobody needs it. A line on standard output says that it is ready.
pub(super) fn serve(folder: &Folder) {
    let options = ArbiterOptions {
        idle: Some(IDLE),
        client_grace: CLIENT_GRACE,
        helper: Some(folder.helper()),
        ..ArbiterOptions::default()
    };
    let ready = || {
        let mut out = io::stdout().lock();
        out.write_all(b"ready\n")
            .and_then(|()| out.flush())
            .expect("a pipe");
    };
    xioflow_arbiter::serve(&folder.domain(), options, ready).expect("an arbiter");
}

/// Plays a client. Where there is no arbiter any more there is no client either: its helper is nowhere, so
/// it cannot become an owner.
pub(super) fn play(folder: &Folder, client: &str) {
    let options = DomainOptions::default()
        .arbiter(Arbiter::Attach)
        .helper("/nowhere/at-all");
    let domain = match options.open(folder.domain()) {
        Ok(domain) if domain.arbiter().is_some() => domain,
        Ok(_) => panic!("a client owns the domain"),
        Err(error) => return folder.tell(&format!("lost {client} {error}")),
    };
    let host = Host { folder, domain };
    let work = |at: usize| &named("three-clients").works[at];
    match client {
        "detacher" => detach(&host),
        "canceller" => {
            let running = host.start(work(0));
            if folder.await_effect(work(0).id) {
                running.canceller.cancel().ok();
            }
            running.wait();
        }
        "waiter" => host.run(work(1)),
        "own" => host.run(work(2)),
        other => panic!("no client {other}"),
    }
}

/// Submits one detached and leaves once it is on record.
fn detach(host: &Host<'_>) {
    let work = &named("detached").works[0];
    let operation = host.domain.operation(work.command(host.folder));
    let operation = work.terms(operation.expect("a descriptor"), LEASE_WAIT);
    let (tell, told) = std::sync::mpsc::channel();
    let folder = host.folder.clone();
    let id = work.id;
    let operation = operation.detached(true).when_active(move |_| {
        folder.tell(&format!("active {id}"));
        tell.send(()).ok();
    });
    // An end of the channel without a word is an end of the submission.
    drop(operation.start().expect("a thread"));
    told.recv().ok();
}
