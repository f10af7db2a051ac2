//! Frames of the helper's protocol: any bytes, cut anywhere.
//!
//! The first byte of an input says which side is decoded and how long the pieces are; the others are the stream.

use std::fmt::Debug;

use minicbor::{Decode, Encode};
use xioflow_protocol::{Decoder, FrameError, Reply, Request, encode};

use crate::memory::bounded;

/// A decoder of frames: ours, or one that is wrong on purpose.
pub trait FrameReader {
    /// Takes bytes of the stream.
    fn push(&mut self, bytes: &[u8]);

    /// Gives the next whole message.
    ///
    /// # Errors
    /// Those of [`Decoder::next_message`].
    fn next_message<T: for<'b> Decode<'b, ()>>(&mut self) -> Result<Option<T>, FrameError>;

    /// Says whether the stream may end here.
    ///
    /// # Errors
    /// Those of [`Decoder::finish`].
    fn finish(&self) -> Result<(), FrameError>;
}

impl FrameReader for Decoder {
    fn push(&mut self, bytes: &[u8]) {
        Self::push(self, bytes);
    }

    fn next_message<T: for<'b> Decode<'b, ()>>(&mut self) -> Result<Option<T>, FrameError> {
        Self::next_message(self)
    }

    fn finish(&self) -> Result<(), FrameError> {
        Self::finish(self)
    }
}

/// Checks the product's decoder.
pub fn check(input: &[u8]) {
    check_with(Decoder::new, input);
}

/// Checks a decoder: it never panics, takes memory for what came and not for what was claimed, hears the same however the
/// stream is cut, and what it hears can be said again.
///
/// # Panics
/// Where one of these does not hold.
pub fn check_with<R: FrameReader>(new: impl Fn() -> R, input: &[u8]) {
    let Some((head, stream)) = input.split_first() else {
        return;
    };
    let piece_len = usize::from(head >> 1) + 1;
    match head & 1 {
        0 => check_stream::<Request, R>(new, stream, piece_len),
        _ => check_stream::<Reply, R>(new, stream, piece_len),
    }
}

/// The first byte of an input whose stream comes in pieces of `piece_len` bytes, 1 to 128.
#[must_use]
pub fn head(is_reply: bool, piece_len: u8) -> u8 {
    (piece_len.saturating_sub(1) << 1) | u8::from(is_reply)
}

/// What was heard of a stream: its messages, and how it ended.
type Heard<T> = (Vec<T>, Result<(), FrameError>);

fn check_stream<T, R>(new: impl Fn() -> R, stream: &[u8], piece_len: usize)
where
    T: for<'b> Decode<'b, ()> + Encode<()> + PartialEq + Debug,
    R: FrameReader,
{
    let whole: Heard<T> = bounded(stream.len(), || hear(new(), [stream].into_iter()));
    let cut: Heard<T> = bounded(stream.len(), || hear(new(), stream.chunks(piece_len)));
    assert_eq!(
        whole, cut,
        "what is heard depends on where the stream is cut"
    );
    for message in &whole.0 {
        check_said_again(new(), message);
    }
}

fn hear<'a, T, R>(mut reader: R, pieces: impl Iterator<Item = &'a [u8]>) -> Heard<T>
where
    T: for<'b> Decode<'b, ()>,
    R: FrameReader,
{
    let mut heard = Vec::new();
    for piece in pieces {
        reader.push(piece);
        loop {
            match reader.next_message() {
                Ok(Some(message)) => heard.push(message),
                Ok(None) => break,
                // There is no way to find the next frame.
                Err(error) => return (heard, Err(error)),
            }
        }
    }
    let end = reader.finish();
    (heard, end)
}

/// What was said in whatever way has one way in which we say it.
fn check_said_again<T, R>(mut reader: R, message: &T)
where
    T: for<'b> Decode<'b, ()> + Encode<()> + PartialEq + Debug,
    R: FrameReader,
{
    let mut said = Vec::new();
    encode(message, &mut said).expect("what came in a frame fits one");
    reader.push(&said);
    let heard: T = reader
        .next_message()
        .expect("we understand ourselves")
        .expect("it is whole");
    assert_eq!(&heard, message);
    assert_eq!(reader.finish(), Ok(()), "one message is one frame");
    let mut again = Vec::new();
    encode(&heard, &mut again).expect("as before");
    assert_eq!(said, again);
}
