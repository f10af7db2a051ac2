//! Rules that hold line by line: length of files, their opening, words that have no place here.

use std::path::{Path, PathBuf};

use super::Breach;
use crate::tool::{Failure, read_file};

/// Near this length a file has more than one idea.
const FILE_LINES_MAX: usize = 600;

/// Paths of one person's machine. Put together here, so that this file does not break its rule.
const PRIVATE_PATHS: [&str; 3] = [
    concat!("/", "root/"),
    concat!("/", "home/"),
    concat!("/", "work/"),
];

/// Whose folder an example may show.
const NOBODYS_FOLDER: &str = concat!("/", "home/me/");

const SLEEP: &str = concat!("thread::", "sleep");

pub(super) fn check(files: &[PathBuf]) -> Result<Vec<Breach>, Failure> {
    let mut breaches = Vec::new();
    for path in files {
        let bytes = read_file(path)?;
        if let Ok(text) = std::str::from_utf8(&bytes) {
            breaches.extend(check_text(path, text));
        }
    }
    Ok(breaches)
}

fn check_text(path: &Path, text: &str) -> Vec<Breach> {
    let is_rust = path.extension().is_some_and(|extension| extension == "rs");
    let mut breaches = Vec::new();
    if is_rust {
        breaches.extend(length(path, text));
        breaches.extend(opening(path, text));
    }
    for (index, line) in text.lines().enumerate() {
        let place = || format!("{}:{}", path.display(), index + 1);
        if let Some(word) = private_path(line) {
            breaches.push(Breach::new(
                place(),
                format!("{word:?} is a path of one machine"),
                "name the file from the top of the work tree, or by what it is",
            ));
        }
        if is_rust && path.starts_with("tests") && line.contains(SLEEP) {
            breaches.push(Breach::new(
                place(),
                "a sleep is no synchronisation",
                "wait for the fact, by xioflow_kit::wait or a fixture's --ready",
            ));
        }
    }
    breaches
}

fn length(path: &Path, text: &str) -> Option<Breach> {
    let lines = text.lines().count();
    (lines > FILE_LINES_MAX).then(|| {
        let fault = format!("{lines} lines, at most {FILE_LINES_MAX} are allowed");
        Breach::new(
            path.display(),
            fault,
            "split it where its second idea begins",
        )
    })
}

fn opening(path: &Path, text: &str) -> Option<Breach> {
    (!text.starts_with("//!")).then(|| {
        let fault = "does not say what it is for";
        Breach::new(
            path.display(),
            fault,
            "open it by `//!`: its job, and its neighbours",
        )
    })
}

/// A private path in the line, unless it is the middle of a longer one.
fn private_path(line: &str) -> Option<&'static str> {
    PRIVATE_PATHS.into_iter().find(|word| {
        line.match_indices(word).any(|(at, _)| {
            if line[at..].starts_with(NOBODYS_FOLDER) {
                return false;
            }
            let before = line[..at].chars().next_back();
            before.is_none_or(|letter| !(letter.is_alphanumeric() || "_-./}<>*~".contains(letter)))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(path: &str, text: &str) -> Vec<String> {
        check_text(Path::new(path), text)
            .into_iter()
            .map(|breach| breach.fault)
            .collect()
    }

    #[test]
    fn a_file_in_order_breaks_nothing() {
        assert_eq!(
            faults("a/src/lib.rs", "//! Text.\n\nfn f() {}\n"),
            Vec::<String>::new()
        );
        assert_eq!(faults("docs/a.md", "any text\n"), Vec::<String>::new());
    }

    #[test]
    fn a_long_file_is_named_with_its_length() {
        let lines = "//!\n".repeat(FILE_LINES_MAX);
        assert_eq!(faults("a.rs", &lines), Vec::<String>::new());
        let found = faults("a.rs", &format!("{lines}//!\n"));
        assert_eq!(found, ["601 lines, at most 600 are allowed"]);
    }

    #[test]
    fn a_file_has_to_open_with_its_job() {
        assert_eq!(
            faults("a.rs", "fn f() {}\n"),
            ["does not say what it is for"]
        );
    }

    #[test]
    fn private_paths_are_found_and_longer_ones_are_not() {
        for word in PRIVATE_PATHS {
            assert_eq!(private_path(&format!("see {word}notes")), Some(word));
            assert_eq!(private_path(&format!("`{word}notes`")), Some(word));
            assert_eq!(private_path(&format!("var{word}notes")), None);
            assert_eq!(private_path(&format!("{{tmp}}{word}notes")), None);
        }
        assert_eq!(private_path(&format!("see {NOBODYS_FOLDER}project")), None);
    }

    #[test]
    fn a_sleep_is_only_forbidden_in_tests() {
        let text = format!("//! Text.\n{SLEEP}(a);\n");
        assert_eq!(
            faults("tests/kit/a.rs", &text),
            ["a sleep is no synchronisation"]
        );
        assert_eq!(faults("reaper/src/a.rs", &text), Vec::<String>::new());
    }
}
