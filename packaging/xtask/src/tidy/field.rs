//! `tests/field.md` says of each report from the field which tests hold it, and those tests exist.
//!
//! A test is named by suite, module and function (`command::stop::the_second_interrupt_kills`), one
//! that stands beside the code by its file and function (`supervisor/cli/src/size.rs::sizes_are_bytes`).

use std::path::{Path, PathBuf};

use super::Breach;
use crate::tool::{Failure, read_file};

const PAGE: &str = "tests/field.md";
const SUITES: &str = "tests/suite/tests";

/// The reports that need a row of their own, by topic. The other topics have one line each.
const REPORTS: [(&str, &[u16]); 11] = [
    ("descendants", &[1, 2, 3, 4, 6, 7, 8, 9]),
    ("held pipes", &[10, 11, 13, 14, 15, 16]),
    ("timeouts", &[20, 22, 23, 25, 26, 27, 28, 29]),
    ("lost statuses", &[40, 41, 43, 44, 45]),
    ("wrappers", &[61, 62, 63, 64]),
    ("exit facts", &[70, 72, 73]),
    ("failed starts", &[80, 81, 83, 84]),
    ("output", &[90, 91, 92, 94, 95, 96, 97, 98, 99]),
    ("input", &[101, 102, 103, 104]),
    ("job control", &[111]),
    ("inheritance", &[120, 122]),
];

pub(super) fn check() -> Result<Vec<Breach>, Failure> {
    let page = String::from_utf8_lossy(&read_file(Path::new(PAGE))?).into_owned();
    let mut breaches = missing_rows(&page);
    for (line, name) in named_tests(&page) {
        let (file, function) = place(name);
        let source = read_file(&file).unwrap_or_default();
        if !has_test(&String::from_utf8_lossy(&source), function) {
            breaches.push(Breach::new(
                format!("{PAGE}:{line}"),
                format!("{} has no test {function}", file.display()),
                "name the test that holds the report now",
            ));
        }
    }
    Ok(breaches)
}

fn missing_rows(page: &str) -> Vec<Breach> {
    let reports = REPORTS
        .iter()
        .flat_map(|(topic, numbers)| numbers.iter().map(move |it| (topic, it)));
    let is_missing = |number: u16| {
        let mark = format!("| R{number:03} |");
        !page
            .lines()
            .any(|line| line.starts_with(&mark) && is_answered(line))
    };
    reports
        .filter(|(_, number)| is_missing(**number))
        .map(|(topic, number)| {
            Breach::new(
                PAGE,
                format!("report {number:03} ({topic}) has no row, or one that does not answer it"),
                "say which tests hold it, why it does not apply, or who will",
            )
        })
        .collect()
}

/// Whether every cell of a row says something.
fn is_answered(row: &str) -> bool {
    let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
    cells.len() == 4 && cells.iter().all(|cell| !cell.is_empty())
}

/// The names of tests in the rows, each with its line: what stands in backquotes and has a `::`.
fn named_tests(page: &str) -> impl Iterator<Item = (usize, &str)> {
    let rows = page
        .lines()
        .enumerate()
        .filter(|(_, line)| line.starts_with("| R"));
    rows.flat_map(|(index, line)| {
        let quoted = line.split('`').skip(1).step_by(2);
        quoted
            .filter(|word| word.contains("::"))
            .map(move |word| (index + 1, word))
    })
}

/// The file in which a named test stands, and its function.
fn place(name: &str) -> (PathBuf, &str) {
    let (path, function) = name.rsplit_once("::").unwrap_or(("", name));
    let file = if path.contains('/') {
        PathBuf::from(path)
    } else {
        Path::new(SUITES)
            .join(path.replace("::", "/"))
            .with_extension("rs")
    };
    (file, function)
}

/// Whether a source has a function of this name that is a test.
fn has_test(source: &str, function: &str) -> bool {
    let lines: Vec<_> = source.lines().map(str::trim).collect();
    let head = format!("fn {function}(");
    lines.iter().enumerate().any(|(at, line)| {
        let above = lines[..at].iter().rev();
        let mut attributes =
            above.take_while(|line| line.starts_with("#[") || line.starts_with("//"));
        line.starts_with(&head) && attributes.any(|line| *line == "#[test]")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "#[test]\n/// Text.\n#[expect(a)]\nfn held() {\n}\n\nfn helper() {\n}\n";

    #[test]
    fn only_a_test_holds_a_report() {
        assert!(has_test(SOURCE, "held"));
        assert!(
            !has_test(SOURCE, "helper"),
            "it has no attribute of its own"
        );
        assert!(!has_test(SOURCE, "hel"));
        assert!(!has_test("", "held"));
    }

    #[test]
    fn a_name_says_where_a_test_is() {
        let suite = PathBuf::from(SUITES);
        assert_eq!(
            place("command::stop::a"),
            (suite.join("command/stop.rs"), "a")
        );
        assert_eq!(place("memory::a"), (suite.join("memory.rs"), "a"));
        assert_eq!(
            place("reaper/src/ladder.rs::a"),
            ("reaper/src/ladder.rs".into(), "a")
        );
    }

    #[test]
    fn names_are_taken_from_rows() {
        let page = "`a::b::c`\n| R001 | text | kind | `a::b::d`, `--op` and `e::f::g` |\n";
        let found: Vec<_> = named_tests(page).collect();
        assert_eq!(found, [(2, "a::b::d"), (2, "e::f::g")]);
    }

    #[test]
    fn every_report_needs_an_answer() {
        let all: usize = REPORTS.iter().map(|(_, numbers)| numbers.len()).sum();
        assert_eq!(missing_rows("").len(), all);
        let row = "| R001 | text | kind | services |\n";
        assert_eq!(missing_rows(row).len(), all - 1);
        assert_eq!(
            missing_rows("| R001 | text | kind | |\n").len(),
            all,
            "an empty cell is no answer"
        );
    }
}
