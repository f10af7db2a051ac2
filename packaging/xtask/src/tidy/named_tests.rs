//! Pages that say which test holds what: each test that a row of theirs names exists.
//!
//! A test is named by suite, module and function (`command::stop::the_second_interrupt_kills`), one
//! that stands beside the code by its file and function (`supervisor/cli/src/size.rs::sizes_are_bytes`).

use std::path::{Path, PathBuf};

use super::Breach;
use crate::tool::read_file;

const SUITES: &str = "tests/suite/tests";

/// The tests that rows with this beginning name and that are not there.
pub(super) fn check(place: &str, page: &str, row: &str) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (line, name) in named_tests(page, row) {
        let (file, function) = place_of(name);
        let source = read_file(&file).unwrap_or_default();
        if !has_test(&String::from_utf8_lossy(&source), function) {
            breaches.push(Breach::new(
                format!("{place}:{line}"),
                format!("{} has no test {function}", file.display()),
                "name the test that holds it now",
            ));
        }
    }
    breaches
}

/// The names of tests in the rows, each with its line: what stands in backquotes and has a `::`.
fn named_tests<'p>(page: &'p str, row: &str) -> impl Iterator<Item = (usize, &'p str)> {
    let rows = page
        .lines()
        .enumerate()
        .filter(move |(_, line)| line.starts_with(row));
    rows.flat_map(|(index, line)| {
        let quoted = line.split('`').skip(1).step_by(2);
        quoted
            .filter(|word| word.contains("::"))
            .map(move |word| (index + 1, word))
    })
}

/// The file in which a named test stands, and its function.
fn place_of(name: &str) -> (PathBuf, &str) {
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
            place_of("command::stop::a"),
            (suite.join("command/stop.rs"), "a")
        );
        assert_eq!(place_of("memory::a"), (suite.join("memory.rs"), "a"));
        assert_eq!(
            place_of("reaper/src/ladder.rs::a"),
            ("reaper/src/ladder.rs".into(), "a")
        );
    }

    #[test]
    fn names_are_taken_from_rows() {
        let page = "`a::b::c`\n| R001 | text | kind | `a::b::d`, `--op` and `e::f::g` |\n";
        let found: Vec<_> = named_tests(page, "| R").collect();
        assert_eq!(found, [(2, "a::b::d"), (2, "e::f::g")]);
    }
}
