//! Why a request was not carried out.

use std::error::Error;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The error object of JSON-RPC.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    /// The line is no JSON.
    pub const PARSE: i32 = -32700;
    /// The JSON is no request, or one that may not be made now.
    pub const INVALID_REQUEST: i32 = -32600;
    /// There is no such method.
    pub const METHOD_NOT_FOUND: i32 = -32601;
    /// The parameters are not those of the method.
    pub const INVALID_PARAMS: i32 = -32602;
    /// The arbiter broke a rule of its own.
    pub const INTERNAL: i32 = -32603;
    /// The request was understood and refused; [`super::Data::kind`] says why.
    pub const REFUSED: i32 = -32000;
}

/// What a program can act on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Data {
    /// What kind of refusal it is; see [`kind`]. A client treats one that it does not know as
    /// [`kind::INTERNAL`].
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
    /// The first request was not `kernel.hello`, or a later one was.
    pub const NOT_GREETED: &str = "not_greeted";
    /// The two releases cannot speak to each other. Subject: `protocol`, `release`, `operations`.
    pub const VERSION: &str = "version";
    /// The client has another user, group, namespace or confinement than the arbiter, which would lend
    /// it its own. Subject: `differs`.
    pub const STANDING: &str = "standing";
    /// A bound of the arbiter was hit. Subject: `limit`, `max`.
    pub const LIMIT: &str = "limit";
    /// The arbiter ends. Another one can be started when it is gone.
    pub const SHUTTING_DOWN: &str = "shutting_down";
    /// The arbiter was to end only if nothing runs. Subject: `operations`.
    pub const RUNNING: &str = "running";
    /// A value of the request cannot be what it says it is.
    pub const INVALID: &str = "invalid";
    /// There is no such operation. Subject: `operationId`.
    pub const NOT_FOUND: &str = "not_found";
    /// The operation has ended. Subject: `operationId`.
    pub const ALREADY_COMPLETED: &str = "already_completed";
    /// Only whoever started the operation can do that. Subject: `operationId`.
    pub const JOINED: &str = "joined";
    /// The id is taken. Subject: `operationId`, `existingFingerprint`, `requestedFingerprint`,
    /// `status`, `runId`.
    pub const OPERATION_ID_CONFLICT: &str = "operation_id_conflict";
    /// A resource is held. Subject: `resource`, `holder`, `requestedBy`, `waitedMs`.
    pub const RESOURCE_CONFLICT: &str = "resource_conflict";
    /// Nobody runs the unfinished operation. Subject: `operationId`, `status`, `runId`.
    pub const RECOVERY_REQUIRED: &str = "recovery_required";
    /// The submission no longer waits for the operation of another. Subject: `operationId`.
    pub const JOIN_ABANDONED: &str = "join_abandoned";
    /// The domain takes nothing any more.
    pub const DOMAIN_CLOSED: &str = "domain_closed";
    /// The Run takes nothing any more, or does not exist. Subject: `runId`, `problem`.
    pub const RUN_CLOSED: &str = "run_closed";
    /// The Run has an operation without a result. Subject: `runId`, `operationId`, `status`.
    pub const RUN_UNFINISHED: &str = "run_unfinished";
    /// The Run has ended in another way. Subject: `runId`, `status`.
    pub const RUN_ENDED: &str = "run_ended";
    /// There is no such Run. Subject: `runId`.
    pub const RUN_NOT_FOUND: &str = "run_not_found";
    /// No helper could hold the command.
    pub const HELPER_FAILED: &str = "helper_failed";
    /// The system refused something. Subject: `errno` where there is one.
    pub const SYSTEM: &str = "system";
    /// The journal refused a commit.
    pub const JOURNAL_FAILED: &str = "journal_failed";
    /// The journal could not be read.
    pub const JOURNAL_UNREADABLE: &str = "journal_unreadable";
    /// Stored output could not be read. Subject: `operationId`.
    pub const OUTPUT_UNREADABLE: &str = "output_unreadable";
    /// The operation ended and its result could not be recorded. Subject: `result`.
    pub const NOT_RECORDED: &str = "not_recorded";
    /// The arbiter broke a rule of its own.
    pub const INTERNAL: &str = "internal";
}
