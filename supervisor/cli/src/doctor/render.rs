//! Writes a report for people, and as JSON.
//!
//! Styles are written as escape sequences always: pass an [`anstream::AutoStream`], which takes
//! them out where there is no terminal or `NO_COLOR` is set.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};

use super::report::{Check, Report, Subject, Verdict};

/// One line per check, its remedy on a line of its own, and a summary.
///
/// # Errors
/// Those of the writer.
pub(crate) fn render(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let width = report
        .checks
        .iter()
        .map(|check| check.title.chars().count())
        .max()
        .unwrap_or(0);
    for check in &report.checks {
        render_check(check, width, out)?;
    }
    let (style, line) = summary(report);
    writeln!(out, "\n{style}{line}{style:#}")
}

/// The report as one JSON document and a newline.
///
/// # Errors
/// Those of the writer.
pub(crate) fn render_json(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, report)?;
    writeln!(out)
}

fn render_check(check: &Check, width: usize, out: &mut dyn Write) -> io::Result<()> {
    let (mark, word, style) = appearance(check.verdict);
    writeln!(
        out,
        "{style}{mark}{style:#} {title:width$}  {style}{word:11}{style:#}  {detail}",
        title = check.title,
        detail = check.detail,
    )?;
    let remedy = check.remedy.as_deref().unwrap_or_default();
    remedy
        .lines()
        .try_for_each(|line| writeln!(out, "    → {line}"))
}

const fn appearance(verdict: Verdict) -> (char, &'static str, Style) {
    match verdict {
        Verdict::Ready => ('✓', "ready", colour(AnsiColor::Green)),
        Verdict::Weaker => ('~', "weaker", colour(AnsiColor::Yellow)),
        Verdict::Missing => ('✗', "missing", colour(AnsiColor::Red)),
        Verdict::CannotTell => ('?', "cannot tell", colour(AnsiColor::Magenta)),
    }
}

const fn colour(colour: AnsiColor) -> Style {
    colour.on_default()
}

fn summary(report: &Report) -> (Style, String) {
    let counts = [
        (Verdict::Ready, "ready"),
        (Verdict::Weaker, "weaker"),
        (Verdict::Missing, "missing"),
        (Verdict::CannotTell, "unknown"),
    ];
    let counts = counts
        .iter()
        .map(|(verdict, word)| (report.count(*verdict), word));
    let counts: Vec<_> = counts
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    let style = match report.ready {
        true => colour(AnsiColor::Green),
        false => colour(AnsiColor::Red),
    };
    let sentence = match (report.subject, report.ready) {
        (Subject::Host, true) => "Commands can run under supervision here",
        (Subject::Host, false) => "Commands cannot run under supervision here",
        (Subject::Domain, true) => "This domain is sound",
        (Subject::Domain, false) => "This domain is not sound",
    };
    (style.bold(), format!("{sentence} ({}).", counts.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::report::Finding;

    fn plain(report: &Report) -> String {
        let mut bytes = Vec::new();
        render(report, &mut anstream::StripStream::new(&mut bytes)).expect("memory takes all");
        String::from_utf8(bytes).expect("text")
    }

    fn report() -> Report {
        let remedy = Some("sudo apt-get install bubblewrap".to_owned());
        Report::new(
            Subject::Host,
            vec![
                Check::new(
                    "helper",
                    "helper program",
                    true,
                    Finding::ready("it answers"),
                ),
                Check::new(
                    "git",
                    "git",
                    false,
                    Finding::missing("not found").with_remedy(remedy),
                ),
            ],
        )
    }

    #[test]
    fn a_line_for_each_check_its_remedy_and_a_summary() {
        let expected = "\
✓ helper program  ready        it answers
✗ git             missing      not found
    → sudo apt-get install bubblewrap

Commands can run under supervision here (1 ready, 1 missing).
";
        assert_eq!(plain(&report()), expected);
    }

    #[test]
    fn the_summary_says_what_ready_says() {
        let broken = Report::new(
            Subject::Host,
            vec![Check::new("helper", "helper", true, Finding::missing("no"))],
        );
        assert!(
            plain(&broken).ends_with("Commands cannot run under supervision here (1 missing).\n")
        );
    }

    #[test]
    fn json_is_one_document() {
        let mut bytes = Vec::new();
        render_json(&report(), &mut bytes).expect("memory takes all");
        let value: serde_json::Value = serde_json::from_slice(&bytes).expect("one document");
        assert_eq!(value["ready"], true);
        assert_eq!(value["checks"].as_array().map(Vec::len), Some(2));
    }
}
