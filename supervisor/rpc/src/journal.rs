//! `journal.*` and the questions about recorded operations.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// `op.get`: one recorded operation, as `xioflow show --json` prints it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GetOperation {
    /// Its id.
    pub operation_id: String,
}

/// `op.list`: recorded operations, the newest first, as `xioflow list --json` prints them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ListOperations {
    /// At most so many, 1 to 1000; 20 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Only unfinished ones.
    #[serde(default)]
    pub unfinished: bool,
}

/// The answer to [`ListOperations`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Operations {
    /// Each as an object.
    pub operations: Vec<Value>,
}

/// `journal.read`: events in their order.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReadEvents {
    /// Only those after this position; 0 by default.
    #[serde(default)]
    pub after: i64,
    /// At most so many, 1 to 1000; 1000 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Only those of one operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation_id: Option<String>,
}

/// The answer to [`ReadEvents`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Events {
    /// Each as `xioflow events --json` prints it.
    pub events: Vec<Value>,
    /// The position after which to go on.
    pub after: i64,
}

/// `journal.subscribe`: events from a position on, each as the notice `journal.event`, until the connection
/// ends. One subscription a connection; it waits for a slow reader without holding anybody up.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Subscribe {
    /// Only those after this position; by default only those that come from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<i64>,
    /// Only those of one operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation_id: Option<String>,
}

/// The answer to [`Subscribe`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Subscribed {
    /// The position after which the events begin.
    pub after: i64,
}

/// The notice `journal.event`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct EventNotice {
    /// The event, as `xioflow events --json` prints it.
    pub event: Value,
}
