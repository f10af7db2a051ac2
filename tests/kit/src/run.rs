//! One command of a test: a deadline, both streams, and a report when it goes wrong.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::process::{PidfdFlags, Signal, kill_process, pidfd_open};
use serde_json::Value;

use crate::stage::Stage;
use crate::terminal::{self, Terminal};
use crate::wait::{Deadline, to_pid};

/// How much of each stream a report shows, in bytes.
const SHOWN_MAX: usize = 4096;
/// How much of each word of a command a report shows, in characters.
const WORD_SHOWN_MAX: usize = 200;

/// A command that is being described.
#[derive(Debug)]
#[must_use = "a run does nothing until it is started or finished"]
pub struct Run<'a> {
    stage: &'a Stage,
    command: Command,
    user: Option<u32>,
    deadline: Duration,
    stdin: Option<Vec<u8>>,
}

/// Enters a group. Where it hands controllers down it takes no process itself, and whoever was in it is in the group
/// that xioflow makes for its host.
const ENTER: &str = r#"{ echo 0 >"$0/cgroup.procs"; } 2>/dev/null || echo 0 >"$0/xioflow-host/cgroup.procs" && exec "$@""#;

impl<'a> Run<'a> {
    /// A run as another user, or as the one who runs the tests.
    pub(crate) fn new(stage: &'a Stage, program: OsString, user: Option<u32>) -> Self {
        Self::of(stage, with_default_signals(program), user)
    }

    /// A run in a control group, as the stage's user, who may not enter it from where the tests run. So a shell does,
    /// which then becomes that user and the program.
    pub(crate) fn in_group(stage: &'a Stage, program: OsString, group: &Path) -> Self {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", ENTER]).arg(group);
        if let Some(id) = stage.user_id() {
            command.arg("setpriv").arg("--clear-groups");
            command.args([format!("--reuid={id}"), format!("--regid={id}")]);
        }
        let inner = with_default_signals(program);
        command.arg(inner.get_program()).args(inner.get_args());
        Self::of(stage, command, None)
    }

    fn of(stage: &'a Stage, mut command: Command, user: Option<u32>) -> Self {
        command
            .env_clear()
            .envs(stage.environment())
            .current_dir(stage.path(""));
        if let Some(id) = user {
            // As root, std also drops all supplementary groups on the way to another user.
            command.uid(id).gid(id);
        }
        Self {
            stage,
            command,
            user,
            deadline: Deadline::USUAL,
            stdin: None,
        }
    }

    /// Adds an argument.
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    /// Adds arguments.
    pub fn args<S: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.command.args(arguments);
        self
    }

    /// Sets a variable.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Takes a variable away.
    pub fn env_remove(mut self, name: impl AsRef<OsStr>) -> Self {
        self.command.env_remove(name);
        self
    }

    /// Starts in another folder.
    pub fn cwd(mut self, folder: impl AsRef<Path>) -> Self {
        self.command.current_dir(folder);
        self
    }

    /// Gives the command this input instead of none. At most what a pipe holds, 64 KiB.
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = Some(bytes.into());
        self
    }

    /// Gives it a process group of its own, as a shell does with a job.
    pub fn as_job(mut self) -> Self {
        self.command.process_group(0);
        self
    }

    /// Takes another deadline than [`Deadline::USUAL`].
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Runs the command to its end.
    ///
    /// # Panics
    /// When it cannot be started, or neither it nor its streams end by the deadline.
    pub fn finish(self) -> Finished {
        self.start().finish()
    }

    /// Starts the command on a terminal of its own, which controls its session.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn start_on_terminal(self) -> Terminal<'a> {
        let (ours, theirs) = terminal::pair();
        let copy = || theirs.try_clone().expect("a copy of a descriptor");
        // std cannot make a terminal the controlling one; setsid(1) can.
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg(self.command.get_program());
        command.args(self.command.get_args());
        let folder = self.command.get_current_dir();
        command.current_dir(folder.unwrap_or(Path::new("/")));
        command.env_clear();
        let set = |(name, value): (_, Option<_>)| Some((name, value?));
        command.envs(self.command.get_envs().filter_map(set));
        if let Some(id) = self.user {
            command.uid(id).gid(id);
        }
        command.stdin(copy()).stdout(copy()).stderr(copy());
        let line = Line::of(&command);
        let child = command
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {line}: {error}"));
        Terminal::new(self.stage, child, ours, Deadline::after(self.deadline))
    }

    /// Starts the command.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn start(mut self) -> Started<'a> {
        let stdin = if self.stdin.is_some() {
            Stdio::piped()
        } else {
            Stdio::null()
        };
        self.command
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let line = Line::of(&self.command);
        // What it does before the start has returned here is its time as well.
        let begun = Instant::now();
        let mut child = self
            .command
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {line}: {error}"));
        feed(child.stdin.take(), self.stdin.as_deref());
        let streams = [child.stdout.take().into(), child.stderr.take().into()];
        let (stage, deadline) = (self.stage, Deadline::after(self.deadline));
        Started {
            stage,
            child,
            streams,
            line,
            begun,
            deadline,
        }
    }
}

