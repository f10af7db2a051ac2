//! Whoever kills: arbiters, helpers, clients and commands, one or several at once, or stops them for a while;
//! and fills the disk.

use std::fmt;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use xioflow_kit::Chance;

use crate::ground::Ground;
use crate::victims::{self, Victim};
use crate::worker::no_panic;

/// The longest quiet between two acts.
const QUIET: Duration = Duration::from_millis(600);
/// The longest that somebody is stopped, or the disk full.
const HELD: Duration = Duration::from_millis(1500);
/// What a pruning leaves of stored output, so that a long soak does not fill its disk by itself.
const STORED_MAX: &str = "32MiB";

#[derive(Debug, Clone, Copy)]
enum Act {
    KillArbiter,
    KillHelper,
    KillClient,
    KillCommand,
    /// Nobody is left who holds the tree.
    KillArbiterAndHelpers,
    HoldArbiter,
    HoldHelper,
    HoldClient,
    FillDisk,
    Prune,
}

const ACTS: &[(u64, Act)] = &[
    (24, Act::KillArbiter),
    (20, Act::KillHelper),
    (20, Act::KillClient),
    (6, Act::KillCommand),
    (4, Act::KillArbiterAndHelpers),
    (5, Act::HoldArbiter),
    (5, Act::HoldHelper),
    (5, Act::HoldClient),
    (5, Act::FillDisk),
    (6, Act::Prune),
];

/// What was done to them.
#[derive(Debug, Default)]
pub(crate) struct Harm {
    arbiters: u32,
    helpers: u32,
    clients: u32,
    commands: u32,
    held: u32,
    full: u32,
    pruned: u32,
}

impl Harm {
    /// How many were killed in all.
    pub(crate) fn kills(&self) -> u32 {
        self.arbiters + self.helpers + self.clients + self.commands
    }
}

impl fmt::Display for Harm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} killed ({} arbiters, {} helpers, {} clients, {} commands), {} stopped for a while, {} times \
             a full disk, {} times pruned",
            self.kills(),
            self.arbiters,
            self.helpers,
            self.clients,
            self.commands,
            self.held,
            self.full,
            self.pruned
        )
    }
}

/// Does harm for so long.
pub(crate) fn reign(ground: &Ground<'_>, lasts: Duration, dice: &mut Chance) -> Harm {
    let mut harm = Harm::default();
    let begun = Instant::now();
    while begun.elapsed() < lasts {
        ground.pause(dice.within(QUIET));
        act(ground, dice, &mut harm);
    }
    assert!(harm.kills() > 0, "nobody was hit: {harm}");
    harm
}

fn act(ground: &Ground<'_>, dice: &mut Chance, harm: &mut Harm) {
    match dice.one_of(ACTS) {
        Act::KillArbiter => harm.arbiters += kill(victims::arbiter(ground)),
        Act::KillHelper => harm.helpers += kill(one(victims::helpers(ground), dice)),
        Act::KillClient => harm.clients += kill(one(victims::clients(ground), dice)),
        Act::KillCommand => harm.commands += kill(one(victims::commands(ground), dice)),
        Act::KillArbiterAndHelpers => {
            // The arbiter is stopped first, so that it does not see its helpers go.
            let arbiter = victims::arbiter(ground);
            if let Some(arbiter) = &arbiter {
                arbiter.signal(Signal::STOP);
            }
            harm.helpers += kill(victims::helpers(ground));
            harm.arbiters += kill(arbiter);
        }
        Act::HoldArbiter => harm.held += hold(ground, victims::arbiter(ground), dice),
        Act::HoldHelper => harm.held += hold(ground, one(victims::helpers(ground), dice), dice),
        Act::HoldClient => harm.held += hold(ground, one(victims::clients(ground), dice), dice),
        Act::FillDisk => harm.full += fill(ground, dice),
        Act::Prune => harm.pruned += prune(ground),
    }
}

fn one(mut several: Vec<Victim>, dice: &mut Chance) -> Option<Victim> {
    let len = u64::try_from(several.len()).expect("a few");
    let at = usize::try_from(dice.below(len.max(1))).expect("one of a few");
    (at < several.len()).then(|| several.swap_remove(at))
}

fn kill(victims: impl IntoIterator<Item = Victim>) -> u32 {
    let hit = victims.into_iter().filter(|it| it.signal(Signal::KILL));
    u32::try_from(hit.count()).expect("a few")
}

/// Stops one, and has it go on some time later.
fn hold(ground: &Ground<'_>, victim: Option<Victim>, dice: &mut Chance) -> u32 {
    let Some(victim) = victim.filter(|it| it.signal(Signal::STOP)) else {
        return 0;
    };
    ground.pause(dice.within(HELD));
    victim.signal(Signal::CONT);
    1
}

fn fill(ground: &Ground<'_>, dice: &mut Chance) -> u32 {
    let Some(disk) = &ground.disk else { return 0 };
    disk.fill();
    ground.pause(dice.within(HELD));
    disk.relieve();
    1
}

fn prune(ground: &Ground<'_>) -> u32 {
    let pruned = ground
        .xioflow()
        .args(["prune", "--max-bytes", STORED_MAX])
        .finish();
    no_panic(&pruned);
    u32::from(pruned.status.success())
}
