//! Processes that belong to nobody's tree: the same user's, in the neighbourhood, with a record of every signal.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use xioflow_kit::{Stage, wait};

/// Where one stands.
#[derive(Debug, Clone, Copy)]
enum Stand {
    /// In the session and the group of the tests.
    Beside,
    /// In a group of its own.
    Group,
    /// In a session of its own.
    Session,
}

/// One of them.
struct Stranger {
    process: Child,
    log: PathBuf,
}

/// All of them, on a stage of their own: what is looked for on the tree's does not find them.
pub(crate) struct Strangers {
    stage: Stage,
    all: Vec<Stranger>,
}

impl Strangers {
    /// Some that are there from the beginning, of the user who has the tree.
    pub(crate) fn of(tree: &Stage) -> Self {
        let stage = match tree.is_privileged() {
            true => Stage::new(),
            false => Stage::ordinary(),
        };
        let all = Vec::new();
        let mut strangers = Self { stage, all };
        for stand in [Stand::Beside, Stand::Group, Stand::Session] {
            strangers.add(stand);
        }
        strangers
    }

    /// One more in a session of its own, with the next number that there is.
    pub(crate) fn add_neighbour(&mut self) {
        self.add(Stand::Session);
    }

    fn add(&mut self, stand: Stand) {
        let name = |what: &str| self.stage.path(format!("{what}-{}", self.all.len()));
        let (ready, log) = (name("ready"), name("signals"));
        let mut command = match stand {
            Stand::Session => {
                let mut command = Command::new("/usr/bin/setsid");
                command.arg(self.stage.fixture());
                command
            }
            Stand::Beside | Stand::Group => Command::new(self.stage.fixture()),
        };
        command.args(["--ttl", "600", "--ready"]).arg(&ready);
        command.arg("record-signals").arg(&log);
        command.env_clear().envs(self.stage.environment());
        command.stdin(Stdio::null());
        if matches!(stand, Stand::Group) {
            command.process_group(0);
        }
        if let Some(id) = self.stage.user_id() {
            command.uid(id).gid(id);
        }
        let process = command.spawn().expect("the fixture starts");
        self.all.push(Stranger { process, log });
        self.stage.wait_ready(&ready);
    }

    /// The process id of one that leads a group of its own.
    pub(crate) fn group(&self) -> u32 {
        self.all[1].process.id()
    }

    /// Ends them, after a look at what has happened to them.
    pub(crate) fn assert_left_alone(mut self) {
        for stranger in &self.all {
            let state = wait::state(stranger.process.id());
            let well = matches!(state, Some('S' | 'R'));
            assert!(well, "a stranger is {state:?}");
            let signals = fs::read_to_string(&stranger.log).expect("its record");
            assert_eq!(signals, "", "a stranger got signals");
        }
        self.end();
    }

    fn end(&mut self) {
        for mut stranger in self.all.drain(..) {
            drop(stranger.process.kill());
            drop(stranger.process.wait());
        }
    }
}

impl Drop for Strangers {
    fn drop(&mut self) {
        self.end();
    }
}
