//! `docs/guarantees.md` gives each promise its mechanism, its limit, and the tests that hold it. A promise
//! without a test is a wish, so each row has to name at least one.

use std::path::Path;

use super::{Breach, named_tests};
use crate::tool::{Failure, read_file};

const PAGE: &str = "docs/guarantees.md";
/// How a row of a promise begins.
const ROW: &str = "| G";
/// Number, promise, mechanism, limit, tests.
const CELLS: usize = 5;

pub(super) fn check() -> Result<Vec<Breach>, Failure> {
    let page = String::from_utf8_lossy(&read_file(Path::new(PAGE))?).into_owned();
    let mut breaches = empty_promises(&page);
    breaches.extend(named_tests::check(PAGE, &page, ROW));
    Ok(breaches)
}

fn empty_promises(page: &str) -> Vec<Breach> {
    let rows = page.lines().enumerate();
    let rows = rows.filter(|(_, line)| line.starts_with(ROW));
    let empty = rows.filter(|(_, line)| !is_held(line));
    empty
        .map(|(index, _)| {
            Breach::new(
                format!("{PAGE}:{}", index + 1),
                "a promise without its mechanism, its limit, or a test",
                "say all three, or take the promise back",
            )
        })
        .collect()
}

fn is_held(row: &str) -> bool {
    let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
    let names_a_test = |cell: &str| {
        let mut quoted = cell.split('`').skip(1).step_by(2);
        quoted.any(|word| word.contains("::"))
    };
    cells.len() == CELLS
        && cells.iter().all(|cell| !cell.is_empty())
        && cells.last().is_some_and(|cell| names_a_test(cell))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_needs_all_of_it() {
        assert!(is_held("| G1 | a | b | c | `x::y` |"));
        assert!(!is_held("| G1 | a | b | | `x::y` |"), "no limit");
        assert!(!is_held("| G1 | a | b | c | by thought |"), "no test");
        assert!(!is_held("| G1 | a `b::c` | d | e |"), "a cell is missing");
        let page = "| no. | promise |\n| G1 | a | b | c | `x::y` |\n| G2 | a | b | c | d |\n";
        assert_eq!(empty_promises(page).len(), 1);
    }
}
