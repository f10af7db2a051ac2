//! What must hold of any bytes that reach a decoder of ours, as functions that panic where it does not.
//!
//! Each [`Target`] is such a function with [`seeds`]: real messages, made by the code that makes them. The folder `fuzz/`
//! hands these functions to libFuzzer, which changes the seeds with an eye on what of the code they reach
//! (`cargo xtask fuzz`); the tests here hand them the seeds themselves, and decoders that are wrong on purpose.

#![forbid(unsafe_code)]

pub mod artifacts;
pub mod frames;
pub mod last_word;
pub mod memory;
pub mod rpc;
pub mod seeds;

/// One decoder under test, or the helper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// The helper's protocol: frames of both directions.
    Frames,
    /// The last word of a helper, as a file.
    LastWord,
    /// Lines between clients and the arbiter, and output in frames.
    Rpc,
    /// The names of an operation's files.
    Artifacts,
    /// A whole helper on a simulated system: frames, and everything around it.
    Holder,
}

impl Target {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Frames,
        Self::LastWord,
        Self::Rpc,
        Self::Artifacts,
        Self::Holder,
    ];

    /// Its name on the command line, and that of its folder of inputs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Frames => "frames",
            Self::LastWord => "last_word",
            Self::Rpc => "rpc",
            Self::Artifacts => "artifacts",
            Self::Holder => "holder",
        }
    }

    /// Checks everything that must hold of `bytes`.
    ///
    /// # Panics
    /// Where something does not hold: that is the finding.
    pub fn check(self, bytes: &[u8]) {
        match self {
            Self::Frames => frames::check(bytes),
            Self::LastWord => last_word::check(bytes),
            Self::Rpc => rpc::check(bytes),
            Self::Artifacts => artifacts::check(bytes),
            Self::Holder => xioflow_simulation::check(bytes),
        }
    }
}
