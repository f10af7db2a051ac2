//! The outermost shape of a message (JSON-RPC 2.0). Batches are not spoken: whoever has several
//! requests writes several lines.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::method::{Method, Notice};
use crate::refusal::Fault;

/// The constant `"2.0"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub enum Version {
    /// The only version.
    #[default]
    #[serde(rename = "2.0")]
    V2,
}

/// What a client calls its request. It is unique among the requests of a connection that are not over.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Id {
    /// A number.
    Number(i64),
    /// A text of at most 128 bytes ([`ID_MAX_BYTES`]).
    Text(String),
}

/// Longest text that can be an id, in bytes. It is kept for as long as the request is not over, and
/// repeated in each message about it.
pub const ID_MAX_BYTES: usize = 128;

impl Id {
    /// Whether it is as short as an id has to be.
    #[must_use]
    pub fn fits(&self) -> bool {
        match self {
            Self::Number(_) => true,
            Self::Text(text) => text.len() <= ID_MAX_BYTES,
        }
    }
}

impl From<i64> for Id {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for Id {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => write!(f, "{text:?}"),
        }
    }
}

/// From a client. Without an id it is a notification, which the arbiter refuses: every method of the
/// arbiter has an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[cfg_attr(any(test, feature = "schema"), schemars(rename = "Request"))]
#[serde(deny_unknown_fields)]
pub struct Request<P = Value> {
    /// `"2.0"`.
    pub jsonrpc: Version,
    /// Its name, given back in the answer.
    pub id: Id,
    /// The method, one of [`crate::method::Method`].
    pub method: String,
    /// What the method is about; an object.
    #[serde(
        default = "Option::<P>::default",
        skip_serializing_if = "Option::is_none"
    )]
    pub params: Option<P>,
}

impl<P> Request<P> {
    /// Asks `method` about `params`.
    #[must_use]
    pub fn new(id: impl Into<Id>, method: Method, params: P) -> Self {
        Self {
            jsonrpc: Version::V2,
            id: id.into(),
            method: method.name().into(),
            params: Some(params),
        }
    }
}

/// From the arbiter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[cfg_attr(any(test, feature = "schema"), schemars(rename = "Message"))]
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

impl<R> Message<R> {
    /// What a request that was carried out gives.
    #[must_use]
    pub fn answer(id: Id, result: R) -> Self {
        let jsonrpc = Version::V2;
        Self::Answer {
            jsonrpc,
            id,
            result,
        }
    }

    /// Why a request was not carried out. Without an id it is about a line whose id could not be read.
    #[must_use]
    pub fn refusal(id: Option<Id>, error: Fault) -> Self {
        let jsonrpc = Version::V2;
        Self::Refusal { jsonrpc, id, error }
    }

    /// News.
    #[must_use]
    pub fn notice(notice: Notice, params: R) -> Self {
        Self::Notice {
            jsonrpc: Version::V2,
            method: notice.name().into(),
            params,
        }
    }
}
