//! One client: one operation after the other by the real command line, and what it was told of each.

use std::time::Duration;

use rustix::process::Signal;
use xioflow_kit::{Chance, Finished, Run};

use crate::ground::{Ground, text};

/// How often an operation is asked for that was not answered, before its client gives up.
const ATTEMPTS_MAX: u32 = 40;
/// Names that operations wait for each other by.
const LEASES: u64 = 3;
/// What a client leaves to others before it asks again.
const BACK_OFF: Duration = Duration::from_millis(50);

/// What a client knows of one operation.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) id: String,
    /// The exit status that it was answered with at last; `None` if the client was killed or gave up.
    pub(crate) code: Option<i32>,
}

/// What is asked for.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Quick,
    Slow,
    Flood,
    Escape,
    Deaf,
    Cancelled,
    Detached,
    Fails,
}

const KINDS: &[(u64, Kind)] = &[
    (40, Kind::Quick),
    (20, Kind::Slow),
    (6, Kind::Flood),
    (8, Kind::Escape),
    (3, Kind::Deaf),
    (8, Kind::Cancelled),
    (8, Kind::Detached),
    (7, Kind::Fails),
];

/// Works until it is told that it is over.
pub(crate) fn work(ground: &Ground<'_>, index: usize, mut dice: Chance) -> Vec<Told> {
    let mut told = Vec::new();
    for number in 0.. {
        if ground.is_over() {
            break;
        }
        let id = format!("{index}-{number}");
        let kind = dice.one_of(KINDS);
        let lease = dice
            .percent(30)
            .then(|| format!("soak:{}", dice.below(LEASES)));
        let order = Order {
            ground,
            index,
            id: &id,
            kind,
            lease: lease.as_deref(),
        };
        let code = order.until_answered(&mut dice);
        told.push(Told { id, code });
    }
    told
}

struct Order<'o, 'a> {
    ground: &'o Ground<'a>,
    index: usize,
    id: &'o str,
    kind: Kind,
    lease: Option<&'o str>,
}

impl<'a> Order<'_, 'a> {
    /// Asks, and asks again by the same id where there was no answer.
    fn until_answered(&self, dice: &mut Chance) -> Option<i32> {
        for _ in 0..ATTEMPTS_MAX {
            let finished = self.ask(dice);
            no_panic(&finished);
            match finished.status.code() {
                // The domain is busy, its arbiter went away, or there was no room.
                Some(70 | 73 | 75) => self.ground.pause(BACK_OFF),
                Some(code) => return Some(code),
                // Killed: half of them come back, as a host does that was started again.
                None if dice.percent(50) => {}
                None => return None,
            }
            if self.ground.is_over() {
                return None;
            }
        }
        None
    }

    fn ask(&self, dice: &mut Chance) -> Finished {
        let started = self.command().start();
        self.ground.at_work(self.index, Some(started.pid()));
        if matches!(self.kind, Kind::Cancelled) {
            self.ground.pause(dice.within(Duration::from_millis(200)));
            let cancel = self
                .ground
                .xioflow()
                .args(["cancel", self.id, "--grace", "100ms"]);
            no_panic(&cancel.finish());
        }
        let finished = started.finish();
        self.ground.at_work(self.index, None);
        if matches!(self.kind, Kind::Detached) && finished.status.code() == Some(0) {
            return self.ground.xioflow().args(["attach", self.id]).finish();
        }
        finished
    }

    fn command(&self) -> Run<'a> {
        let mut run = self.ground.xioflow().args(["run", "--op", self.id]);
        run = match self.kind {
            Kind::Deaf => run.args(["--timeout", "300ms", "--grace", "100ms"]),
            Kind::Detached => run.arg("--detach"),
            _ => run.args(["--grace", "500ms"]),
        };
        if let Some(lease) = self.lease {
            run = run.args(["--lease", lease, "--wait", "60s"]);
        }
        let ledger = self.ground.ledger();
        let effect = format!("echo {} >>{}", self.id, text(&ledger));
        run.args(["--", "/bin/sh", "-c", &format!("{effect}; {}", self.rest())])
    }

    /// What it does after its effect.
    fn rest(&self) -> &'static str {
        match self.kind {
            Kind::Quick => ":",
            Kind::Slow | Kind::Detached => "sleep 0.2",
            Kind::Flood => "seq 1 40000",
            Kind::Escape => "setsid sleep 0.4 & setsid sh -c 'sleep 5 & sleep 5' &",
            Kind::Deaf => "trap '' TERM INT; sleep 5; sleep 5",
            Kind::Cancelled => "sleep 3",
            Kind::Fails => "exit 3",
        }
    }
}

/// A program of ours may fail, but not so.
pub(crate) fn no_panic(finished: &Finished) {
    let complaint = String::from_utf8_lossy(&finished.stderr);
    assert!(!complaint.contains("panicked at"), "{finished}");
    use std::os::unix::process::ExitStatusExt;
    let signal = finished.status.signal();
    let usual = [None, Some(Signal::KILL.as_raw())];
    assert!(usual.contains(&signal), "{finished}");
}
