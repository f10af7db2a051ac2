//! `/proc/<pid>/stat`: one line with most of what is asked of a process.

use core::fmt;
use core::str;

use xioflow_sys::{Errno, Pid, probe};

use crate::path::proc_path;
use crate::read::{is_gone, read_short};
use crate::{CannotTell, ProcPath};

/// What a process is doing, as the kernel says it in one letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessState {
    /// `R`.
    Running,
    /// `S`: sleeps, and a signal wakes it.
    Sleeping,
    /// `D`: sleeps, and no signal wakes it, not even SIGKILL.
    Uninterruptible,
    /// `Z`: its first thread has ended. So has the process, unless it has other threads.
    Zombie,
    /// `T`: stopped by a signal.
    Stopped,
    /// `t`: stopped by a tracer.
    Traced,
    /// `X`: has ended and is about to vanish.
    Dead,
    /// `I`: a thread of the kernel with nothing to do.
    Idle,
    /// A letter that this release does not know.
    Other(u8),
}

impl ProcessState {
    const fn from_letter(letter: u8) -> Self {
        match letter {
            b'R' => Self::Running,
            b'S' => Self::Sleeping,
            b'D' => Self::Uninterruptible,
            b'Z' => Self::Zombie,
            b'T' => Self::Stopped,
            b't' => Self::Traced,
            b'X' | b'x' => Self::Dead,
            b'I' => Self::Idle,
            other => Self::Other(other),
        }
    }
}

/// Bit of [`Stat::flags`]: the process was made by fork and has not executed a program since
/// (`PF_FORKNOEXEC` of the kernel).
const FORKED_WITHOUT_EXEC: u32 = 0x40;

/// The fields of the line that we use; proc(5) numbers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat<'line> {
    /// Field 1.
    pub pid: u32,
    /// Field 2: the kernel's name for the program, at most 15 bytes of any value but NUL.
    pub command: &'line [u8],
    /// Field 3.
    pub state: ProcessState,
    /// Field 4: the parent; 0 when it is outside this pid namespace.
    pub parent: u32,
    /// Field 5: the process group.
    pub group: u32,
    /// Field 6: the session.
    pub session: u32,
    /// Field 9: the kernel's flags.
    pub flags: u32,
    /// Field 20.
    pub threads: u32,
    /// Field 22: when it started, in clock ticks after boot.
    pub start_ticks: u64,
}

/// The line is not as proc(5) describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatError;

impl fmt::Display for StatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("line of process status has an unknown form")
    }
}

impl core::error::Error for StatError {}

impl<'line> Stat<'line> {
    /// Reads the line.
    ///
    /// The name in field 2 may hold spaces and parentheses, so its end is the *last* closing one.
    ///
    /// # Errors
    /// [`StatError`] when a field is missing or no number.
    pub fn parse(line: &'line [u8]) -> Result<Self, StatError> {
        let open = line
            .iter()
            .position(|&byte| byte == b'(')
            .ok_or(StatError)?;
        let close = line
            .iter()
            .rposition(|&byte| byte == b')')
            .ok_or(StatError)?;
        let command = line.get(open + 1..close).ok_or(StatError)?;
        let mut rest = Fields(&line[close + 1..]);
        let pid = Fields(&line[..open]).number()?;
        let state = match rest.next()? {
            [letter] => ProcessState::from_letter(*letter),
            _ => return Err(StatError),
        };
        let parent = rest.number()?;
        let group = rest.number()?;
        let session = rest.number()?;
        rest.skip(2)?;
        let flags = rest.number()?;
        rest.skip(10)?;
        let threads = rest.number()?;
        rest.skip(1)?;
        let start_ticks = rest.number()?;
        Ok(Self {
            pid,
            command,
            state,
            parent,
            group,
            session,
            flags,
            threads,
            start_ticks,
        })
    }

