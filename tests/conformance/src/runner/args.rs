//! The command line of the suite: libtest's, as far as it makes sense here, and a little more.

use std::ffi::OsString;

use super::Case;
use crate::contract::Level;

pub(super) const HELP: &str = "\
Usage: conformance [option...] [filter...]

Examines the contracts whose name (contract-07/embedded) or title contains a filter, or all.

      --way NAME       only this way; may be repeated
      --level NAME     only this level: command, output, stop, record, host; may be repeated
      --exact          a filter is the whole name
      --skip FILTER    not these; may be repeated
      --list           name the cases and examine none
      --json           one JSON document on standard output instead of the table
      --show-output    repeat at the end, as libtest would, why a case is unsupported
      --help           this

XIOFLOW_TEST_BIN_DIR names the folder of the programs to examine: xioflow, xioflow-reaper,
xioflow-fixture, xioflow-false-helper. Options that only libtest has are taken and do nothing.
The exit status is 0 when no contract is broken, 64 for words that it does not know.
";

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Order {
    Help,
    List(Selection),
    Run(Selection),
    /// This process is one case.
    Case {
        number: u32,
        way: String,
    },
}

/// Which cases, and how they are told.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Selection {
    filters: Vec<String>,
    skips: Vec<String>,
    ways: Vec<String>,
    levels: Vec<String>,
    exact: bool,
    ignored_only: bool,
    pub(super) json: bool,
    pub(super) show_output: bool,
}

/// The word by which the runner starts the process of a case.
pub(super) const CASE: &str = "--case";

/// Options of libtest that have no meaning here, and whether a value follows.
const OF_LIBTEST: &[(&str, bool)] = &[
    ("--nocapture", false),
    ("--no-capture", false),
    ("--include-ignored", false),
    ("--quiet", false),
    ("-q", false),
    ("--test", false),
    ("--test-threads", true),
    ("--color", true),
    ("--format", true),
    ("-Z", true),
];

/// Reads the arguments.
///
/// # Errors
/// What to say about a word that is not known.
pub(super) fn parse(args: impl Iterator<Item = OsString>) -> Result<Order, String> {
    let text = |arg: OsString| arg.into_string().map_err(|arg| format!("no text: {arg:?}"));
    let args: Vec<String> = args.map(text).collect::<Result<_, _>>()?;
    // A value may follow as the next word or after an equals sign.
    let mut words = args.iter().flat_map(|arg| match arg.split_once('=') {
        Some((option, value)) if option.starts_with('-') => vec![option, value],
        _ => vec![arg.as_str()],
    });
    let (mut selection, mut lists) = (Selection::default(), false);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match word {
            "--help" | "-h" => return Ok(Order::Help),
            CASE => return case(value()?, words.next()),
            "--list" => lists = true,
            "--json" => selection.json = true,
            "--show-output" => selection.show_output = true,
            "--exact" => selection.exact = true,
            "--ignored" => selection.ignored_only = true,
            "--way" => selection.ways.push(value()?.to_owned()),
            "--level" => selection.levels.push(level(value()?)?),
            "--skip" => selection.skips.push(value()?.to_owned()),
            option if option.starts_with('-') => {
                let known = OF_LIBTEST.iter().find(|(name, _)| *name == option);
                let (_, has_value) =
                    known.ok_or_else(|| format!("no option {option}\n\n{HELP}"))?;
                if *has_value {
                    value()?;
                }
            }
            filter => selection.filters.push(filter.to_owned()),
        }
    }
    Ok(match lists {
        true => Order::List(selection),
        false => Order::Run(selection),
    })
}

fn case(number: &str, way: Option<&str>) -> Result<Order, String> {
    let number = number.parse().map_err(|_| format!("no number: {number}"))?;
    let way = way.ok_or("a case needs a way")?.to_owned();
    Ok(Order::Case { number, way })
}

fn level(name: &str) -> Result<String, String> {
    let known = Level::ALL.iter().any(|level| level.name() == name);
    known
        .then(|| name.to_owned())
        .ok_or_else(|| format!("no level {name}\n\n{HELP}"))
}

impl Selection {
    /// Whether a case is asked for.
    pub(super) fn wants(&self, case: &Case<'_>) -> bool {
        let name = case.name();
        let is_in =
            |list: &[String], name: &str| list.is_empty() || list.iter().any(|one| one == name);
        !self.ignored_only
            && is_in(&self.ways, case.way.name())
            && is_in(&self.levels, case.contract.level.name())
            && (self.filters.is_empty() || self.filters.iter().any(|it| self.fits(it, &name, case)))
            && !self.skips.iter().any(|it| self.fits(it, &name, case))
    }

    fn fits(&self, filter: &str, name: &str, case: &Case<'_>) -> bool {
        match self.exact {
            true => name == filter,
            false => name.contains(filter) || case.contract.title.contains(filter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contracts;
    use crate::ways::{CommandLine, Embedded, Way};

    fn parsed(line: &str) -> Result<Order, String> {
        parse(line.split_whitespace().map(OsString::from))
    }

    fn chosen(line: &str) -> Vec<String> {
        let Ok(Order::Run(selection)) = parsed(line) else {
            panic!("{line:?} is no order to run");
        };
        let ways: [&dyn Way; 2] = [&Embedded, &CommandLine::SHARED];
        let cases = contracts()
            .into_iter()
            .flat_map(|contract| ways.map(|way| Case { contract, way }));
        let wanted = cases.filter(|case| selection.wants(case));
        wanted.map(|case| case.name()).collect()
    }

    #[test]
    fn filters_look_at_names_and_titles() {
        assert_eq!(
            chosen("contract-01"),
            ["contract-01/embedded", "contract-01/command-line"]
        );
        assert_eq!(chosen("--way=embedded zombie"), ["contract-65/embedded"]);
        assert_eq!(
            chosen("--exact contract-07/embedded"),
            ["contract-07/embedded"]
        );
        assert_eq!(chosen("--exact contract-07"), Vec::<String>::new());
        assert_eq!(
            chosen("contract-07 --skip command"),
            ["contract-07/embedded"]
        );
        assert_eq!(chosen("--ignored"), Vec::<String>::new());
        assert_eq!(chosen("").len(), 2 * contracts().len());
    }

    #[test]
    fn words_of_libtest_do_no_harm_and_unknown_ones_are_refused() {
        let all = chosen("").len();
        let libtest = "--nocapture --test-threads 1 --color=always -q --show-output";
        assert_eq!(chosen(libtest).len(), all);
        for wrong in ["--no-such", "--level silly", "--way", "--case x embedded"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_case_is_one_contract_and_one_way() {
        let (number, way) = (7, "embedded".to_owned());
        assert_eq!(parsed("--case 7 embedded"), Ok(Order::Case { number, way }));
    }
}
