//! The output of an operation that an arbiter executes, as it comes through a pipe.
//!
//! The arbiter waits for whoever reads slowly, and keeps for him what is stored. So nothing waits here,
//! and no thread is needed: the one that asks for the next piece reads it.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use xioflow_rpc::operation as rpc;
use xioflow_rpc::piece::{HEADER_LEN, Header};

use xioflow_journal::Stream;

use crate::output::Piece;

/// What the pipe holds, where that may be asked for: fewer changes between the two ends.
const PIPE_BYTES: usize = 256 * 1024;

/// The end that pieces are read from.
#[derive(Debug)]
pub(crate) struct Frames {
    pipe: Mutex<Option<File>>,
}

/// Makes both ends.
///
/// # Errors
/// Those of pipe(2): too many open files.
pub(crate) fn frames() -> io::Result<(OwnedFd, Frames)> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
    // Above the user's share (pipe(7)) it stays as small as it is.
    fcntl_setpipe_size(&writer, PIPE_BYTES).ok();
    let pipe = Mutex::new(Some(File::from(reader)));
    Ok((writer, Frames { pipe }))
}

impl Frames {
    /// Waits for the next piece; `None` at the end, also where that is the end of the arbiter.
    pub(crate) fn next_piece(&self) -> Option<Piece> {
        let mut pipe = self.pipe.lock().unwrap_or_else(PoisonError::into_inner);
        let piece = pipe.as_mut().and_then(read_piece);
        if piece.is_none() {
            // Whatever follows something that is no frame has no place in the stream.
            *pipe = None;
        }
        piece
    }
}

fn read_piece(pipe: &mut File) -> Option<Piece> {
    let mut header = [0; HEADER_LEN];
    pipe.read_exact(&mut header).ok()?;
    let header = Header::decode(&header).ok()?;
    let stream = match header.stream {
        rpc::Stream::Stdout => Stream::Stdout,
        rpc::Stream::Stderr => Stream::Stderr,
    };
    if header.is_gap {
        return Some(Piece::Gap {
            stream,
            from: header.offset,
            to: header.offset + header.len,
        });
    }
    let mut bytes = vec![0; usize::try_from(header.len).ok()?];
    pipe.read_exact(&mut bytes).ok()?;
    Some(Piece::Data {
        stream,
        offset: header.offset,
        bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn frame(is_gap: bool, offset: u64, len: u64) -> [u8; HEADER_LEN] {
        let header = Header {
            stream: rpc::Stream::Stderr,
            is_gap,
            offset,
            len,
        };
        header.encode()
    }

    #[test]
    fn pieces_come_as_they_were_written_and_half_a_frame_is_the_end() {
        let (writer, frames) = frames().unwrap();
        let mut writer = File::from(writer);
        writer.write_all(&frame(false, 3, 2)).unwrap();
        writer.write_all(b"ab").unwrap();
        writer.write_all(&frame(true, 5, 1 << 40)).unwrap();
        writer.write_all(&frame(false, 9, 4)).unwrap();
        writer.write_all(b"ha").unwrap();
        drop(writer);
        let stream = Stream::Stderr;
        let bytes = b"ab".to_vec();
        assert_eq!(
            frames.next_piece(),
            Some(Piece::Data {
                stream,
                offset: 3,
                bytes
            })
        );
        assert_eq!(
            frames.next_piece(),
            Some(Piece::Gap {
                stream,
                from: 5,
                to: 5 + (1 << 40)
            })
        );
        assert_eq!(frames.next_piece(), None);
        assert_eq!(frames.next_piece(), None);
    }

    #[test]
    fn what_is_no_frame_ends_it() {
        let (writer, frames) = frames().unwrap();
        File::from(writer).write_all(&[9; 100]).unwrap();
        assert_eq!(frames.next_piece(), None);
    }
}
