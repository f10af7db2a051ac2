//! What `cargo test` prints, read while it comes: counted, and the reasons of skipped tests kept.
//!
//! libtest swallows what a passing test prints, and with it the line by which a test says that it
//! skipped its work. `--show-output` brings that back, after the tests of each program, together
//! with everything else they printed; this takes the rest out again. `verbs` runs the tests.

use std::fmt;

/// A test that says why it did not look begins its line by this.
const SKIPPED: &str = "skipped";

/// What the tests of all programs together came to.
#[derive(Debug, Default)]
pub(crate) struct Harvest {
    passed: u64,
    failed: u64,
    ignored: u64,
    skips: Vec<Skip>,
    place: Place,
}

/// A test that passed without looking at all it is for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Skip {
    test: String,
    said: String,
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.test, self.said)
    }
}

/// Where in the output of one program the next line is.
#[derive(Debug, Default)]
enum Place {
    /// Among what is shown.
    #[default]
    Shown,
    /// Among what passing tests printed; the last one named.
    Successes { test: String },
}

impl Harvest {
    /// Takes the next line in, and says whether a person should see it.
    pub(crate) fn take(&mut self, line: &str) -> bool {
        if line == "failures:" || line.starts_with("test result:") {
            self.place = Place::Shown;
        }
        match &mut self.place {
            Place::Shown if line == "successes:" => {
                let test = String::new();
                self.place = Place::Successes { test };
                false
            }
            Place::Shown => {
                self.count(line);
                true
            }
            Place::Successes { test } => {
                if let Some(name) = named(line) {
                    name.clone_into(test);
                } else if line.starts_with(SKIPPED) {
                    let (test, said) = (test.clone(), line.to_owned());
                    self.skipped(Skip { test, said });
                }
                false
            }
        }
    }

    /// The reasons, each once: a test that runs for two users gives its own twice.
    pub(crate) fn skips(&self) -> &[Skip] {
        &self.skips
    }

    /// How many tests have passed.
    pub(crate) const fn passed(&self) -> u64 {
        self.passed
    }

    /// Whether any test was counted.
    pub(crate) const fn has_counted(&self) -> bool {
        self.passed + self.failed + self.ignored > 0
    }

    fn skipped(&mut self, skip: Skip) {
        if !self.skips.contains(&skip) {
            self.skips.push(skip);
        }
    }

    /// Adds up a line such as `test result: ok. 5 passed; 0 failed; 1 ignored; ...`.
    fn count(&mut self, line: &str) {
        let Some(counts) = line.strip_prefix("test result:") else {
            return;
        };
        let words: Vec<&str> = counts.split([' ', ';']).collect();
        for pair in words.windows(2) {
            let Ok(number) = pair[0].parse::<u64>() else {
                continue;
            };
            match pair[1] {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.ignored += number,
                _ => {}
            }
        }
    }
}

impl fmt::Display for Harvest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (passed, failed, ignored) = (self.passed, self.failed, self.ignored);
        write!(f, "{passed} passed, {failed} failed, {ignored} ignored, ")?;
        match self.skips.len() {
            0 => f.write_str("nothing skipped"),
            number => write!(f, "{number} skipped as named above"),
        }
    }
}

/// The test in `---- module::test stdout ----`, or in `---- file (line 3) stdout ----`.
fn named(line: &str) -> Option<&str> {
    line.strip_prefix("---- ")?.strip_suffix(" stdout ----")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "\
running 3 tests
test a ... ok
test b ... ok
test c ... ok

successes:

---- a stdout ----
much that nobody asked for
skipped: needs root
skipped: needs root

---- b stdout ----
skipped in part: core dumps go elsewhere


successes:
    a
    b
    c

test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.10s
";

    fn shown(harvest: &mut Harvest, text: &str) -> Vec<String> {
        text.lines()
            .filter(|line| harvest.take(line))
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn reasons_are_kept_once_and_the_rest_of_them_is_hidden() {
        let mut harvest = Harvest::default();
        let lines = shown(&mut harvest, PRINTED);
        let skips: Vec<String> = harvest.skips().iter().map(ToString::to_string).collect();
        assert_eq!(
            skips,
            [
                "a: skipped: needs root",
                "b: skipped in part: core dumps go elsewhere"
            ]
        );
        assert_eq!(lines.len(), 6, "{lines:?}");
        assert!(lines[5].starts_with("test result: ok."), "{lines:?}");
    }

    #[test]
    fn several_programs_add_up() {
        let mut harvest = Harvest::default();
        shown(&mut harvest, PRINTED);
        shown(&mut harvest, PRINTED);
        assert_eq!(
            harvest.to_string(),
            "6 passed, 0 failed, 2 ignored, 2 skipped as named above"
        );
    }

    #[test]
    fn failures_are_shown_whole() {
        let mut harvest = Harvest::default();
        let text = "successes:\n\n---- a stdout ----\nx\n\nfailures:\n\n---- b stdout ----\nwhy\n";
        let lines = shown(&mut harvest, text);
        assert_eq!(lines, ["failures:", "", "---- b stdout ----", "why"]);
    }
}
