//! `kernel.*`: the arbiter itself. The shapes of the greeting and of the end never change.

use serde::{Deserialize, Serialize};

/// `kernel.hello`, the first request of every connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Hello {
    /// The protocol that the client speaks ([`crate::PROTOCOL_VERSION`]).
    pub protocol: u32,
    /// Release of the client, such as `0.1.0`.
    pub release: String,
    /// What the client calls itself, for people.
    #[serde(default)]
    pub client: String,
}

/// The answer to [`Hello`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Welcome {
    /// The protocol that the arbiter speaks.
    pub protocol: u32,
    /// Release of the arbiter.
    pub release: String,
    /// Its process id.
    pub pid: u32,
    /// Since when it serves, RFC 3339.
    pub started_at: String,
}

/// `kernel.shutdown`: ends the arbiter in order. Nothing new is taken from then on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Shutdown {
    /// What becomes of operations that run.
    pub running: Running,
    /// With [`Running::Stop`], how long each may take to end by itself, in milliseconds; 2000 by default.
    #[serde(default)]
    pub grace_ms: Option<u64>,
}

/// What becomes of operations that run when the arbiter is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Running {
    /// If there is one, the arbiter does not end: the request is refused.
    Refuse,
    /// They are waited for.
    Wait,
    /// They are stopped.
    Stop,
}

/// The answer to [`Shutdown`]. The connection ends when the arbiter does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ShutdownBegun {
    /// How many operations are waited for or stopped.
    pub operations: u64,
}