    /// Whether the process has ended, whatever is still seen of it.
    #[must_use]
    pub const fn has_ended(&self) -> bool {
        has_ended(self.state, self.threads)
    }

    /// Whether this is a copy of its parent that has not executed a program of its own.
    #[must_use]
    pub const fn is_unexecuted_copy(&self) -> bool {
        self.flags & FORKED_WITHOUT_EXEC != 0
    }
}

/// The letter is the first thread's. It may have left the work to the others, and then what looks
/// like a zombie lives; one that has ended counts itself at most.
pub(crate) const fn has_ended(state: ProcessState, threads: u32) -> bool {
    matches!(state, ProcessState::Zombie | ProcessState::Dead) && threads <= 1
}

struct Fields<'line>(&'line [u8]);

impl<'line> Fields<'line> {
    fn next(&mut self) -> Result<&'line [u8], StatError> {
        let line = self.0.trim_ascii_start();
        let end = line
            .iter()
            .position(u8::is_ascii_whitespace)
            .unwrap_or(line.len());
        let (field, rest) = line.split_at(end);
        self.0 = rest;
        if field.is_empty() {
            Err(StatError)
        } else {
            Ok(field)
        }
    }

    fn number<T: str::FromStr>(&mut self) -> Result<T, StatError> {
        let field = str::from_utf8(self.next()?).map_err(|_| StatError)?;
        field.parse().map_err(|_| StatError)
    }

    fn skip(&mut self, count: usize) -> Result<(), StatError> {
        (0..count).try_for_each(|_| self.next().map(drop))
    }
}

/// Room for one line; the kernel's are at most about 400 bytes long.
#[derive(Debug)]
pub struct StatLine([u8; 1024]);

impl StatLine {
    /// Empty room.
    #[must_use]
    pub const fn new() -> Self {
        Self([0; 1024])
    }
}

impl Default for StatLine {
    fn default() -> Self {
        Self::new()
    }
}

/// Reads what the system says of a process now; `None` when there is none with that number.
///
/// # Errors
/// [`CannotTell`] when there is one, or may be, and its line could not be read.
pub fn read_stat(pid: u32, line: &mut StatLine) -> Result<Option<Stat<'_>>, CannotTell> {
    let path = proc_path!("/proc/{pid}/stat");
    match read_short(&path, &mut line.0) {
        Ok(line) => Stat::parse(line)
            .map(Some)
            .map_err(|StatError| CannotTell::Malformed { path }),
        Err(errno) if is_gone(errno) => absent(pid).map(|()| None),
        Err(errno) => absent_or(pid, path, errno).map(|()| None),
    }
}

/// The same of this process itself, also where it does not know its number in `/proc`: in a pid
/// namespace of its own it has another one.
///
/// # Errors
/// [`CannotTell`] where `/proc` does not say.
pub fn read_own_stat(line: &mut StatLine) -> Result<Stat<'_>, CannotTell> {
    let path = proc_path!("/proc/self/stat");
    let line = read_short(&path, &mut line.0).map_err(CannotTell::unreadable(path))?;
    Stat::parse(line).map_err(|StatError| CannotTell::Malformed { path })
}

/// Makes sure that a process which `/proc` does not show is not there.
fn absent(pid: u32) -> Result<(), CannotTell> {
    match Pid::new(pid).map(probe) {
        Some(Err(Errno::ESRCH)) => Ok(()),
        Some(_) | None => Err(CannotTell::Hidden { pid }),
    }
}

