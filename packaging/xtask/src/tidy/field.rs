//! `tests/field.md` says of each report from the field which tests hold it, and has a row for each that
//! needs one. That the tests exist is `named_tests`' business.

use std::path::Path;

use super::{Breach, named_tests};
use crate::tool::{Failure, read_file};

const PAGE: &str = "tests/field.md";

/// The reports that need a row of their own, by topic. The other topics have one line each.
const REPORTS: [(&str, &[u16]); 16] = [
    ("descendants", &[1, 2, 3, 4, 6, 7, 8, 9]),
    ("held pipes", &[10, 11, 13, 14, 15, 16]),
    ("timeouts", &[20, 22, 23, 25, 26, 27, 28, 29]),
    ("pid reuse", &[30, 31, 32, 33, 34, 35, 36, 38]),
    ("lost statuses", &[40, 41, 43, 44, 45]),
    ("deaths", &[50, 51, 52, 54]),
    ("wrappers", &[61, 62, 63, 64]),
    ("exit facts", &[70, 72, 73]),
    ("failed starts", &[80, 81, 83, 84]),
    ("output", &[90, 91, 92, 94, 95, 96, 97, 98, 99]),
    ("input", &[101, 102, 103, 104]),
    ("job control", &[111]),
    ("inheritance", &[120, 122]),
    ("control groups", &[132, 133, 134]),
    ("record", &[160, 162, 163, 164, 165]),
    ("database", &[170, 172, 173, 174, 175, 176]),
];

pub(super) fn check() -> Result<Vec<Breach>, Failure> {
    let page = String::from_utf8_lossy(&read_file(Path::new(PAGE))?).into_owned();
    let mut breaches = missing_rows(&page);
    breaches.extend(named_tests::check(PAGE, &page, "| R"));
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

#[cfg(test)]
mod tests {
    use super::*;

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
