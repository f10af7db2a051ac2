//! Lines and messages. `line` finds the ends of lines and writes them, `decode` says what a line
//! means and which fault is in it, with the help of `parts`. Bytes go in and come out; who moves them is not known here.

mod decode;
mod line;
mod parts;

pub use decode::{
    MessageError, RawRequest, Rejected, decode_message, decode_request, decode_result,
};
pub use line::{EncodeError, LineBuffer, LineError, encode};
