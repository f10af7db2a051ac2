//! The harnesses find what they are there for: each is given a decoder that is wrong on purpose.

use std::panic::{AssertUnwindSafe, catch_unwind};

use minicbor::Decode;
use xioflow_fuzz::frames::FrameReader;
use xioflow_fuzz::rpc::LineReader;
use xioflow_fuzz::{Target, artifacts, frames, last_word, rpc, seeds};
use xioflow_protocol::{Decoder, FrameError, LastWord, LastWordError};
use xioflow_rpc::codec::{LineBuffer, LineError};

/// What the harness complains about, if it does for any of the inputs.
fn complaint(inputs: &[Vec<u8>], check: impl Fn(&[u8])) -> Option<String> {
    inputs.iter().find_map(|input| {
        let panic = catch_unwind(AssertUnwindSafe(|| check(input))).err()?;
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
    })
}

#[track_caller]
fn assert_found(target: Target, part: &str, check: impl Fn(&[u8])) {
    let complaint = complaint(&seeds::seeds(target), check);
    let found = complaint
        .as_deref()
        .is_some_and(|complaint| complaint.contains(part));
    assert!(found, "expected {part:?}: {complaint:?}");
}

/// Loses what is unfinished when more comes.
#[derive(Default)]
struct Forgetful(Decoder);

impl FrameReader for Forgetful {
    fn push(&mut self, bytes: &[u8]) {
        if self.0.finish().is_err() {
            self.0 = Decoder::new();
        }
        self.0.push(bytes);
    }

    fn next_message<T: for<'b> Decode<'b, ()>>(&mut self) -> Result<Option<T>, FrameError> {
        self.0.next_message()
    }

    fn finish(&self) -> Result<(), FrameError> {
        self.0.finish()
    }
}

/// Takes the memory that the first frame claims.
#[derive(Default)]
struct Greedy {
    inner: Decoder,
    room: Vec<u8>,
}

impl FrameReader for Greedy {
    fn push(&mut self, bytes: &[u8]) {
        if let (true, Some(prefix)) = (self.room.is_empty(), bytes.first_chunk()) {
            self.room = Vec::with_capacity(u32::from_le_bytes(*prefix) as usize);
        }
        self.inner.push(bytes);
    }

    fn next_message<T: for<'b> Decode<'b, ()>>(&mut self) -> Result<Option<T>, FrameError> {
        self.inner.next_message()
    }

    fn finish(&self) -> Result<(), FrameError> {
        self.inner.finish()
    }
}

#[test]
fn a_decoder_that_forgets_at_a_cut_is_found() {
    assert_found(Target::Frames, "where the stream is cut", |input| {
        frames::check_with(Forgetful::default, input)
    });
}

#[test]
fn a_decoder_that_believes_a_length_is_found() {
    let claims = [frames::head(false, 128), 0, 0, 0x7f, 0].to_vec();
    let complaint = complaint(&[claims], |input| {
        frames::check_with(Greedy::default, input)
    });
    assert!(complaint.is_some_and(|complaint| complaint.contains("bytes of memory")));
}

#[test]
fn a_reader_that_passes_over_the_end_of_a_last_word_is_found() {
    // Only the first item of the file, whatever follows.
    let lax = |file: &[u8]| -> Result<LastWord, LastWordError> {
        let prefix_len = 16;
        match file
            .get(..prefix_len)
            .and_then(|prefix| prefix.last_chunk())
        {
            Some(len) => {
                let end = prefix_len + u32::from_le_bytes(*len) as usize;
                LastWord::from_bytes(file.get(..end).unwrap_or(file))
            }
            None => LastWord::from_bytes(file),
        }
    };
    assert_found(Target::LastWord, "what follows the last word", |file| {
        last_word::check_with(lax, file)
    });
}

#[test]
fn a_reader_that_changes_a_last_word_is_found() {
    let hasty = |file: &[u8]| {
        let mut word = LastWord::from_bytes(file)?;
        word.released ^= word.stopped;
        word.stopped = true;
        Ok(word)
    };
    assert_found(Target::LastWord, "cannot be written", |file| {
        last_word::check_with(hasty, file)
    });
}

/// Gives a line before its end has come.
struct Hasty(LineBuffer, Vec<u8>);

impl LineReader for Hasty {
    fn push(&mut self, bytes: &[u8]) {
        self.1 = bytes.to_vec();
        self.0.push(bytes);
    }

    fn next_line(&mut self) -> Result<Option<Vec<u8>>, LineError> {
        match self.0.next_line()? {
            None if self.1.ends_with(b"}") => Ok(Some(std::mem::take(&mut self.1))),
            line => Ok(line),
        }
    }

    fn finish(&self) -> Result<(), LineError> {
        self.0.finish()
    }
}

#[test]
fn a_finder_of_lines_that_is_hasty_is_found() {
    let new = |max_bytes| Hasty(LineBuffer::new(max_bytes), Vec::new());
    assert_found(Target::Rpc, "where the connection is cut", |input| {
        rpc::check_with(new, input)
    });
}

#[test]
fn names_that_two_ids_share_are_found() {
    let flat = |id: &str, stream| {
        let id = id
            .to_lowercase()
            .replace(|letter: char| !letter.is_ascii_alphanumeric(), "_");
        format!("x{id}-{stream}.log")
    };
    assert_found(Target::Artifacts, "belongs to two", |input| {
        artifacts::check_with(flat, input)
    });
}

#[test]
fn names_that_leave_the_folder_are_found() {
    let plain = |id: &str, stream| format!("x{}-{stream}.log", id.replace("Build", "~Build"));
    assert_found(Target::Artifacts, "should not have", |input| {
        artifacts::check_with(plain, input)
    });
}
