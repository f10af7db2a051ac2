//! The folder of one case: the domain, and what the processes of the case tell each other by files.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use xioflow_kit::{Deadline, wait};

/// Where one case takes place.
#[derive(Debug, Clone)]
pub(crate) struct Folder {
    path: PathBuf,
    programs: PathBuf,
}

impl Folder {
    /// The folder at `path`, for processes that find the programs in `programs`.
    pub(crate) fn new(path: PathBuf, programs: PathBuf) -> Self {
        Self { path, programs }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn programs(&self) -> &Path {
        &self.programs
    }

    pub(crate) fn domain(&self) -> PathBuf {
        self.path.join("domain")
    }

    pub(crate) fn fixture(&self) -> PathBuf {
        self.programs.join("xioflow-fixture")
    }

    /// The helper's program: the real one, unless the case has put another in its place.
    pub(crate) fn helper(&self) -> PathBuf {
        let stand_in = self.path.join(crate::traced::STAND_IN);
        match stand_in.exists() {
            true => stand_in,
            false => self.programs.join("xioflow-reaper"),
        }
    }

    /// Where every command leaves a line before it does anything else.
    pub(crate) fn effects(&self) -> PathBuf {
        self.path.join("effects")
    }

    /// How often a command has run.
    pub(crate) fn effects_of(&self, id: &str) -> usize {
        let effects = fs::read_to_string(self.effects()).unwrap_or_default();
        effects.lines().filter(|line| *line == id).count()
    }

    /// Once this file is there, commands that would stay end at once.
    pub(crate) fn over(&self) -> PathBuf {
        self.path.join("over")
    }

    /// Where the processes of a case say what they were told.
    pub(crate) fn told(&self) -> PathBuf {
        self.path.join("told")
    }

    pub(crate) fn trace(&self) -> PathBuf {
        self.path.join("trace")
    }

    /// Decisions of a recovery, as JSON.
    pub(crate) fn decisions(&self) -> PathBuf {
        self.path.join("decisions")
    }

    /// Answers to submissions after the crash, as JSON.
    pub(crate) fn answers(&self) -> PathBuf {
        self.path.join("answers")
    }

    /// Notes a fact that somebody was told.
    pub(crate) fn tell(&self, fact: &str) {
        let open = File::options()
            .append(true)
            .create(true)
            .open(self.told())
            .expect("a file of the case");
        // One write for one line: several processes tell at the same time.
        (&open)
            .write_all(format!("{fact}\n").as_bytes())
            .expect("room for a line");
    }

    /// Waits until a command has shown by its effect that it runs, or its submission has ended; whether
    /// it runs.
    pub(crate) fn await_effect(&self, id: &str) -> bool {
        let ended = self.ended(id);
        wait::in_folder(&self.path, Deadline::usual(), || {
            (self.effects_of(id) > 0 || ended.exists()).then_some(())
        })
        .unwrap_or_else(|| panic!("{id} neither ran nor ended"));
        !ended.exists()
    }

    /// There once a submission has ended, however.
    pub(crate) fn ended(&self, id: &str) -> PathBuf {
        self.path.join(format!("ended-{id}"))
    }
}