/// SIGHUP, SIGINT, SIGTERM and SIGTSTP, which a test may send and whoever started the tests may have
/// ignored, as the bits that they have in `/proc/<pid>/status`.
const SENT: u64 = 0x8_4003;

/// A command that begins with the default dispositions. A shell starts its background jobs with
/// SIGINT ignored, and nohup(1) ignores SIGHUP: programs inherit that, and rightly keep to it.
fn with_default_signals(program: OsString) -> Command {
    if !ignores_what_is_sent() {
        return Command::new(program);
    }
    let mut command = Command::new("env");
    command
        .arg("--default-signal=HUP,INT,TERM,TSTP")
        .arg(program);
    command
}

fn ignores_what_is_sent() -> bool {
    static IGNORES: OnceLock<bool> = OnceLock::new();
    *IGNORES.get_or_init(|| {
        let status = std::fs::read_to_string("/proc/self/status").expect("our own status");
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let ignored = ignored.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
        ignored.expect("the ignored signals") & SENT != 0
    })
}

/// The pipe is closed at the end of this function, which is the end of the command's input.
fn feed(pipe: Option<ChildStdin>, bytes: Option<&[u8]>) {
    if let (Some(mut pipe), Some(bytes)) = (pipe, bytes) {
        assert!(
            bytes.len() <= 64 * 1024,
            "a test's input has to fit into a pipe"
        );
        // A command that does not read its input is no error.
        drop(pipe.write_all(bytes));
    }
}

/// A command that was started.
#[derive(Debug)]
#[must_use = "a started run has to be finished"]
pub struct Started<'a> {
    stage: &'a Stage,
    child: Child,
    streams: [Stream; 2],
    line: Line,
    begun: Instant,
    deadline: Deadline,
}

impl Started<'_> {
    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal.
    ///
    /// # Panics
    /// When the kernel refuses.
    pub fn signal(&self, signal: Signal) {
        kill_process(to_pid(self.pid()), signal)
            .unwrap_or_else(|error| panic!("signal {signal:?} to {}: {error}", self.line));
    }

    /// Waits until standard output has this in it.
    ///
    /// # Panics
    /// When the command or the deadline ends first.
    pub fn wait_for_output(&mut self, part: &[u8]) {
        self.wait_for_stream(0, "stdout", part);
    }

    /// Waits until standard error has this in it.
    ///
    /// # Panics
    /// When the command or the deadline ends first.
    pub fn wait_for_complaint(&mut self, part: &[u8]) {
        self.wait_for_stream(1, "stderr", part);
    }

    fn wait_for_stream(&mut self, index: usize, name: &str, part: &[u8]) {
        while !self.streams[index].has(part) {
            let going_on = self.streams[index].is_open() && self.step(None);
            assert!(
                going_on,
                "no {} on {name} of {}",
                part.escape_ascii(),
                self.line
            );
        }
    }

    /// Waits for a first line on standard output, and returns it.
    ///
    /// # Panics
    /// When the command or the deadline ends first.
    pub fn wait_for_line(&mut self) -> String {
        self.wait_for_output(b"\n");
        let lines = String::from_utf8_lossy(&self.streams[0].bytes);
        lines.lines().next().unwrap_or_default().to_owned()
    }

    /// Whether standard output has this in it by now.
    pub fn has_printed(&mut self, part: &[u8]) -> bool {
        while self.streams[0].source.as_ref().is_some_and(is_readable) {
            self.streams[0].read();
        }
        self.streams[0].has(part)
    }

    /// Waits for its end and the end of both its streams.
    ///
    /// # Panics
    /// When the deadline passes first; everything that the stage has caused is killed then.
    pub fn finish(mut self) -> Finished {
        let pidfd = pidfd_open(to_pid(self.pid()), PidfdFlags::empty()).expect("a child of ours");
        let mut ended = false;
        while !ended || self.streams.iter().any(Stream::is_open) {
            if !self.step((!ended).then_some(&pidfd)) {
                break;
            }
            ended = ended || is_readable(&pidfd);
        }
        let over = ended && !self.streams.iter().any(Stream::is_open);
        let living = if over {
            Vec::new()
        } else {
            self.stage.living()
        };
        if !over {
            self.stage.kill_all();
        }
        let status = self
            .child
            .wait()
            .expect("a child of ours can be waited for");
        let elapsed = self.begun.elapsed();
        let [stdout, stderr] = self.streams.map(|stream| stream.bytes);
        let finished = Finished {
            line: self.line,
            status,
            stdout,
            stderr,
            elapsed,
        };
        assert!(
            over,
            "no end by the deadline; living then: {living:?}\n{finished}"
        );
        finished
    }

    /// Waits for one of the streams or the end, and reads what there is; false at the deadline.
    fn step(&mut self, end: Option<&OwnedFd>) -> bool {
        let sources = self
            .streams
            .iter()
            .filter_map(|stream| stream.source.as_ref());
        let mut fds: Vec<_> = sources
            .map(|source| PollFd::new(source, PollFlags::IN))
            .collect();
        fds.extend(end.map(|pidfd| PollFd::new(pidfd, PollFlags::IN)));
        if !self.deadline.poll(&mut fds) {
            return false;
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        let open = self.streams.iter_mut().filter(|stream| stream.is_open());
        for (stream, _) in open.zip(ready).filter(|(_, ready)| *ready) {
            stream.read();
        }
        true
    }
}

