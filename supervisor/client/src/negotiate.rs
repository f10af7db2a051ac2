//! Whether this program and the arbiter that it found work together, and what to do if not. A pure
//! rule; `starter` acts on it.

use std::cmp::Ordering;
use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::Value;
use xioflow_rpc::kernel::{Hello, Welcome};
use xioflow_rpc::refusal::Fault;

use crate::release;

/// What an arbiter says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Theirs {
    /// Its protocol.
    pub protocol: u32,
    /// Its release.
    pub release: String,
    /// How many operations it runs, where it has said so.
    pub operations: Option<u64>,
}

impl From<&Welcome> for Theirs {
    fn from(welcome: &Welcome) -> Self {
        Self {
            protocol: welcome.protocol,
            release: welcome.release.clone(),
            operations: None,
        }
    }
}

impl Theirs {
    /// What is in the refusal of a greeting; `None` if it does not say.
    pub(crate) fn of_refusal(fault: &Fault) -> Option<Self> {
        let protocol = fault.subject("protocol")?.as_u64()?;
        Some(Self {
            protocol: u32::try_from(protocol).ok()?,
            release: fault.subject("release")?.as_str()?.to_owned(),
            operations: fault.subject("operations").and_then(Value::as_u64),
        })
    }
}

/// Two that cannot work together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// The domain's folder.
    pub path: PathBuf,
    /// What the arbiter says of itself.
    pub theirs: Theirs,
    /// Protocol of this program.
    pub our_protocol: u32,
    /// Release of this program.
    pub our_release: String,
}

impl Mismatch {
    pub(crate) fn new(path: &Path, ours: &Hello, theirs: Theirs) -> Self {
        Self {
            path: path.to_owned(),
            theirs,
            our_protocol: ours.protocol,
            our_release: ours.release.clone(),
        }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the arbiter of {} is of release {} (protocol {}) and this program of release {} (protocol {})",
            self.path.display(),
            self.theirs.release,
            self.theirs.protocol,
            self.our_release,
            self.our_protocol
        )
    }
}

/// What to do with the arbiter that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Work with it.
    Use,
    /// Put our own in its place if it runs nothing; else work with it.
    ReplaceOrUse,
    /// Put our own in its place if it runs nothing; else there is no way to work with it.
    ReplaceOrFail,
    /// There is no way to work with it, and this program is the one to be updated.
    Fail,
}

/// Compares this program with the arbiter that it found.
///
/// The protocol says whether they work together. The newer of the two stays: by protocol, and where
/// that is the same by release. A release that is no version, or the same, replaces nothing.
#[must_use]
pub fn negotiate(ours: &Hello, theirs: &Theirs) -> Decision {
    match ours.protocol.cmp(&theirs.protocol) {
        Ordering::Greater => Decision::ReplaceOrFail,
        Ordering::Less => Decision::Fail,
        Ordering::Equal => match release::compare(&ours.release, &theirs.release) {
            Some(Ordering::Greater) => Decision::ReplaceOrUse,
            Some(Ordering::Less | Ordering::Equal) | None => Decision::Use,
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const RELEASES: [&str; 5] = ["0.1.0-rc.1", "0.1.0", "0.1.0+local", "0.2.0", "unknown"];

    /// By how our release relates to theirs: newer or not.
    fn expected(ours: (u32, usize), theirs: (u32, usize)) -> Decision {
        let is_newer = match (ours.1, theirs.1) {
            (4, _) | (_, 4) => false,
            // The same but for what does not count.
            (1 | 2, 1 | 2) => false,
            (ours, theirs) => ours > theirs,
        };
        match (ours.0, theirs.0, is_newer) {
            (2, 1, _) => Decision::ReplaceOrFail,
            (1, 2, _) => Decision::Fail,
            (_, _, true) => Decision::ReplaceOrUse,
            (_, _, false) => Decision::Use,
        }
    }

    #[test]
    fn every_pair_has_its_decision() {
        let all = || (1..=2).flat_map(|protocol| (0..RELEASES.len()).map(move |at| (protocol, at)));
        for ours in all() {
            for theirs in all() {
                let hello = Hello {
                    protocol: ours.0,
                    release: RELEASES[ours.1].into(),
                    client: String::new(),
                };
                let other = Theirs {
                    protocol: theirs.0,
                    release: RELEASES[theirs.1].into(),
                    operations: None,
                };
                let decision = negotiate(&hello, &other);
                assert_eq!(decision, expected(ours, theirs), "{hello:?} and {other:?}");
            }
        }
    }

    #[test]
    fn a_refusal_says_what_it_can() {
        let fault = |protocol: Value| {
            Fault::refused("version", "x")
                .about("protocol", protocol)
                .about("release", "9.0.0")
        };
        let theirs = Theirs::of_refusal(&fault(json!(9)).about("operations", 3)).unwrap();
        let operations = Some(3);
        assert_eq!(
            theirs,
            Theirs {
                protocol: 9,
                release: "9.0.0".into(),
                operations
            }
        );
        assert_eq!(
            Theirs::of_refusal(&fault(json!(9))).unwrap().operations,
            None
        );
        assert_eq!(Theirs::of_refusal(&fault(json!(1_u64 << 32))), None);
        assert_eq!(Theirs::of_refusal(&Fault::refused("version", "x")), None);
    }
}
