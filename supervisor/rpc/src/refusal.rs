//! Why a request was not carried out.

use std::error::Error;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Constants, and a list of them with what they mean.
macro_rules! named {
    ($type:ty; $($(#[doc = $doc:literal])+ $name:ident = $value:literal;)*) => {
        $($(#[doc = $doc])+ pub const $name: $type = $value;)*

        /// All of them, each with what it means.
        pub const ALL: &[($type, &str)] = &[$(($name, concat!($($doc),+)),)*];
    };
}

/// The error object of JSON-RPC.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Fault {
    /// One of the numbers in [`code`].
    pub code: i32,
    /// What happened, to what, as a sentence.
    pub message: String,
    /// More of it, for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Box<Data>>,
}

impl Fault {
    /// A fault with one of the numbers in [`code`] and nothing more to say.
    #[must_use]
    pub fn new(code: i32, message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            code,
            message,
            data: None,
        }
    }

    /// A request that was understood and is refused for the reason `kind`, one of [`kind`].
    #[must_use]
    pub fn refused(kind: &str, message: impl Into<String>) -> Self {
        Self {
            data: Some(Box::new(Data::new(kind))),
            ..Self::new(code::REFUSED, message)
        }
    }

    /// Adds what led to it, the nearest cause first.
    #[must_use]
    pub fn causes(mut self, causes: impl IntoIterator<Item = String>) -> Self {
        self.data_mut().causes.extend(causes);
        self
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.data_mut().hint = Some(hint.into());
        self
    }

    /// Adds what it is about.
    #[must_use]
    pub fn about(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.data_mut().subject.insert(key.into(), value.into());
        self
    }

    /// What kind of refusal it is, where it says one.
    #[must_use]
    pub fn kind(&self) -> Option<&str> {
        self.data.as_ref().map(|data| data.kind.as_str())
    }

    /// What it is about, under this key.
    #[must_use]
    pub fn subject(&self, key: &str) -> Option<&Value> {
        self.data.as_ref()?.subject.get(key)
    }

    fn data_mut(&mut self) -> &mut Data {
        let kind = match self.code {
            code::INTERNAL => kind::INTERNAL,
            _ => kind::INVALID,
        };
        self.data.get_or_insert_with(|| Box::new(Data::new(kind)))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for Fault {}

/// Numbers of [`Fault::code`]: those of JSON-RPC 2.0, and one of ours.
pub mod code {
    named! { i32;
        /// The line is no JSON.
        PARSE = -32700;
        /// The JSON is no request, or one that may not be made now.
        INVALID_REQUEST = -32600;
        /// There is no such method.
        METHOD_NOT_FOUND = -32601;
        /// The parameters are not those of the method.
        INVALID_PARAMS = -32602;
        /// The arbiter broke a rule of its own.
        INTERNAL = -32603;
        /// The request was understood and refused; [`super::Data::kind`] says why.
        REFUSED = -32000;
    }
}

/// What a program can act on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Data {
    /// What kind of refusal it is, one of [`kind`]. A client treats one that it does not know as
    /// `internal`.
    pub kind: String,
    /// What led to it, the nearest cause first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<String>,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// What it is about: which operation, which resource, which limit.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub subject: Map<String, Value>,
}

impl Data {
    /// Only a kind, one of [`kind`].
    #[must_use]
    pub fn new(kind: &str) -> Self {
        Self {
            kind: kind.into(),
            causes: Vec::new(),
            hint: None,
            subject: Map::new(),
        }
    }
}

/// Names of [`Data::kind`].
pub mod kind {
    named! { &str;
        /// The first request was not `kernel.hello`, or a later one was.
        NOT_GREETED = "not_greeted";
        /// The two releases cannot speak to each other. Subject: `protocol`, `release`, `operations`.
        VERSION = "version";
        /// The client has another user, group, namespace or confinement than the arbiter, which would lend
        /// it its own. Subject: `differs`.
        STANDING = "standing";
        /// A bound of the arbiter was hit. Subject: `limit`, `max`.
        LIMIT = "limit";
        /// The arbiter ends. Another one can be started when it is gone.
        SHUTTING_DOWN = "shutting_down";
        /// The arbiter was to end only if nothing runs. Subject: `operations`.
        RUNNING = "running";
        /// A value of the request cannot be what it says it is. Subject: `lease`, if it is one.
        INVALID = "invalid";
        /// There is no such operation. Subject: `operationId`.
        NOT_FOUND = "not_found";
        /// The operation has ended. Subject: `operationId`.
        ALREADY_COMPLETED = "already_completed";
        /// The operation waits for resources or is being started, so nothing of it runs yet. Subject: `operationId`.
        NOT_BEGUN = "not_begun";
        /// The operation is being stopped, or what outlives its command is. Subject: `operationId`.
        ENDING = "ending";
        /// The operation could not be paused, or that could not be recorded, and it goes on. Subject: `operationId`.
        NOT_PAUSED = "not_paused";
        /// Only whoever started the operation can do that. Subject: `operationId`.
        JOINED = "joined";
        /// The id is taken. Subject: `operationId`, `existingFingerprint`, `requestedFingerprint`,
        /// `status`, `runId`.
        OPERATION_ID_CONFLICT = "operation_id_conflict";
        /// A resource is held. Subject: `resource`, `holder`, `requestedBy`, `waitedMs`; of an amount of the domain's
        /// budget also `others` who have some of it, `askedBytes`, `freeBytes`, `maxBytes`.
        RESOURCE_CONFLICT = "resource_conflict";
        /// An operation asks for more than the domain gives all of them together. Nothing ran. Subject: `resource`,
        /// `askedBytes`, `freeBytes`, `maxBytes`.
        BUDGET_EXCEEDED = "budget_exceeded";
        /// The domain has a budget of memory, and the operation no limit that is seen to. Nothing ran. Subject: `maxBytes`.
        MEMORY_UNLIMITED = "memory_unlimited";
        /// Nobody runs the unfinished operation. Subject: `operationId`, `status`, `runId`.
        RECOVERY_REQUIRED = "recovery_required";
        /// The submission no longer waits for the operation of another. Subject: `operationId`.
        JOIN_ABANDONED = "join_abandoned";
        /// The domain takes nothing any more.
        DOMAIN_CLOSED = "domain_closed";
        /// The Run takes nothing any more, or does not exist. Subject: `runId`, `problem`.
        RUN_CLOSED = "run_closed";
        /// The Run has an operation without a result. Subject: `runId`, `operationId`, `status`.
        RUN_UNFINISHED = "run_unfinished";
        /// The Run has ended in another way. Subject: `runId`, `status`.
        RUN_ENDED = "run_ended";
        /// There is no such Run. Subject: `runId`.
        RUN_NOT_FOUND = "run_not_found";
        /// No helper could hold the command.
        HELPER_FAILED = "helper_failed";
        /// This host refuses what the command is to be held in; nothing is recorded. Subject: `driver`, `call` (which
        /// call or file was refused), `errno`.
        DRIVER_REFUSED = "driver_refused";
        /// This host cannot enforce a limit as it was asked for; nothing ran. Subject: `limit`, `why`, `remedy`.
        LIMITS_REFUSED = "limits_refused";
        /// No control group can be had that the operation must be held in; nothing is recorded. It is the arbiter's group
        /// that counts. Subject: `problem`, and `remedy` where there is one.
        GROUP_REFUSED = "group_refused";
        /// The system refused something. Subject: `errno` where there is one.
        SYSTEM = "system";
        /// The arbiter has lost the domain to another owner, or its lock file was replaced. It ends.
        FENCED = "fenced";
        /// The journal refused a commit.
        JOURNAL_FAILED = "journal_failed";
        /// Another program keeps the database of the journal locked. Nothing ran.
        JOURNAL_BUSY = "journal_busy";
        /// The journal could not be read.
        JOURNAL_UNREADABLE = "journal_unreadable";
        /// Stored output could not be read. Subject: `operationId`.
        OUTPUT_UNREADABLE = "output_unreadable";
        /// Stored output was removed to make room; its record stays. Subject: `operationId`, `stream`,
        /// `prunedAt`, `reason`.
        OUTPUT_PRUNED = "output_pruned";
        /// A file of stored output could not be removed. Subject: `path`.
        NOT_REMOVED = "not_removed";
        /// The end of the operation is known or still to come, so there is nothing to decide. Subject: `operationId`,
        /// `status`, `outcome`.
        NOT_INDETERMINATE = "not_indeterminate";
        /// Somebody has decided about the operation before. Subject: `operationId`, `adjudication`.
        ALREADY_ADJUDICATED = "already_adjudicated";
        /// Something of the operation lives, or may not be looked at. Subject: `operationId`, and `processes`, each with
        /// `pid` and `command`.
        STILL_ALIVE = "still_alive";
        /// Whether something of the operation lives cannot be seen. Subject: `operationId`, `why`.
        CANNOT_TELL = "cannot_tell";
        /// The operation ended and its result could not be recorded. Subject: `result`.
        NOT_RECORDED = "not_recorded";
        /// The arbiter broke a rule of its own.
        INTERNAL = "internal";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_kinds_and_no_two_codes_are_the_same() {
        let kinds: std::collections::BTreeSet<_> = kind::ALL.iter().map(|(kind, _)| kind).collect();
        assert_eq!(kinds.len(), kind::ALL.len());
        let codes: std::collections::BTreeSet<_> = code::ALL.iter().map(|(code, _)| code).collect();
        assert_eq!(codes.len(), code::ALL.len());
    }
}
