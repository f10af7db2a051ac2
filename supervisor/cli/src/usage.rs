//! What is said of a command line that makes no sense.

use std::env;
use std::ffi::OsStr;
use std::process::ExitCode;

use crate::exit::Code;
use crate::failure::Failure;

/// Reports what the parser says. Help and version are no errors; everything else is one of usage, which
/// a program that has asked for a document gets as a document too.
pub(crate) fn report(error: &clap::Error) -> ExitCode {
    // With no terminal and no pipe left to print to there is nobody to tell.
    error.print().ok();
    if !error.use_stderr() {
        return ExitCode::SUCCESS;
    }
    if asks_for_json(env::args_os()) {
        failure(&error.render().to_string()).print_json();
    }
    Code::Usage.into()
}

/// Whether `--json` is among the words before the dashes. Where the parser failed it cannot be known
/// better: without dashes it may be the command's own, and then one document too many is printed.
fn asks_for_json(words: impl Iterator<Item = impl AsRef<OsStr>>) -> bool {
    let mut ours = words.take_while(|word| word.as_ref() != "--");
    ours.any(|word| word.as_ref() == "--json")
}

/// The parser's text: its first paragraph is the error, and a tip is a line of its own.
fn failure(text: &str) -> Failure {
    let first: Vec<&str> = text
        .lines()
        .take_while(|line| !line.is_empty())
        .map(str::trim)
        .collect();
    let message = first.join(" ");
    let message = message.strip_prefix("error: ").unwrap_or(&message);
    let failure = Failure::new("usage", Code::Usage, message);
    let tip = text.lines().find_map(|it| it.trim().strip_prefix("tip: "));
    failure.hint(tip.unwrap_or("`xioflow help VERB` explains a verb"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_behind_the_dashes_is_not_ours() {
        let asks = |line: &str| asks_for_json(line.split(' '));
        assert!(asks("xioflow run --timeout 30 --json -- x"));
        assert!(asks("xioflow lost --json"));
        assert!(!asks("xioflow run --timeout 30 -- x --json"));
        assert!(!asks("xioflow run --jsonx"));
    }
}