fn is_readable(fd: &impl AsFd) -> bool {
    Deadline::after(Duration::ZERO).poll(&mut [PollFd::new(fd, PollFlags::IN)])
}

/// One stream of a command, as far as it was read.
#[derive(Debug)]
struct Stream {
    source: Option<File>,
    bytes: Vec<u8>,
}

impl<T: Into<OwnedFd>> From<Option<T>> for Stream {
    fn from(pipe: Option<T>) -> Self {
        Self {
            source: pipe.map(|pipe| File::from(pipe.into())),
            bytes: Vec::new(),
        }
    }
}

impl Stream {
    fn is_open(&self) -> bool {
        self.source.is_some()
    }

    fn has(&self, part: &[u8]) -> bool {
        self.bytes.windows(part.len()).any(|window| window == part)
    }

    fn read(&mut self) {
        let mut block = [0; 64 * 1024];
        let source = self.source.as_mut().expect("only open streams are read");
        match source.read(&mut block).expect("a pipe can be read") {
            0 => self.source = None,
            len => self.bytes.extend_from_slice(&block[..len]),
        }
    }
}

/// A command's words and folder, for reports.
#[derive(Debug, Clone)]
struct Line {
    words: Vec<OsString>,
    folder: PathBuf,
}

impl Line {
    fn of(command: &Command) -> Self {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        Self {
            words: words.map(OsStr::to_owned).collect(),
            folder: command
                .get_current_dir()
                .unwrap_or(Path::new(""))
                .to_owned(),
        }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for word in &self.words {
            let shown: String = format!("{word:?}").chars().take(WORD_SHOWN_MAX).collect();
            write!(f, "{shown} ")?;
        }
        write!(f, "in {}", self.folder.display())
    }
}

/// A command that has ended.
#[derive(Debug)]
pub struct Finished {
    line: Line,
    /// How it ended.
    pub status: ExitStatus,
    /// What it printed.
    pub stdout: Vec<u8>,
    /// What it complained about.
    pub stderr: Vec<u8>,
    /// How long it and its streams took.
    pub elapsed: Duration,
}

impl Finished {
    /// Checks the exit status.
    ///
    /// # Panics
    /// With the whole report when it is another one.
    pub fn assert_code(&self, code: i32) -> &Self {
        assert!(
            self.status.code() == Some(code),
            "expected exit status {code}\n{self}"
        );
        self
    }

    /// Checks standard output, byte for byte.
    ///
    /// # Panics
    /// With the whole report when it differs.
    pub fn assert_stdout(&self, expected: impl AsRef<[u8]>) -> &Self {
        let expected = expected.as_ref();
        assert!(
            self.stdout == expected,
            "expected stdout {}\n{self}",
            expected.escape_ascii()
        );
        self
    }

    /// Checks standard error, byte for byte.
    ///
    /// # Panics
    /// With the whole report when it differs.
    pub fn assert_stderr(&self, expected: impl AsRef<[u8]>) -> &Self {
        let expected = expected.as_ref();
        assert!(
            self.stderr == expected,
            "expected stderr {}\n{self}",
            expected.escape_ascii()
        );
        self
    }

    /// Checks that standard error has this text in it.
    ///
    /// # Panics
    /// With the whole report when it has not.
    pub fn assert_complains(&self, part: &str) -> &Self {
        let text = String::from_utf8_lossy(&self.stderr);
        assert!(text.contains(part), "expected {part:?} on stderr\n{self}");
        self
    }

    /// Reads standard output as one JSON document.
    ///
    /// # Panics
    /// With the whole report when it is none, or when anything else is on it.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.stdout)
            .unwrap_or_else(|error| panic!("expected one JSON document: {error}\n{self}"))
    }
}

impl fmt::Display for Finished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "command: {}", self.line)?;
        match (self.status.code(), self.status.signal()) {
            (Some(code), _) => writeln!(f, "status: exit {code}")?,
            (None, signal) => writeln!(f, "status: signal {signal:?}")?,
        }
        writeln!(f, "elapsed: {:?}", self.elapsed)?;
        for (name, bytes) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            let shown = &bytes[..bytes.len().min(SHOWN_MAX)];
            writeln!(
                f,
                "{name} ({} bytes):\n{}",
                bytes.len(),
                String::from_utf8_lossy(shown)
            )?;
        }
        Ok(())
    }
}
