//! Strings of the system: paths, arguments, variables. They need not be UTF-8.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A string of the system: in JSON a string where it is UTF-8, else `{"base64": "…"}`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Text(pub OsString);

impl From<OsString> for Text {
    fn from(text: OsString) -> Self {
        Self(text)
    }
}

impl From<&OsStr> for Text {
    fn from(text: &OsStr) -> Self {
        Self(text.to_owned())
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Base64<S> {
    base64: S,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Shape {
    Plain(String),
    Base64(Base64<String>),
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.to_str() {
            Some(text) => serializer.serialize_str(text),
            None => {
                let base64 = STANDARD.encode(self.0.as_bytes());
                Base64 { base64 }.serialize(serializer)
            }
        }
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Shape::deserialize(deserializer)? {
            Shape::Plain(text) => Ok(Self(text.into())),
            Shape::Base64(Base64 { base64 }) => match STANDARD.decode(&base64) {
                Ok(bytes) => Ok(Self(OsString::from_vec(bytes))),
                Err(error) => Err(D::Error::custom(format!("not base64: {error}"))),
            },
        }
    }
}

#[cfg(any(test, feature = "schema"))]
impl schemars::JsonSchema for Text {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Text".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "A string of the system, which need not be UTF-8.",
            "anyOf": [
                { "type": "string", "description": "Itself, where it is UTF-8." },
                {
                    "type": "object",
                    "description": "Its bytes in base64. UTF-8 may be sent this way as well.",
                    "properties": { "base64": { "type": "string", "contentEncoding": "base64" } },
                    "required": ["base64"],
                    "additionalProperties": false
                }
            ]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_any_kind_come_back_and_text_stays_readable() {
        for bytes in [&b"plain"[..], "\u{fffd}\n\"".as_bytes(), b"\xff\x00x", b""] {
            let text = Text(OsString::from_vec(bytes.to_vec()));
            let json = serde_json::to_string(&text).unwrap();
            assert_eq!(serde_json::from_str::<Text>(&json).unwrap(), text, "{json}");
        }
        assert_eq!(serde_json::to_string(&Text::from("a")).unwrap(), "\"a\"");
        assert!(serde_json::from_str::<Text>("{\"base64\":\"%\"}").is_err());
    }
}
