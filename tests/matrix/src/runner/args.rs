//! The command line: libtest's, as far as it makes sense here, and a little more.

/// What `--help` says.
pub(super) const HELP: &str = "\
Usage: matrix [option...] [filter...]

Kills at the points whose case (complete/journal:replay:before-commit#1/owner) contains a filter, or at
all, and examines what is then on record. A case lie/... is a dishonest recovery that has to be found.

      --sample N     of the cases of each scenario and each way to die at most N, chosen by the seed
      --seed N       which those are; printed. Without it the day's
      --rounds N     everything so many times
      --list         name the cases and run none
      --show-output  repeat at the end why points were missed or skipped
      --help         this

XIOFLOW_TEST_BIN_DIR names the folder of xioflow-reaper and xioflow-fixture. Options that only libtest has
are taken and do nothing. The exit status is 0 when every promise holds, 64 for words that it does not know.
";

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Order {
    Help,
    Run(Selection),
}

/// Which cases, and how they are told.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Selection {
    filters: Vec<String>,
    /// Of one scenario and one way to die at most so many.
    pub(super) sample: Option<usize>,
    pub(super) seed: u64,
    pub(super) rounds: u32,
    pub(super) lists: bool,
    pub(super) shows_output: bool,
}

/// Options of libtest that have no meaning here, and whether a value follows.
const OF_LIBTEST: &[(&str, bool)] = &[
    ("--nocapture", false),
    ("--no-capture", false),
    ("--include-ignored", false),
    ("--quiet", false),
    ("-q", false),
    ("--test-threads", true),
    ("--color", true),
    ("--format", true),
];

const SECONDS_PER_DAY: u64 = 24 * 60 * 60;

/// Reads the arguments.
///
/// # Errors
/// What to say about a word that is not known.
pub(super) fn parse(words: &[String]) -> Result<Order, String> {
    let mut selection = Selection {
        filters: Vec::new(),
        sample: None,
        seed: today(),
        rounds: 1,
        lists: false,
        shows_output: false,
    };
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        match word {
            "--help" | "-h" => return Ok(Order::Help),
            "--sample" => selection.sample = Some(number(word, words.next())?),
            "--seed" => selection.seed = number(word, words.next())?,
            "--rounds" => selection.rounds = number(word, words.next())?,
            "--list" => selection.lists = true,
            "--show-output" => selection.shows_output = true,
            option if option.starts_with('-') => {
                let known = OF_LIBTEST.iter().find(|(name, _)| *name == option);
                let (_, has_value) =
                    known.ok_or_else(|| format!("no option {option}\n\n{HELP}"))?;
                if *has_value {
                    words.next();
                }
            }
            filter => selection.filters.push(filter.to_owned()),
        }
    }
    Ok(Order::Run(selection))
}

fn number<T: std::str::FromStr>(option: &str, value: Option<&str>) -> Result<T, String> {
    let parsed = value.and_then(|value| value.parse().ok());
    parsed.ok_or_else(|| format!("{option} needs a number"))
}

/// Another selection each day, so that all points have their turn.
fn today() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs() / SECONDS_PER_DAY)
}

impl Selection {
    /// Whether a case of this name is asked for.
    pub(super) fn wants(&self, name: &str) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|filter| name.contains(filter))
    }

    /// Whether anything of a scenario can be asked for, so that its points have to be found.
    pub(super) fn may_want(&self, scenario: &str) -> bool {
        let fits = |filter: &String| match filter.split_once('/') {
            Some((wanted, _)) => scenario.ends_with(wanted),
            None => true,
        };
        self.filters.is_empty() || self.filters.iter().any(fits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Order, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        parse(&words)
    }

    #[test]
    fn words_of_libtest_do_no_harm_and_unknown_ones_are_refused() {
        let line = "--nocapture --test-threads 1 --rounds 3 --sample 5 cancel/ --show-output";
        let Ok(Order::Run(selection)) = parsed(line) else {
            panic!("{line:?} is an order to run");
        };
        assert_eq!((selection.rounds, selection.sample), (3, Some(5)));
        assert!(selection.wants("cancel/open:locked#1/owner"));
        assert!(!selection.wants("complete/open:locked#1/owner"));
        assert!(selection.may_want("cancel") && !selection.may_want("complete"));
        for wrong in ["--no-such", "--rounds", "--sample x"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }
}
