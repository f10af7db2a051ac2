//! Whether a process is still the one it was, from `/proc/<pid>/stat`.
//!
//! Kept apart from `xioflow-facts` on purpose: the helper uses that, and what is to judge the
//! helper must not share its mistakes.

use std::io;

/// The two fields that matter here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ProcessStat {
    /// Field 3, a letter.
    pub(super) state: u8,
    /// Field 22, clock ticks after boot.
    pub(super) start_ticks: u64,
}

impl ProcessStat {
    /// Reads the entry of a process; `None` if there is no such process.
    pub(super) fn read(pid: u32) -> io::Result<Option<Self>> {
        match std::fs::read(format!("/proc/{pid}/stat")) {
            Ok(content) => Self::parse(&content)
                .map(Some)
                .ok_or_else(|| io::ErrorKind::InvalidData.into()),
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The second field is a name in parentheses that may itself have spaces and parentheses.
    fn parse(content: &[u8]) -> Option<Self> {
        let name_end = content.iter().rposition(|byte| *byte == b')')?;
        let rest = std::str::from_utf8(&content[name_end + 1..]).ok()?;
        let mut fields = rest.split_ascii_whitespace();
        let state = *fields.next()?.as_bytes().first()?;
        let start_ticks = fields.nth(18)?.parse().ok()?;
        Some(Self { state, start_ticks })
    }

    /// Whether the process still runs: a zombie has ended and only waits to be reaped.
    pub(super) const fn runs(self) -> bool {
        !matches!(self.state, b'Z' | b'X')
    }
}

/// ESRCH comes when it goes away between opening and reading.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_and_spaces() {
        let line = b"4242 (a) b (c)) S 1 2 3 0 -1 4 5 6 7 8 9 10 11 12 20 0 1 0 987654 0 0";
        let expected = ProcessStat {
            state: b'S',
            start_ticks: 987_654,
        };
        assert_eq!(ProcessStat::parse(line), Some(expected));
    }

    #[test]
    fn a_short_line_is_not_understood() {
        for line in ["", "1 (x)", "1 (x) S", "1 (x) S 1 2 3", "no parentheses"] {
            assert_eq!(ProcessStat::parse(line.as_bytes()), None, "{line:?}");
        }
    }

    #[test]
    fn the_own_entry_runs_and_an_impossible_one_is_gone() {
        let own = ProcessStat::read(std::process::id())
            .expect("/proc is mounted")
            .expect("we live");
        assert!(own.runs());
        // One more than the largest pid_max of any kernel (proc(5)).
        assert_eq!(
            ProcessStat::read(4_194_305).expect("/proc is mounted"),
            None
        );
    }
}
