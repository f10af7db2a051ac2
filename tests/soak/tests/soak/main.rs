//! Many clients of one domain work while arbiters, helpers, clients and commands are killed or stopped at
//! random, and the disk is full now and then. At the end everything is on record, and nothing else is left.
//!
//! `worker` is one client, `chaos` whoever kills, `settler` the person who settles what cannot be proven,
//! `verdict` what has to hold at the end. All of them have their dice from one seed, which is printed.

#![expect(
    clippy::print_stderr,
    reason = "seeds and figures are for whoever looks into a test"
)]

mod chaos;
mod disk;
mod ground;
mod settler;
mod verdict;
mod victims;
mod worker;

use std::thread;
use std::time::Duration;

use xioflow_kit::{Chance, Stage, running_as_root};

use ground::Ground;

/// How long it goes on for each user, in seconds, without [`SECONDS_VARIABLE`].
const SECONDS: u64 = 40;
/// Has it go on longer.
const SECONDS_VARIABLE: &str = "XIOFLOW_TEST_SECONDS";
/// Clients at work for each user, without [`CLIENTS_VARIABLE`].
const CLIENTS: u64 = 6;
/// Has more of them, or fewer.
const CLIENTS_VARIABLE: &str = "XIOFLOW_TEST_CLIENTS";

/// Both users at once, since each waits most of the time.
#[test]
fn nothing_is_lost_whatever_is_killed() {
    let seed = Chance::seed();
    thread::scope(|scope| {
        let privileged = scope.spawn(|| soak(&Stage::new(), Chance::of(seed)));
        if running_as_root() {
            soak(&Stage::ordinary(), Chance::of(seed ^ 1));
        }
        privileged.join().expect("the other user's part has held");
    });
}

fn soak(stage: &Stage, mut chance: Chance) {
    let lasts = Duration::from_secs(number(SECONDS_VARIABLE, SECONDS));
    let clients = number(CLIENTS_VARIABLE, CLIENTS);
    let ground = Ground::new(stage, usize::try_from(clients).expect("a few"));
    let (told, harm, settled) = thread::scope(|scope| {
        let workers: Vec<_> = (0..clients)
            .map(|index| {
                let (ground, dice) = (&ground, chance.another());
                scope.spawn(move || {
                    worker::work(ground, usize::try_from(index).expect("a few"), dice)
                })
            })
            .collect();
        let settler = scope.spawn(|| settler::settle_meanwhile(&ground));
        let harm = chaos::reign(&ground, lasts, &mut chance);
        ground.stop();
        let told: Vec<_> = workers
            .into_iter()
            .flat_map(|it| it.join().expect("a client's part has held"))
            .collect();
        let settled = settler.join().expect("whoever settles has held");
        (told, harm, settled)
    });
    let settled = settled + settler::settle_at_the_end(&ground);
    let figures = verdict::examine(&ground, &told);
    eprintln!(
        "soak as {}: {figures}; {harm}; {settled} settled by a person",
        if stage.is_privileged() {
            "root"
        } else {
            "an ordinary user"
        }
    );
}

/// A number from the environment, for runs beyond what a suite has time for.
fn number(variable: &str, usual: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{variable}: {text} is no number")),
        Err(_) => usual,
    }
}
