//! What a line means, and which fault is in it. `line` finds where it ends, `parts` takes its envelope
//! apart.
//!
//! Parameters stay text until their method is known, and then become its type at once: a tree of
//! values in between could take thirty times the memory of the line.

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use super::parts::{Key, Parts, invalid, shortened};
use crate::envelope::{Id, Message, Request, Version};
use crate::refusal::{Fault, code};

/// A request whose parameters were not looked at yet; see [`RawRequest::decode_params`].
pub type RawRequest = Request<Box<RawValue>>;

/// A line that is no request. The answer to it is `Message::from` this.
#[derive(Debug, Clone, PartialEq)]
pub struct Rejected {
    /// The request's id, where there is one that can be given back.
    pub id: Option<Id>,
    /// What is wrong with it.
    pub fault: Fault,
}

impl<R> From<Rejected> for Message<R> {
    fn from(rejected: Rejected) -> Self {
        Self::refusal(rejected.id, rejected.fault)
    }
}

/// Reads a request.
///
/// # Errors
/// With [`code::PARSE`]: a line that is no JSON. With [`code::INVALID_REQUEST`]: one that is no object
/// (a batch is none); a key that is unknown, or there twice; a `jsonrpc` that is not `"2.0"`; an id
/// that is missing, neither a whole number nor text, or too long; a method that is no text; parameters
/// that are no object.
pub fn decode_request(line: &[u8]) -> Result<RawRequest, Rejected> {
    let parts = Parts::of(line).map_err(|fault| Rejected { id: None, fault })?;
    let id = parts.id();
    let judged = id.clone().and_then(|id| judge_request(id, &parts));
    judged.map_err(|fault| Rejected { id: id.ok(), fault })
}

fn judge_request(id: Id, parts: &Parts) -> Result<RawRequest, Fault> {
    parts.check(&[Key::Result, Key::Error])?;
    let method = parts.read::<String>(Key::Method)?;
    let method = method.ok_or_else(|| invalid("the request names no method"))?;
    let params = parts.get(Key::Params).map(ToOwned::to_owned);
    if params.as_ref().is_some_and(|params| !is_object(params)) {
        return Err(invalid("`params` is no object"));
    }
    Ok(Request {
        jsonrpc: Version::V2,
        id,
        method,
        params,
    })
}

impl RawRequest {
    /// Reads the parameters as those of its method. None at all are those that leave everything out.
    ///
    /// # Errors
    /// With [`code::INVALID_PARAMS`]: they are not those of the method. An unknown key is a fault, as
    /// is one that is there twice: what was meant by it would not be done.
    pub fn decode_params<P: DeserializeOwned>(&self) -> Result<P, Fault> {
        let text = self.params.as_ref().map_or("{}", |params| params.get());
        serde_json::from_str(text).map_err(|error| {
            let message = format!("the parameters of {}: {error}", self.method);
            Fault::new(code::INVALID_PARAMS, shortened(message))
        })
    }
}