/// A leader may have ended between two looks: then it is gone, not unreadable.
fn absent_or(pid: u32, path: ProcPath, errno: Errno) -> Result<(), CannotTell> {
    absent(pid).map_err(|_| CannotTell::Unreadable { path, errno })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::format;
    use std::string::String;
    use std::vec::Vec;

    fn line(command: &[u8], ticks: u64) -> Vec<u8> {
        let mut line = b"4242 (".to_vec();
        line.extend_from_slice(command);
        let tail = format!(
            ") S 17 4240 4239 34816 4242 4194304 1 2 3 4 5 6 7 8 20 0 3 0 {ticks} 100 200\n"
        );
        line.extend_from_slice(tail.as_bytes());
        line
    }

    #[test]
    fn the_fields_are_where_proc_says() {
        let line = line(b"worker", 987_654);
        let stat = Stat::parse(&line).expect("well-formed");
        assert_eq!(stat.pid, 4242);
        assert_eq!(stat.command, b"worker");
        assert_eq!(stat.state, ProcessState::Sleeping);
        assert_eq!((stat.parent, stat.group, stat.session), (17, 4240, 4239));
        assert_eq!(stat.flags, 4_194_304);
        assert_eq!((stat.threads, stat.start_ticks), (3, 987_654));
        assert!(!stat.is_unexecuted_copy());
    }

    #[test]
    fn a_hostile_name_does_not_move_the_fields() {
        for name in [") R 1 1 1", "a b", "((", "))", ") Z 0 (", "", "\n"] {
            let line = line(name.as_bytes(), 5);
            let stat = Stat::parse(&line).expect("well-formed");
            assert_eq!(stat.command, name.as_bytes());
            assert_eq!((stat.parent, stat.start_ticks), (17, 5));
        }
    }

    #[test]
    fn a_dead_first_thread_is_no_dead_process() {
        let state_and_threads = |state: &str, threads: u32| {
            format!("7 (x) {state} 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 {threads} 0 5 0\n")
        };
        for (state, threads, ended) in [
            ("Z", 1, true),
            ("X", 0, true),
            ("Z", 2, false),
            ("S", 1, false),
            ("D", 9, false),
        ] {
            let line = state_and_threads(state, threads);
            let stat = Stat::parse(line.as_bytes()).expect("well-formed");
            assert_eq!(stat.has_ended(), ended, "{state} with {threads} threads");
        }
    }

    #[test]
    fn a_cut_line_is_an_error() {
        let whole = line(b"x", 123);
        let needed = whole
            .windows(4)
            .position(|w| w == b"123 ")
            .expect("is there")
            + 1;
        for len in 0..needed {
            assert_eq!(Stat::parse(&whole[..len]), Err(StatError), "{len} bytes");
        }
    }

    #[test]
    fn this_process_is_read_from_the_system() {
        let pid = std::process::id();
        let mut line = StatLine::new();
        let stat = read_stat(pid, &mut line).expect("readable").expect("alive");
        assert_eq!(stat.pid, pid);
        assert_eq!(stat.parent, std::os::unix::process::parent_id());
        assert!(stat.start_ticks > 0 && stat.threads >= 1);
        assert!(!stat.is_unexecuted_copy());
    }

    #[test]
    fn a_number_without_a_process_is_a_no() {
        // Above the largest pid_max that Linux knows.
        assert_eq!(read_stat(4_194_305, &mut StatLine::new()).map(drop), Ok(()));
        assert_eq!(read_stat(4_194_305, &mut StatLine::new()), Ok(None));
    }

    proptest! {
        #[test]
        fn any_name_comes_back_whole(
            name in proptest::collection::vec(1u8..=255, 0..16),
            ticks in any::<u64>(),
        ) {
            let line = line(&name, ticks);
            let stat = Stat::parse(&line).expect("well-formed");
            prop_assert_eq!(stat.command, &name[..]);
            prop_assert_eq!(stat.start_ticks, ticks);
        }

        #[test]
        fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            let _answer = Stat::parse(&bytes);
        }

        #[test]
        fn damage_never_panics(at in 0usize..90, byte in any::<u8>()) {
            let mut line = line(b"(a) b", 77);
            let at = at % line.len();
            line[at] = byte;
            let _answer = Stat::parse(&line).map(|stat| String::from_utf8_lossy(stat.command).len());
        }
    }
}
