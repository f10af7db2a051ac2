//! The outermost shape of a message (JSON-RPC 2.0). Batches are not spoken: whoever has several
//! requests writes several lines.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::refusal::Fault;

/// The constant `"2.0"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Version {
    /// The only version.
    #[default]
    #[serde(rename = "2.0")]
    V2,
}

/// What a client calls its request. It is unique among the requests of a connection that are not over.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Id {
    /// A number.
    Number(i64),
    /// A text of at most 128 bytes.
    Text(String),
}

/// From a client. Without an id it is a notification, which the arbiter refuses: every method of the
/// arbiter has an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request<P = Value> {
    /// `"2.0"`.
    pub jsonrpc: Version,
    /// Its name, given back in the answer.
    pub id: Id,
    /// The method, one of [`crate::method::Method`].
    pub method: String,
    /// What the method is about; an object.
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    pub params: Option<P>,
}

/// From the arbiter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Message<R = Value> {
    /// The answer to a request that was carried out.
    Answer {
        /// `"2.0"`.
        jsonrpc: Version,
        /// The request.
        id: Id,
        /// What the method gives.
        result: R,
    },
    /// The answer to one that was not.
    Refusal {
        /// `"2.0"`.
        jsonrpc: Version,
        /// The request; null if it could not be read.
        id: Option<Id>,
        /// Why.
        error: Fault,
    },
    /// News, without a request of its own.
    Notice {
        /// `"2.0"`.
        jsonrpc: Version,
        /// What it is, one of [`crate::method::Notice`].
        method: String,
        /// The news.
        params: R,
    },
}
