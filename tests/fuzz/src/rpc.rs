//! Lines between clients and the arbiter, and output in frames.
//!
//! The first byte of an input says how long the pieces are and how long a line may be; the others are the connection.

use std::fmt::Debug;

use serde_json::Value;
use xioflow_rpc::codec::{
    LineBuffer, LineError, RawRequest, Rejected, decode_message, decode_request, decode_result,
    encode,
};
use xioflow_rpc::envelope::{Message, Request};
use xioflow_rpc::method::{Method, Notice};
use xioflow_rpc::piece::{DATA_MAX_BYTES, HEADER_LEN, Header};
use xioflow_rpc::schema::types::{VisitMethod, VisitNotice, Wire, of_method, of_notice};
use xioflow_rpc::{REPLY_MAX_BYTES, REQUEST_MAX_BYTES};

use crate::memory::bounded;

/// How long lines may be where an input asks for short ones.
const SHORT_LINE_MAX: usize = 200;

/// What a fault may say, in bytes: it repeats no value of many MiB.
const FAULT_MAX_BYTES: usize = 2048;

/// A finder of lines: ours, or one that is wrong on purpose.
pub trait LineReader {
    /// Takes bytes of the connection.
    fn push(&mut self, bytes: &[u8]);

    /// Gives the next whole line.
    ///
    /// # Errors
    /// Those of [`LineBuffer::next_line`].
    fn next_line(&mut self) -> Result<Option<Vec<u8>>, LineError>;

    /// Says whether the connection may end here.
    ///
    /// # Errors
    /// Those of [`LineBuffer::finish`].
    fn finish(&self) -> Result<(), LineError>;
}

impl LineReader for LineBuffer {
    fn push(&mut self, bytes: &[u8]) {
        Self::push(self, bytes);
    }

    fn next_line(&mut self) -> Result<Option<Vec<u8>>, LineError> {
        Self::next_line(self)
    }

    fn finish(&self) -> Result<(), LineError> {
        Self::finish(self)
    }
}

/// Checks the product's lines and messages.
pub fn check(input: &[u8]) {
    check_with(LineBuffer::new, input);
}

/// Checks a finder of lines, and what is made of the lines that it finds.
///
/// # Panics
/// Where something of it does not hold.
pub fn check_with<R: LineReader>(new: impl Fn(usize) -> R, input: &[u8]) {
    let Some((head, connection)) = input.split_first() else {
        return;
    };
    let max_bytes = if head & 1 == 0 {
        REQUEST_MAX_BYTES
    } else {
        SHORT_LINE_MAX
    };
    let piece_len = usize::from(head >> 1) + 1;
    let whole = bounded(connection.len(), || {
        take(new(max_bytes), [connection].into_iter())
    });
    let cut = bounded(connection.len(), || {
        take(new(max_bytes), connection.chunks(piece_len))
    });
    assert_eq!(
        whole, cut,
        "the lines depend on where the connection is cut"
    );
    for line in &whole.0 {
        assert!(line.len() < max_bytes && !line.contains(&b'\n'), "no line");
        check_request(line);
        check_message(line);
    }
    for header in connection.chunks_exact(HEADER_LEN) {
        check_header(header.try_into().expect("chunks are exact"));
    }
}

/// The first byte of an input whose connection comes in pieces of `piece_len` bytes, 1 to 128.
#[must_use]
pub fn head(short_lines: bool, piece_len: u8) -> u8 {
    (piece_len.saturating_sub(1) << 1) | u8::from(short_lines)
}

fn take<'a, R: LineReader>(
    mut reader: R,
    pieces: impl Iterator<Item = &'a [u8]>,
) -> (Vec<Vec<u8>>, Result<(), LineError>) {
    let mut lines = Vec::new();
    for piece in pieces {
        reader.push(piece);
        loop {
            match reader.next_line() {
                Ok(Some(line)) => lines.push(line),
                Ok(None) => break,
                Err(error) => return (lines, Err(error)),
            }
        }
    }
    let end = reader.finish();
    (lines, end)
}

