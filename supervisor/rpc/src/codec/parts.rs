//! An envelope taken apart, its values still text. `decode` judges what they make together.

use std::fmt;

use serde::de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::envelope::{ID_MAX_BYTES, Id, Version};
use crate::refusal::{Fault, code};

/// How much a fault says about a line, in bytes. What is wrong with it may be a value of many MiB.
pub(super) const MESSAGE_MAX_BYTES: usize = 1024;

/// The keys that an envelope can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Jsonrpc,
    Id,
    Method,
    Params,
    Result,
    Error,
}

const KEYS: [(&str, Key); 6] = [
    ("jsonrpc", Key::Jsonrpc),
    ("id", Key::Id),
    ("method", Key::Method),
    ("params", Key::Params),
    ("result", Key::Result),
    ("error", Key::Error),
];

/// An envelope taken apart, its values still text. What is wrong with its keys is noted and not an
/// error, so that the id is found whatever else there is.
#[derive(Default)]
pub(super) struct Parts<'a> {
    values: [Option<&'a RawValue>; KEYS.len()],
    unknown: Option<String>,
    twice: Option<&'static str>,
}

impl<'a> Parts<'a> {
    pub(super) fn of(line: &'a [u8]) -> Result<Self, Fault> {
        serde_json::from_slice(line).map_err(|error| {
            if error.is_data() {
                return invalid(error.to_string());
            }
            let message = format!("the line is no JSON: {error}");
            Fault::new(code::PARSE, shortened(message))
        })
    }

    /// Leaves keys that are not known out of account.
    pub(super) fn forgive_unknown(&mut self) {
        self.unknown = None;
    }

    pub(super) fn get(&self, key: Key) -> Option<&'a RawValue> {
        self.values[key as usize]
    }

    /// The value of `key` as a `T`, where it is there.
    pub(super) fn read<T: Deserialize<'a>>(&self, key: Key) -> Result<Option<T>, Fault> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        let read = serde_json::from_str(value.get());
        read.map(Some)
            .map_err(|error| invalid(format!("`{}`: {error}", KEYS[key as usize].0)))
    }

    /// The value of `key`, which has to be there.
    pub(super) fn value(&self, key: Key) -> Result<Value, Fault> {
        let missing = || invalid(format!("there is no `{}`", KEYS[key as usize].0));
        self.read(key)?.ok_or_else(missing)
    }

    pub(super) fn id(&self) -> Result<Id, Fault> {
        match self.read::<Option<Id>>(Key::Id) {
            Ok(Some(Some(id))) if id.fits() => Ok(id),
            Ok(Some(Some(_))) => Err(invalid(format!("`id` is longer than {ID_MAX_BYTES} bytes"))),
            Ok(_) => Err(invalid(
                "there is no `id`, and every request here has an answer",
            )),
            Err(_) => Err(invalid("`id` is neither a whole number nor text")),
        }
    }

    /// What is wrong with the keys, those that this kind of message cannot have among them.
    pub(super) fn check(&self, foreign: &[Key]) -> Result<(), Fault> {
        if let Some(key) = self.twice {
            return Err(invalid(format!("`{key}` is there twice")));
        }
        let foreign = foreign.iter().find(|key| self.get(**key).is_some());
        let foreign = foreign.map(|key| KEYS[*key as usize].0);
        if let Some(key) = foreign.or(self.unknown.as_deref()) {
            return Err(invalid(format!("there is no key `{key}` here")));
        }
        match self.read::<Version>(Key::Jsonrpc) {
            Ok(Some(Version::V2)) => Ok(()),
            _ => Err(invalid("`jsonrpc` is not \"2.0\"")),
        }
    }
}

impl<'de> Deserialize<'de> for Parts<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PartsVisitor)
    }
}

struct PartsVisitor;

impl<'de> Visitor<'de> for PartsVisitor {
    type Value = Parts<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("one message, an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut parts = Parts::default();
        while let Some(name) = map.next_key::<String>()? {
            let Some((name, key)) = KEYS.iter().find(|(known, _)| *known == name) else {
                map.next_value::<IgnoredAny>()?;
                parts.unknown.get_or_insert(name);
                continue;
            };
            if parts.values[*key as usize]
                .replace(map.next_value()?)
                .is_some()
            {
                parts.twice.get_or_insert(name);
            }
        }
        Ok(parts)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<Self::Value, A::Error> {
        Err(A::Error::custom(
            "batches are not spoken; write one request a line",
        ))
    }
}

pub(super) fn invalid(message: impl Into<String>) -> Fault {
    Fault::new(code::INVALID_REQUEST, shortened(message.into()))
}

/// The message without the rest of a long key or value that it quotes.
pub(super) fn shortened(mut message: String) -> String {
    if message.len() > MESSAGE_MAX_BYTES {
        let mut end = MESSAGE_MAX_BYTES;
        while !message.is_char_boundary(end) {
            end -= 1;
        }
        message.truncate(end);
        message.push('…');
    }
    message
}
