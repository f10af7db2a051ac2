//! One unfinished operation: what is recorded of it, what is found, and what that comes to.

use std::path::{Path, PathBuf};

use serde_json::Value;
use xioflow_journal::{
    Inherited, Operation, OperationStatus, Owner, Query, STOP_ACTION_BEGUN, TerminationReason,
};

use super::decide::{Conclusion, Ruling, decide};
use super::facts::{Attempt, Init, Known, Leaf, Liveness, Observed, Provenance, Recorded, Word};
use super::group;
use super::stop::Stopped;
use super::word::{self, Found, Parties};
use crate::error::ExecuteError;
use crate::observe;
use crate::operation::{last_word_name, stop_action_stem};
use crate::output::artifact_stem;
use crate::result::ProcessIdentity;
use crate::stop_action::Declared;

/// The owner that left it.
#[derive(Debug, Clone)]
pub(super) struct Origin {
    /// It has not given the domain back.
    pub(super) died: bool,
    /// The name of its machine, if that is not the name of this one.
    pub(super) other_host: Option<String>,
    /// What it may not have left at all: this file is a copy.
    inherited: Inherited,
}

impl Origin {
    pub(super) fn of(before: Option<&Owner>, journal: &impl Query) -> Result<Self, ExecuteError> {
        let here = rustix::system::uname();
        let here = here.nodename().to_string_lossy();
        let host = before.map(|owner| &owner.hostname);
        Ok(Self {
            died: before.is_some_and(|owner| owner.released_at_ms.is_none()),
            other_host: host.filter(|host| ***host != *here).cloned(),
            inherited: journal.inherited()?,
        })
    }

    fn provenance(&self, operation_id: &str) -> Provenance {
        if self.inherited.copied.contains(operation_id) {
            Provenance::Copied
        } else if self.inherited.renumbered.contains(operation_id) {
            Provenance::Renumbered
        } else if self.other_host.is_some() {
            Provenance::OtherMachine
        } else {
            Provenance::Here
        }
    }
}

/// An operation without a result.
#[derive(Debug)]
pub(super) struct Unfinished {
    pub(super) operation: Operation,
    pub(super) holder: Option<ProcessIdentity>,
    pub(super) root: Option<ProcessIdentity>,
    pub(super) recorded: Recorded,
    pub(super) word: Found,
    pub(super) observed: Observed,
    pub(super) stopped: Stopped,
    /// Whether all in its control group were ended, as far as that can be done.
    pub(super) leaf_was_ended: bool,
    /// Its stop action, judged like an operation, if that had a process.
    pub(super) action: Option<Box<Self>>,
    word_path: PathBuf,
}

impl Unfinished {
    pub(super) fn new(
        operation: Operation,
        journal: &impl Query,
        holders: &Path,
        origin: &Origin,
    ) -> Result<Self, ExecuteError> {
        let holder = legible(operation.holder.as_ref());
        let root = legible(operation.process_identity.as_ref());
        let recorded = Recorded {
            kind: operation.kind,
            status: operation.status,
            spawn_gated: operation.spawn_gated,
            root: root.known(),
            holder: holder.known(),
            stop: stop_wish(&operation, journal)?,
            provenance: origin.provenance(&operation.id),
        };
        let name = last_word_name(&artifact_stem(&operation.id));
        let mut unfinished = Self {
            holder: holder.get(),
            root: root.get(),
            recorded,
            word: Found::None,
            observed: Observed {
                word: Word::None,
                holder: Liveness::CannotTell,
                init: Init::Untold,
                leaf: Leaf::Untold,
                root: Liveness::CannotTell,
                waited: false,
                attempt: Attempt::NotTried,
            },
            stopped: Stopped::NOTHING,
            leaf_was_ended: false,
            action: None,
            word_path: holders.join(name),
            operation,
        };
        unfinished.look();
        Ok(unfinished)
    }

    /// What is left of its stop action, if that has begun: another tree, with a helper of its own.
    pub(super) fn begun_action(
        &self,
        journal: &impl Query,
        holders: &Path,
    ) -> Result<Option<Self>, ExecuteError> {
        if Declared::in_budget(self.operation.resource_budget.as_ref()).is_none() {
            return Ok(None);
        }
        let events = journal.events(0, Some(&self.operation.id), None)?;
        let Some(begun) = events.iter().find(|it| it.kind == STOP_ACTION_BEGUN) else {
            return Ok(None);
        };
        let party = |key| legible(begun.payload.get(key));
        let (root, holder) = (party("processIdentity"), party("holder"));
        let stem = stop_action_stem(&artifact_stem(&self.operation.id));
        let mut action = Self {
            recorded: Recorded {
                status: OperationStatus::Active,
                root: root.known(),
                holder: holder.known(),
                stop: None,
                ..self.recorded
            },
            holder: holder.get(),
            root: root.get(),
            word: Found::None,
            observed: Observed {
                word: Word::None,
                holder: Liveness::CannotTell,
                init: Init::Untold,
                leaf: Leaf::Untold,
                root: Liveness::CannotTell,
                waited: false,
                attempt: Attempt::NotTried,
            },
            stopped: Stopped::NOTHING,
            leaf_was_ended: false,
            action: None,
            word_path: holders.join(last_word_name(&stem)),
            operation: self.operation.clone(),
        };
        action.look();
        Ok(Some(action))
    }

