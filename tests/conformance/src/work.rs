//! What a contract has run: a plain value that each way turns into its own words.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// A command and everything that is asked of its operation.
#[derive(Debug, Clone)]
#[expect(
    missing_docs,
    reason = "the fields are the options of a submission, by their names"
)]
pub struct Work {
    pub id: String,
    pub name: Option<String>,
    pub program: OsString,
    pub args: Vec<OsString>,
    pub env: Vec<(OsString, OsString)>,
    pub inherit_env: bool,
    /// Variables of the caller's that are passed on by name.
    pub pass_env: Vec<OsString>,
    pub cwd: PathBuf,
    pub stdin: Input,
    pub umask: Option<u32>,
    pub no_new_privs: bool,
    /// Whether both output streams are one pipe.
    pub merge_stderr: bool,
    pub leases: Vec<String>,
    pub wait: Duration,
    pub timeout: Option<Duration>,
    /// How long it may take to end by itself once it is stopped.
    pub grace: Option<Duration>,
    pub max_output_bytes: Option<usize>,
    pub max_stored_bytes: Option<u64>,
    /// Whether the operation stays open until its descendants end by themselves.
    pub descendants_may_stay: bool,
    /// Whether its tree is to have a pid namespace of its own.
    pub enclosed: bool,
    /// A script of sh(1) that is run where the command is stopped.
    pub stop_action: Option<String>,
    /// A limit that has to be enforced or refused.
    pub hard_limit: Option<Limit>,
    /// A limit of memory that is watched, which every host can see to.
    pub watched_memory_bytes: Option<u64>,
    /// Whether the output is looked at while it comes.
    pub live: bool,
}

/// A command's standard input.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "named by what they are")]
pub enum Input {
    Empty,
    /// There is no descriptor 0.
    Closed,
    Bytes(Vec<u8>),
}

/// What can be limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "named by what they limit")]
pub enum Limit {
    Memory,
    Pids,
    CpuTime,
}

impl Work {
    /// A command with nothing but its words, its environment and its folder.
    pub(crate) fn new(id: &str, program: impl Into<OsString>, cwd: PathBuf) -> Self {
        Self {
            id: id.to_owned(),
            name: None,
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            inherit_env: false,
            pass_env: Vec::new(),
            cwd,
            stdin: Input::Empty,
            umask: None,
            no_new_privs: false,
            merge_stderr: false,
            leases: Vec::new(),
            wait: Duration::ZERO,
            timeout: None,
            grace: None,
            max_output_bytes: None,
            max_stored_bytes: None,
            descendants_may_stay: false,
            enclosed: false,
            stop_action: None,
            hard_limit: None,
            watched_memory_bytes: None,
            live: false,
        }
    }

    pub(crate) fn args<S: Into<OsString>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    pub(crate) fn lease(mut self, resource: &str) -> Self {
        self.leases.push(resource.to_owned());
        self
    }

    pub(crate) fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    pub(crate) fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    pub(crate) fn grace(mut self, grace: Duration) -> Self {
        self.grace = Some(grace);
        self
    }

    pub(crate) fn max_output_bytes(mut self, limit: usize) -> Self {
        self.max_output_bytes = Some(limit);
        self
    }

    pub(crate) fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = Input::Bytes(bytes.into());
        self
    }

    pub(crate) fn live(mut self) -> Self {
        self.live = true;
        self
    }
}
