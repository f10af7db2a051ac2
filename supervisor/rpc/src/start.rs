//! What an arbiter that was started for a client says once: that it listens, or why it does not. It
//! is one line on the pipe that its starter gave it; the socket is not there yet.

use serde::{Deserialize, Serialize};

/// Longest such line in bytes, its end included. A pipe takes as much without anybody reading.
pub const STARTED_MAX_BYTES: usize = 64 * 1024;

/// `{"ready":true}` or `{"error":{…}}`. A pipe that ends without it is of an arbiter that died.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Started {
    /// Always true: it listens.
    Ready(bool),
    /// It will not, and ends.
    Error(StartFault),
}

/// Why an arbiter does not serve.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{message}")]
#[serde(rename_all = "camelCase")]
pub struct StartFault {
    /// What kind of trouble it is, as in an error document of the command line.
    pub kind: String,
    /// What happened, to what, as a sentence.
    pub message: String,
    /// What led to it, the nearest cause first.
    #[serde(default)]
    pub causes: Vec<String>,
    /// What to do about it.
    #[serde(default)]
    pub hint: Option<String>,
    /// The exit status that a command of ours closes with for this reason.
    pub exit_code: u8,
}