    /// Looks at the helper, then at its last word, which it writes before it goes, then at the init of
    /// the tree's namespace, which dies after the helper, and at the tree's control group, then at the command, whose
    /// end all of these tell.
    pub(super) fn look(&mut self) {
        let liveness =
            |it: Option<&ProcessIdentity>| it.map_or(Liveness::CannotTell, observe::liveness);
        self.observed.holder = liveness(self.holder.as_ref());
        let parties = Parties {
            holder: self.holder.as_ref(),
            root: self.root.as_ref(),
        };
        self.word = word::read(&self.word_path, &self.operation.id, parties);
        self.observed.word = self.word.summary();
        self.observed.init = Init::of(liveness(self.init()));
        self.observed.leaf = self.look_at_leaf();
        self.observed.root = liveness(self.root.as_ref());
    }

    fn look_at_leaf(&self) -> Leaf {
        let seen = self.root.as_ref().map_or(Leaf::Untold, group::look_at);
        match seen {
            Leaf::Populated if self.leaf_was_ended => Leaf::Stuck,
            Leaf::Empty | Leaf::Removed if self.word.said().is_some_and(word::may_live_outside) => {
                Leaf::Untold
            }
            other => other,
        }
    }

    /// Whether the command is in its control group, and so ends with all in it.
    pub(super) fn is_root_in_leaf(&self) -> bool {
        let is_inside = |root: &ProcessIdentity| group::members(root).contains(&root.pid);
        self.root.as_ref().is_some_and(is_inside)
    }

    /// The init of the pid namespace that its tree was given for its own.
    pub(super) fn init(&self) -> Option<&ProcessIdentity> {
        let namespace = self.root.as_ref()?.pid_namespace.as_ref()?;
        Some(&namespace.init)
    }

    pub(super) fn ruling(&self) -> Ruling {
        decide(&self.recorded, &self.observed)
    }

    /// What follows when everything that could be done first was done.
    ///
    /// # Panics
    /// Before that.
    pub(super) fn conclusion(&self) -> Conclusion {
        match self.ruling() {
            Ruling::Conclude(concluded) => concluded,
            // The table comes to an end once both were done; a test walks all of it.
            ruling @ (Ruling::Wait | Ruling::Stop) => {
                panic!("{ruling:?} was not done for {}", self.operation.id)
            }
        }
    }

    /// What the decision rests on, as a sentence.
    pub(super) fn evidence(&self) -> String {
        let Observed { holder, root, .. } = self.observed;
        let say = |known, liveness: Liveness| match known {
            Known::Yes => liveness.to_string(),
            Known::No => "is not recorded".to_owned(),
            Known::Illegible => "is recorded in a form that cannot be read".to_owned(),
        };
        let what_was_done = match self.observed.attempt {
            Attempt::NotTried | Attempt::NothingFound => "",
            Attempt::Confirmed => "; recovery has ended all of it that could be identified",
            Attempt::Unconfirmed => "; recovery could not end all of it",
        };
        let init = match (self.init(), self.observed.init) {
            (None, _) => "",
            (Some(_), Init::Gone) => "; the init of its pid namespace is gone, and all in it",
            (Some(_), Init::Lives) => "; the init of its pid namespace has not ended",
            (Some(_), Init::Untold) => "; the init of its pid namespace cannot be looked at",
        };
        let leaf = self.evidence_of_leaf();
        let of_command = format!(
            "{}; the helper {}, the command {}{init}{leaf}{what_was_done}",
            self.word,
            say(self.recorded.holder, holder),
            say(self.recorded.root, root)
        );
        match &self.action {
            None => of_command,
            Some(action) => format!("{of_command}; of its stop action: {}", action.evidence()),
        }
    }
}

impl Unfinished {
    /// What was seen of its control group.
    fn evidence_of_leaf(&self) -> &'static str {
        let is_recorded = self.root.as_ref().and_then(group::place_of).is_some();
        match (is_recorded, self.observed.leaf) {
            (false, _) => "",
            (true, Leaf::Empty) if self.leaf_was_ended => {
                "; recovery has ended all that was in its control group, and nobody is left there"
            }
            (true, Leaf::Empty) => "; nobody is in its control group",
            (true, Leaf::Removed) => {
                "; its control group was removed, which is possible when nobody is in it"
            }
            (true, Leaf::Populated) => "; somebody is in its control group",
            (true, Leaf::Stuck) => "; recovery could not end all that is in its control group",
            (true, Leaf::Untold) => "; its control group tells nothing",
        }
    }
}

/// An identity as the record has it.
pub(crate) enum Legible {
    No,
    Illegible,
    Yes(Box<ProcessIdentity>),
}

impl Legible {
    fn known(&self) -> Known {
        match self {
            Self::No => Known::No,
            Self::Illegible => Known::Illegible,
            Self::Yes(_) => Known::Yes,
        }
    }

    pub(crate) fn get(self) -> Option<ProcessIdentity> {
        match self {
            Self::Yes(identity) => Some(*identity),
            Self::No | Self::Illegible => None,
        }
    }
}

pub(crate) fn legible(recorded: Option<&Value>) -> Legible {
    match recorded {
        None | Some(Value::Null) => Legible::No,
        // One that cannot be read is not one that is missing.
        Some(value) => {
            serde_json::from_value(value.clone()).map_or(Legible::Illegible, Legible::Yes)
        }
    }
}

/// Why an operation was to be stopped: the event says it, the row only that it was.
fn stop_wish(
    operation: &Operation,
    journal: &impl Query,
) -> Result<Option<TerminationReason>, ExecuteError> {
    if operation.status != OperationStatus::Stopping {
        return Ok(None);
    }
    let events = journal.events(0, Some(&operation.id), None)?;
    let reason = |event: &xioflow_journal::Event| {
        serde_json::from_value(event.payload.get("reason")?.clone()).ok()
    };
    let stopping = events.iter().filter(|event| {
        event
            .payload
            .get("status")
            .is_some_and(|it| it == "stopping")
    });
    Ok(stopping.filter_map(reason).next())
}