/// A line as a client's: it is a request that can be said again, or its refusal is a message.
fn check_request(line: &[u8]) {
    match bounded(line.len(), || decode_request(line)) {
        Ok(request) => {
            if let Some(method) = Method::of(&request.method) {
                of_method(
                    method,
                    Parameters {
                        method,
                        request: &request,
                    },
                );
            }
        }
        Err(rejected) => check_refusal(rejected),
    }
}

fn check_refusal(rejected: Rejected) {
    assert!(
        rejected.fault.message.len() <= FAULT_MAX_BYTES,
        "a fault that repeats too much"
    );
    assert!(
        rejected.id.as_ref().is_none_or(|id| id.fits()),
        "an id that is kept and too long"
    );
    let refusal: Message = rejected.into();
    assert_eq!(read(&refusal), refusal);
}

/// Reads a request's parameters as those of its method.
struct Parameters<'a> {
    method: Method,
    request: &'a RawRequest,
}

impl VisitMethod for Parameters<'_> {
    type Out = ();

    fn visit<P: Wire, R: Wire>(self) {
        let len = self
            .request
            .params
            .as_ref()
            .map_or(0, |params| params.get().len());
        let params: P = match bounded(len, || self.request.decode_params()) {
            Ok(params) => params,
            Err(fault) => {
                assert!(
                    fault.message.len() <= FAULT_MAX_BYTES,
                    "a fault that repeats too much"
                );
                return;
            }
        };
        let request = Request {
            id: self.request.id.clone(),
            ..Request::new(0, self.method, params)
        };
        // Escapes may make it longer than it came.
        let Ok(line) = encode(&request, REQUEST_MAX_BYTES) else {
            return;
        };
        let again = decode_request(line.trim_ascii_end()).expect("we understand ourselves");
        let params: P = again.decode_params().expect("as before");
        assert_same(&Some(params), &request.params);
        assert_eq!((again.id, again.method), (request.id, request.method));
    }
}

/// A line as an arbiter's: what it says can be said again.
fn check_message(line: &[u8]) {
    let Ok(message) = bounded(line.len(), || decode_message(line)) else {
        return;
    };
    if let Message::Notice { method, params, .. } = &message
        && let Some(notice) = Notice::of(method)
    {
        of_notice(notice, News(params));
    }
    if !has_fraction(&message) {
        assert_eq!(read(&message), message);
    }
}

/// Reads the news of a notice as its type.
struct News<'a>(&'a Value);

impl VisitNotice for News<'_> {
    type Out = ();

    fn visit<P: Wire>(self) {
        let Ok(news) = decode_result::<P>(self.0.clone()) else {
            return;
        };
        let said = serde_json::to_value(&news).expect("news is JSON");
        assert_same(
            &decode_result::<P>(said).expect("we understand ourselves"),
            &news,
        );
    }
}

fn read(message: &Message) -> Message {
    let line = encode(message, 2 * REPLY_MAX_BYTES).expect("what came in a line fits one");
    decode_message(line.trim_ascii_end()).expect("we understand ourselves")
}

/// Fractions may come back as their neighbour: they are nowhere but in what hosts store with us, and are text there.
fn has_fraction(said: &impl serde::Serialize) -> bool {
    fn inside(value: &Value) -> bool {
        match value {
            Value::Number(number) => number.is_f64(),
            Value::Array(values) => values.iter().any(inside),
            Value::Object(map) => map.values().any(inside),
            Value::Null | Value::Bool(_) | Value::String(_) => false,
        }
    }
    serde_json::to_value(said).is_ok_and(|value| inside(&value))
}

fn assert_same<T: Debug + PartialEq + serde::Serialize>(one: &T, other: &T) {
    if !has_fraction(other) {
        assert_eq!(one, other);
    }
}

/// A header is one that a frame can have, and has one way to be written.
fn check_header(bytes: [u8; HEADER_LEN]) {
    let Ok(header) = Header::decode(&bytes) else {
        return;
    };
    assert_eq!(header.encode(), bytes);
    assert!(
        header.offset.checked_add(header.len).is_some(),
        "it ends beyond every stream"
    );
    assert!(
        header.is_gap || header.len <= DATA_MAX_BYTES,
        "more bytes than a frame has"
    );
}
