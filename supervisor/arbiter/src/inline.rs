//! How much output of a command travels in its result, and so how much is held for it while it runs.
//!
//! A result with more than [`INLINE_MAX_BYTES`] goes without output: it is stored, and read from there. So
//! no more than that is ever held of a stream, whatever is asked for.

use xioflow_journal::Stream;
use xioflow_kernel::{DEFAULT_MAX_OUTPUT_BYTES, OperationResult};
use xioflow_rpc::operation::INLINE_MAX_BYTES;

/// What a request asks a result to hold of each stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Inline {
    asked: u64,
}

impl Inline {
    /// As the request says it, or as it is without a word.
    pub(crate) fn of(asked: Option<u64>) -> Self {
        Self {
            asked: asked.unwrap_or(DEFAULT_MAX_OUTPUT_BYTES as u64),
        }
    }

    /// How much of each stream has to be held.
    pub(crate) fn held_bytes(self) -> usize {
        usize::try_from(self.asked.min(INLINE_MAX_BYTES)).unwrap_or(usize::MAX)
    }

    /// Whether the output of a command that printed so much travels in its result.
    fn travels(self, printed: [u64; 2]) -> bool {
        let [stdout, stderr] = printed.map(|printed| printed.min(self.asked));
        stdout.saturating_add(stderr) <= INLINE_MAX_BYTES
    }

    /// Takes the output out of a result that is to hold more of it than travels, and says whether it did.
    /// What is said about it is then as if it were there.
    pub(crate) fn omit_what_is_too_much(self, result: &mut OperationResult) -> bool {
        if self.travels([result.stdout_bytes, result.stderr_bytes]) {
            return false;
        }
        omit(result);
        let misses = |stream: Stream| match stream {
            Stream::Stdout => {
                result.stdout_bytes > self.asked
                    || result.stdout_gap.is_some()
                    || result.stdout_spill_error.is_some()
            }
            Stream::Stderr => {
                result.stderr_bytes > self.asked
                    || result.stderr_gap.is_some()
                    || result.stderr_spill_error.is_some()
            }
        };
        let (stdout, stderr) = (misses(Stream::Stdout), misses(Stream::Stderr));
        (result.stdout_truncated, result.stderr_truncated) = (stdout, stderr);
        result.is_truncated = stdout || stderr;
        true
    }
}

/// Takes the output out of a result that holds more of it than travels, and says whether it did.
pub(crate) fn omit_long_output(result: &mut OperationResult) -> bool {
    let kept = [Stream::Stdout, Stream::Stderr].map(|it| result.kept_output(it).len() as u64);
    let is_long = kept[0] + kept[1] > INLINE_MAX_BYTES;
    if is_long {
        omit(result);
    }
    is_long
}

fn omit(result: &mut OperationResult) {
    (result.stdout, result.stderr) = (String::new(), String::new());
    (result.stdout_base64, result.stderr_base64) = (None, None);
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: u64 = INLINE_MAX_BYTES;

    #[test]
    fn what_travels_is_held_whole_and_never_more_than_travels() {
        for asked in [0, 1, MOST - 1, MOST, MOST + 1, 10 * MOST, u64::MAX] {
            let inline = Inline::of(Some(asked));
            let held = inline.held_bytes() as u64;
            assert!(held <= MOST);
            for stdout in [0, 1, MOST / 2, MOST, MOST + 1, u64::MAX] {
                for stderr in [0, 1, MOST / 2, MOST, u64::MAX] {
                    if inline.travels([stdout, stderr]) {
                        assert_eq!(stdout.min(held), stdout.min(asked));
                        assert_eq!(stderr.min(held), stderr.min(asked));
                    } else {
                        let wanted = u128::from(stdout.min(asked)) + u128::from(stderr.min(asked));
                        assert!(wanted > u128::from(MOST));
                    }
                }
            }
        }
    }

    #[test]
    fn little_travels_however_much_was_printed() {
        assert!(Inline::of(Some(64)).travels([u64::MAX, u64::MAX]));
        assert!(!Inline::of(None).travels([MOST, 1]));
        assert!(Inline::of(None).travels([MOST, 0]));
    }
}
