//! Trees that are put together by chance and ended in every way: nobody survives, no stranger is signalled, and what
//! is said of the root is what it did.

use rustix::process::Signal;
use serde_json::{Value, json};
use xioflow_kit::{Chance, Stage, running_as_root};
use xioflow_protocol::Exit;

use crate::commanded::Commanded;
use crate::strangers::Strangers;
use crate::{alone, number};

/// How many rounds there are, without [`ROUNDS_VARIABLE`]; every other one is an ordinary user's.
const ROUNDS: u64 = 50;
/// Has more of them, or fewer.
const ROUNDS_VARIABLE: &str = "XIOFLOW_TEST_ROUNDS";
/// How many rounds the same strangers live through.
const SHIFT: u64 = 10;

/// Parts with the most of each, and how many processes one of it is.
const STEADY: [(&str, u64, u64); 16] = [
    ("flat", 80, 1),
    ("chain", 20, 1),
    ("sessions", 20, 1),
    ("daemons", 20, 1),
    ("mixed", 60, 1),
    ("deaf", 10, 1),
    ("stopped", 10, 1),
    ("traced", 5, 2),
    ("suspended", 5, 2),
    ("zombies", 5, 1),
    ("siblings", 10, 1),
    ("silent", 5, 2),
    ("signalling", 5, 2),
    ("subreapers", 5, 3),
    ("groups", 5, 3),
    ("threads", 5, 1),
];
/// Parts whose number changes: the most of each.
const RESTLESS: [(&str, u64); 6] = [
    ("wanderers", 4),
    ("nurseries", 4),
    ("hydras", 2),
    ("escaping-hydras", 2),
    ("bomb", 200),
    ("escaping-bomb", 200),
];

/// Why a tree ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Natural,
    Cancelled,
    TimedOut,
    SupervisorKilled,
}

#[derive(Debug)]
struct Round {
    parts: Vec<String>,
    /// How many processes it has beside the root.
    members: u64,
    /// Whether it has that many all the time.
    steady: bool,
    end: End,
    exit: u8,
    grace: &'static str,
}

impl Round {
    fn of(chance: &mut Chance) -> Self {
        let (mut parts, mut members) = (Vec::new(), 0);
        for (name, most, each) in chance.pick(&STEADY, 4) {
            let count = 1 + chance.below(most);
            members += count * each;
            parts.extend([name.to_owned(), count.to_string()]);
        }
        let steady = chance.flip();
        if !steady {
            let (name, most) = chance.pick(&RESTLESS, 1)[0];
            parts.extend([name.to_owned(), (1 + chance.below(most)).to_string()]);
        }
        let ends = [
            (3, End::Natural),
            (3, End::Cancelled),
            (2, End::TimedOut),
            (2, End::SupervisorKilled),
        ];
        Self {
            parts,
            members,
            steady,
            end: chance.one_of(&ends),
            exit: u8::try_from(chance.below(99)).expect("small"),
            grace: chance.one_of(&[(1, "0s"), (1, "50ms"), (1, "200ms")]),
        }
    }

    fn play(&self, stage: &Stage, id: &str) {
        let exit = self.exit.to_string();
        let exit: &[&str] = match self.end {
            End::Natural => &["--exit", &exit],
            End::Cancelled | End::TimedOut | End::SupervisorKilled => &[],
        };
        let timeout: &[&str] = match self.end {
            End::TimedOut => &["--timeout", "400ms"],
            End::Natural | End::Cancelled | End::SupervisorKilled => &[],
        };
        let parts: Vec<_> = self.parts.iter().map(String::as_str).collect();
        let options = [&["--no-arbiter", "--grace", self.grace], timeout].concat();
        let words = [exit, &["shapes"], &parts].concat();
        let run = Commanded::start(stage, id, &options, &words);
        if matches!(self.end, End::Cancelled | End::SupervisorKilled) {
            run.stand();
        }
        if self.end == End::SupervisorKilled {
            let (word, living) = run.kill();
            assert!(living.is_empty(), "{id}: {self:?}: {living:?}");
            assert!(word.empty && word.stopped, "{id}: {self:?}: {word:?}");
            let signal = |it| matches!(it, Some(Exit::Signaled { signal: 9 | 15, .. }));
            assert!(signal(word.end.exit), "{id}: {self:?}: {word:?}");
            return;
        }
        if self.end == End::Cancelled {
            run.signal(Signal::TERM);
        }
        let (finished, living) = run.finish();
        let told = finished.json();
        assert!(living.is_empty(), "{id}: {self:?}: {living:?}");
        self.judge(&told);
    }

    /// What is said of the root, and of how many there were.
    fn judge(&self, told: &Value) {
        let status = match (self.end, self.exit) {
            (End::Cancelled, _) => "cancelled",
            (End::Natural, 0) => "succeeded",
            (End::Natural | End::TimedOut | End::SupervisorKilled, _) => "failed",
        };
        assert_eq!(told["status"], status, "{self:?}: {told:#}");
        assert_eq!(told["residualPids"], json!([]), "{self:?}: {told:#}");
        if self.end == End::Natural {
            assert_eq!(told["exitCode"], self.exit, "{self:?}: {told:#}");
            let total = told["survivorsTotal"].as_u64().expect("a number");
            let right = match self.steady {
                true => total == self.members,
                false => total > self.members,
            };
            assert!(right, "{self:?}: {total} counted: {told:#}");
        } else {
            let signal = told["signal"].as_str();
            let asked = self.grace != "0s" && signal == Some("SIGTERM");
            let killed = self.grace == "0s" && matches!(signal, Some("SIGTERM" | "SIGKILL"));
            assert!(asked || killed, "{self:?}: {told:#}");
            assert_eq!(told["exitCode"], Value::Null, "{self:?}: {told:#}");
        }
    }
}

#[test]
fn whatever_chance_puts_together_is_ended() {
    let _one = alone();
    let mut chance = Chance::new();
    let rounds = number(ROUNDS_VARIABLE, ROUNDS);
    for shift in 0..rounds.div_ceil(SHIFT) {
        let ordinary = shift % 2 == 1 && running_as_root();
        let stage = match ordinary {
            true => Stage::ordinary(),
            false => Stage::new(),
        };
        let mut strangers = Strangers::of(&stage);
        for at in shift * SHIFT..rounds.min((shift + 1) * SHIFT) {
            let round = Round::of(&mut chance);
            eprintln!("{at}: {round:?}");
            strangers.add_neighbour();
            round.play(&stage, &format!("round-{at}"));
        }
        strangers.assert_left_alone();
    }
}