/// Why a line is no message of an arbiter.
#[derive(Debug, thiserror::Error)]
pub enum MessageError {
    /// It is no JSON.
    #[error("the line is no JSON")]
    Json(#[source] serde_json::Error),
    /// It is none of the three messages.
    #[error("{0}")]
    Shape(String),
}

impl From<Fault> for MessageError {
    fn from(fault: Fault) -> Self {
        Self::Shape(fault.message)
    }
}

/// Reads a message of an arbiter. Keys that are not known are left alone: a later release may have them.
///
/// # Errors
/// [`MessageError`] for a line that is neither an answer, nor a refusal, nor a notice.
pub fn decode_message(line: &[u8]) -> Result<Message, MessageError> {
    let mut parts: Parts = serde_json::from_slice(line).map_err(MessageError::Json)?;
    parts.forgive_unknown();
    parts.check(&[])?;
    if let Some(method) = parts.read::<String>(Key::Method)? {
        return Ok(Message::Notice {
            jsonrpc: Version::V2,
            method,
            params: parts.value(Key::Params)?,
        });
    }
    if let Some(error) = parts.read::<Fault>(Key::Error)? {
        // An answer to a line whose id could not be read has null for it.
        let id = parts.read::<Option<Id>>(Key::Id)?.flatten();
        return Ok(Message::refusal(id, error));
    }
    let result = parts.value(Key::Result)?;
    Ok(Message::answer(parts.id()?, result))
}

/// Reads the result of an answer, or the news of a notice, as its type.
///
/// # Errors
/// [`MessageError::Json`] if it is of another type.
pub fn decode_result<R: DeserializeOwned>(result: Value) -> Result<R, MessageError> {
    serde_json::from_value(result).map_err(MessageError::Json)
}

fn is_object(value: &RawValue) -> bool {
    value.get().starts_with('{')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::parts::MESSAGE_MAX_BYTES;
    use super::*;
    use crate::codec::encode;
    use crate::envelope::ID_MAX_BYTES;
    use crate::kernel::{Hello, Shutdown};
    use crate::method::{Method, Notice};
    use crate::operation::{Cancel, ExecProcess};

    const AN_OBJECT: &str = "one message, an object";

    /// Each faulty line, the id of the answer to it, the code, and a part of what it says.
    const FAULTY: &[(&str, Option<i64>, i32, &str)] = &[
        ("", None, code::PARSE, "no JSON"),
        ("{", None, code::PARSE, "no JSON"),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"a"} x"#,
            None,
            code::PARSE,
            "no JSON",
        ),
        (
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\u{1}\"}",
            None,
            code::PARSE,
            "no JSON",
        ),
        ("7", None, code::INVALID_REQUEST, AN_OBJECT),
        ("null", None, code::INVALID_REQUEST, AN_OBJECT),
        ("[]", None, code::INVALID_REQUEST, "batches"),
        (
            r#"[{"jsonrpc":"2.0","id":1,"method":"a"}]"#,
            None,
            code::INVALID_REQUEST,
            "batches",
        ),
        (
            r#"{"id":1,"method":"a"}"#,
            Some(1),
            code::INVALID_REQUEST,
            "`jsonrpc`",
        ),
        (
            r#"{"jsonrpc":"1.0","id":1,"method":"a"}"#,
            Some(1),
            code::INVALID_REQUEST,
            "`jsonrpc`",
        ),
        (
            r#"{"jsonrpc":2.0,"id":1,"method":"a"}"#,
            Some(1),
            code::INVALID_REQUEST,
            "`jsonrpc`",
        ),
        (
            r#"{"jsonrpc":"2.0","method":"a"}"#,
            None,
            code::INVALID_REQUEST,
            "no `id`",
        ),
        (
            r#"{"jsonrpc":"2.0","id":null,"method":"a"}"#,
            None,
            code::INVALID_REQUEST,
            "no `id`",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1.5,"method":"a"}"#,
            None,
            code::INVALID_REQUEST,
            "whole number",
        ),
        (
            r#"{"jsonrpc":"2.0","id":{},"method":"a"}"#,
            None,
            code::INVALID_REQUEST,
            "whole number",
        ),
        (
            r#"{"jsonrpc":"2.0","id":9223372036854775808,"method":"a"}"#,
            None,
            code::INVALID_REQUEST,
            "whole number",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}"#,
            Some(1),
            code::INVALID_REQUEST,
            "`method` is there twice",
        ),
        (
            r#"{"id":2,"jsonrpc":"2.0","id":1,"method":"a"}"#,
            Some(1),
            code::INVALID_REQUEST,
            "`id` is there twice",
        ),
        (
            r#"{"jsonrpc":"2.0","meta":{},"id":1,"method":"a"}"#,
            Some(1),
            code::INVALID_REQUEST,
            "`meta`",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"a","result":1}"#,
            Some(1),
            code::INVALID_REQUEST,
            "`result`",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1}"#,
            Some(1),
            code::INVALID_REQUEST,
            "no method",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":7}"#,
            Some(1),
            code::INVALID_REQUEST,
            "`method`",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"a","params":[1]}"#,
            Some(1),
            code::INVALID_REQUEST,
            "no object",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"a","params":null}"#,
            Some(1),
            code::INVALID_REQUEST,
            "no object",
        ),
    ];

    #[test]
    fn each_faulty_line_has_its_fault() {
        for (line, id, code, part) in FAULTY {
            let rejected = decode_request(line.as_bytes()).expect_err(line);
            assert_eq!(rejected.id, id.map(Id::Number), "{line}");
            assert_eq!(rejected.fault.code, *code, "{line}: {}", rejected.fault);
            assert!(
                rejected.fault.message.contains(part),
                "{line}: {}",
                rejected.fault
            );
        }
    }

    #[test]
    fn an_id_may_have_its_bound_and_not_a_byte_more() {
        let line = |id: &str| format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"a"}}"#);
        let longest = "x".repeat(ID_MAX_BYTES);
        let request = decode_request(line(&longest).as_bytes()).unwrap();
        assert_eq!(request.id, Id::Text(longest.clone()));
        let rejected = decode_request(line(&(longest + "x")).as_bytes()).unwrap_err();
        assert_eq!(rejected.id, None);
        assert!(rejected.fault.message.contains("128 bytes"));
    }

    #[test]
    fn a_fault_repeats_no_long_value() {
        let key = "é".repeat(1 << 20);
        let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"a","{key}":1}}"#);
        let fault = decode_request(line.as_bytes()).unwrap_err().fault;
        assert!(fault.message.len() <= MESSAGE_MAX_BYTES + '…'.len_utf8());
        let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"a","params":{{"{key}":1}}}}"#);
        let request = decode_request(line.as_bytes()).unwrap();
        let fault = request.decode_params::<Cancel>().unwrap_err();
        assert!(fault.message.len() <= MESSAGE_MAX_BYTES + '…'.len_utf8());
    }

    fn params<P: DeserializeOwned>(params: &str) -> Result<P, Fault> {
        let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"a","params":{params}}}"#);
        decode_request(line.as_bytes()).unwrap().decode_params()
    }

    #[test]
    fn parameters_have_known_keys_each_once() {
        for faulty in [
            r#"{}"#,
            r#"{"operationId":"a","operationId":"b"}"#,
            r#"{"operationId":"a","operation":"b"}"#,
            r#"{"operationId":7}"#,
        ] {
            let fault = params::<Cancel>(faulty).expect_err(faulty);
            assert_eq!(fault.code, code::INVALID_PARAMS, "{faulty}");
        }
        let twice = r#"{"command":{"program":"a"},"stdin":{"from":"text","text":"a","text":"b"}}"#;
        assert!(params::<ExecProcess>(twice).is_err());
        // The greeting and the end are open for keys of later releases.
        assert!(params::<Hello>(r#"{"protocol":9,"release":"9","later":1}"#).is_ok());
        assert!(params::<Shutdown>(r#"{"running":"wait","later":1}"#).is_ok());
    }

    #[test]
    fn parameters_can_be_left_out_where_all_have_a_default() {
        let request = decode_request(br#"{"jsonrpc":"2.0","id":1,"method":"domain.status"}"#);
        let request = request.unwrap();
        assert!(request.decode_params::<crate::domain::StatusOf>().is_ok());
        assert!(request.decode_params::<Cancel>().is_err());
    }

    #[test]
    fn lines_that_are_no_message_say_so() {
        for (line, part) in [
            ("", "no JSON"),
            (r#"{"jsonrpc":"2.0","id":1}"#, "`result`"),
            (r#"{"jsonrpc":"2.0","result":1}"#, "`id`"),
            (r#"{"jsonrpc":"2.0","method":"op.gap"}"#, "`params`"),
            (
                r#"{"jsonrpc":"2.0","id":1,"error":{"code":"x"}}"#,
                "`error`",
            ),
            (r#"{"jsonrpc":"2.0","id":1,"result":1,"result":2}"#, "twice"),
        ] {
            let error = decode_message(line.as_bytes()).expect_err(line).to_string();
            assert!(error.contains(part), "{line}: {error}");
        }
    }

    fn id() -> impl Strategy<Value = Id> {
        prop_oneof![
            any::<i64>().prop_map(Id::Number),
            "\\PC{0,32}".prop_map(Id::Text)
        ]
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 20, 5, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                proptest::collection::vec((any::<String>(), inner), 0..5)
                    .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
            ]
        })
    }

    fn line_of(message: &impl serde::Serialize) -> Vec<u8> {
        let mut line = encode(message, crate::REQUEST_MAX_BYTES).unwrap();
        assert_eq!(line.pop(), Some(b'\n'));
        assert!(!line.contains(&b'\n'));
        line
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(line in proptest::collection::vec(any::<u8>(), 0..200)) {
            drop(decode_request(&line));
            drop(decode_message(&line));
        }

        /// Nearly right lines: a whole one with one byte changed.
        #[test]
        fn no_damage_makes_it_panic(which in 0..FAULTY.len(), at in any::<prop::sample::Index>(), byte: u8) {
            let mut line = FAULTY[which].0.as_bytes().to_vec();
            if !line.is_empty() {
                let at = at.index(line.len());
                line[at] = byte;
            }
            drop(decode_request(&line));
            drop(decode_message(&line));
        }

        #[test]
        fn a_request_comes_back(id in id(), text: String, grace_ms: Option<u64>) {
            let params = Cancel { operation_id: text, manner: Default::default(), grace_ms };
            let request = Request::new(id.clone(), Method::Cancel, params.clone());
            let read = decode_request(&line_of(&request)).unwrap();
            prop_assert_eq!(&read.id, &id);
            prop_assert_eq!(Method::of(&read.method), Some(Method::Cancel));
            prop_assert_eq!(read.decode_params::<Cancel>().unwrap(), params);
        }

        #[test]
        fn a_message_comes_back(id in id(), value in value(), code: i32, text: String, has_id: bool) {
            let mut fault = Fault::new(code, text.clone());
            if has_id {
                fault = fault.hint(text.clone()).causes([text.clone()]).about(&text, value.clone());
            }
            for message in [
                Message::answer(id.clone(), value.clone()),
                Message::refusal(has_id.then_some(id), fault),
                Message::notice(Notice::Gap, value),
            ] {
                prop_assert_eq!(decode_message(&line_of(&message)).unwrap(), message);
            }
        }
    }

    #[test]
    fn a_rejected_line_is_answered_with_its_fault() {
        let rejected = decode_request(br#"{"jsonrpc":"2.0","id":4}"#).unwrap_err();
        let answer: Message = rejected.into();
        assert_eq!(
            serde_json::to_value(answer).unwrap(),
            json!({"jsonrpc": "2.0", "id": 4, "error": {"code": -32600, "message": "the request names no method"}})
        );
    }
}
