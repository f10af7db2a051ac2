//! What the guest says, read while it comes: which suite is running where, what it came to, and the lines for people.

use crate::harvest::Harvest;

/// What begins a line of the lane's own.
const MARK: char = '\u{1e}';

/// What timeout(1) exits with when the time was over.
const TIMED_OUT: i32 = 124;

/// One suite in one place.
#[derive(Debug)]
struct Part {
    place: String,
    suite: String,
    harvest: Harvest,
    /// Statuses of its programs that were not 0.
    bad: Vec<i32>,
    seconds: u64,
}

/// What one guest has said.
#[derive(Debug, Default)]
pub(crate) struct Report {
    kernel: String,
    parts: Vec<Part>,
    /// The part that is running.
    running: Option<usize>,
    is_done: bool,
}

impl Report {
    /// Takes the next line in, and says what a person should see of it.
    pub(super) fn take(&mut self, line: &str) -> Option<String> {
        let line = line.trim_end_matches('\r');
        let Some((before, word)) = line.split_once(MARK) else {
            return self.pass_on(line);
        };
        // A program need not end its last line.
        let rest = (!before.is_empty()).then(|| self.pass_on(before)).flatten();
        let said = self.note(word);
        match (rest, said) {
            (Some(rest), Some(said)) => Some(format!("{rest}\n{said}")),
            (rest, said) => rest.or(said),
        }
    }

    fn pass_on(&mut self, line: &str) -> Option<String> {
        let shown = match self.running {
            Some(part) => self.parts[part].harvest.take(line),
            None => true,
        };
        shown.then(|| line.to_owned())
    }

    fn note(&mut self, line: &str) -> Option<String> {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["ready", kernel] => {
                (*kernel).clone_into(&mut self.kernel);
                Some(format!("the guest is up, kernel {kernel}"))
            }
            ["begin", place, suite] => {
                self.running = Some(self.part(place, suite));
                Some(format!("--- {place}: {suite}"))
            }
            ["end", status, seconds] => {
                if let Some(part) = self.running.take() {
                    self.parts[part]
                        .ended(status.parse().unwrap_or(-1), seconds.parse().unwrap_or(0));
                }
                None
            }
            ["done"] => {
                self.is_done = true;
                None
            }
            _ => Some(format!("the lane said what nobody understands: {line}")),
        }
    }

    fn part(&mut self, place: &str, suite: &str) -> usize {
        let is_it = |part: &Part| part.place == place && part.suite == suite;
        self.parts.iter().position(is_it).unwrap_or_else(|| {
            self.parts.push(Part {
                place: place.to_owned(),
                suite: suite.to_owned(),
                harvest: Harvest::default(),
                bad: Vec::new(),
                seconds: 0,
            });
            self.parts.len() - 1
        })
    }

    /// Whether the guest came to the end of its list.
    pub(super) const fn is_done(&self) -> bool {
        self.is_done
    }

    /// How many suites have failed, a place at a time; one that was cut off has.
    pub(super) fn failed(&self) -> usize {
        let parts = self.parts.iter().enumerate();
        parts
            .filter(|(index, part)| !part.bad.is_empty() || self.running == Some(*index))
            .count()
    }

    /// Passed tests of all suites.
    pub(super) fn passed(&self) -> u64 {
        self.parts.iter().map(|part| part.harvest.passed()).sum()
    }

    /// The skips, then a line for each suite in its place.
    pub(super) fn lines(&self, guest: &str) -> Vec<String> {
        let skips = self.parts.iter().flat_map(|part| {
            let skips = part.harvest.skips().iter();
            skips.map(move |skip| format!("{} {}: {skip}", part.place, part.suite))
        });
        let sums = self.parts.iter().enumerate().map(|(index, part)| {
            let verdict = part.verdict(self.running == Some(index));
            let (place, suite) = (&part.place, &part.suite);
            format!("{guest} ({}) {place} {suite}: {verdict}", self.kernel)
        });
        skips.chain(sums).collect()
    }
}

impl Part {
    fn ended(&mut self, status: i32, seconds: u64) {
        self.seconds += seconds;
        if status != 0 {
            self.bad.push(status);
        }
    }

    fn verdict(&self, is_running: bool) -> String {
        let mut said = format!("{} s", self.seconds);
        if self.harvest.has_counted() {
            said = format!("{}, {said}", self.harvest);
        }
        for status in &self.bad {
            match *status {
                TIMED_OUT => said.push_str("; FAILED: its time was over"),
                status => said.push_str(&format!("; FAILED with {status}")),
            }
        }
        if is_running {
            said.push_str("; FAILED: cut off");
        }
        said
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(lines: &str) -> (Report, Vec<String>) {
        let mut report = Report::default();
        let shown = lines.lines().filter_map(|line| report.take(line)).collect();
        (report, shown)
    }

    const RESULT: &str = "test result: ok. 3 passed; 0 failed; 1 ignored;";

    #[test]
    fn programs_of_a_suite_in_one_place_are_one_line() {
        let one = format!("\u{1e}begin service crates\n{RESULT}\n\u{1e}end 0 5\n");
        let (report, _) = after(&format!("\u{1e}ready 6.1\n{one}{one}\u{1e}done\n"));
        assert!(report.is_done());
        assert_eq!(report.failed(), 0);
        assert_eq!(
            report.lines("old"),
            ["old (6.1) service crates: 6 passed, 0 failed, 2 ignored, nothing skipped, 10 s"]
        );
    }

    #[test]
    fn a_bad_status_fails_a_suite_whatever_it_has_counted() {
        for (status, said) in [("1", "FAILED with 1"), ("124", "time was over")] {
            let (report, _) = after(&format!(
                "\u{1e}begin service x\n{RESULT}\n\u{1e}end {status} 5\n"
            ));
            assert_eq!(report.failed(), 1);
            assert!(
                report.lines("old")[0].contains(said),
                "{:?}",
                report.lines("old")
            );
        }
    }

    #[test]
    fn what_was_cut_off_has_failed_and_is_not_done() {
        let (report, _) = after("\u{1e}begin service x\ntest a ... ");
        assert_eq!((report.failed(), report.is_done()), (1, false));
        assert!(report.lines("old")[0].ends_with("FAILED: cut off"));
    }

    #[test]
    fn a_last_line_without_an_end_is_not_lost() {
        let (report, shown) = after("\u{1e}begin service x\nhalf\u{1e}end 0 1\r\n");
        assert_eq!(shown, ["--- service: x", "half"]);
        assert_eq!(report.failed(), 0);
    }

    #[test]
    fn each_place_has_its_own_skips() {
        let tests = "successes:\n\n---- a stdout ----\nskipped: no file\n\n";
        let run = |place: &str| format!("\u{1e}begin {place} x\n{tests}{RESULT}\n\u{1e}end 0 1\n");
        let (report, shown) = after(&format!("{}{}", run("service"), run("root-shell")));
        let lines = report.lines("old");
        assert_eq!(
            lines[..2],
            [
                "service x: a: skipped: no file",
                "root-shell x: a: skipped: no file"
            ]
        );
        assert!(
            !shown.iter().any(|line| line.contains("skipped")),
            "{shown:?}"
        );
    }
}
