//! The values of a report. Their JSON is what `doctor --json` prints.
//!
//! Neighbours: each check makes a [`Finding`], `render` writes the whole for people.

use serde::Serialize;
use serde_json::Value;

/// What a check found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    /// It works, and was seen to work.
    Ready,
    /// It works with something missing.
    Weaker,
    /// It does not work.
    Missing,
    /// The question could not be put.
    CannotTell,
}

/// The part of a check that depends on the host.
#[derive(Debug)]
pub(super) struct Finding {
    verdict: Verdict,
    detail: String,
    facts: Value,
    remedy: Option<String>,
}

impl Finding {
    /// A verdict and the sentence that says what it rests on.
    pub(super) fn new(verdict: Verdict, detail: impl Into<String>) -> Self {
        Self {
            verdict,
            detail: detail.into(),
            facts: Value::Object(serde_json::Map::new()),
            remedy: None,
        }
    }

    pub(super) fn ready(detail: impl Into<String>) -> Self {
        Self::new(Verdict::Ready, detail)
    }

    pub(super) fn weaker(detail: impl Into<String>) -> Self {
        Self::new(Verdict::Weaker, detail)
    }

    pub(super) fn missing(detail: impl Into<String>) -> Self {
        Self::new(Verdict::Missing, detail)
    }

    pub(super) fn cannot_tell(detail: impl Into<String>) -> Self {
        Self::new(Verdict::CannotTell, detail)
    }

    /// Adds the raw facts, as an object.
    pub(super) fn with_facts(self, facts: Value) -> Self {
        Self { facts, ..self }
    }

    /// Adds the command that mends it.
    pub(super) fn with_remedy(self, remedy: Option<String>) -> Self {
        Self { remedy, ..self }
    }
}

/// One check of a report.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Check {
    /// A stable name.
    pub(crate) id: &'static str,
    /// The name for people.
    pub(crate) title: &'static str,
    /// Whether a command without limits and confinement needs it; of a domain, whether it is unsound without it.
    pub(crate) required: bool,
    /// What was found out.
    pub(crate) verdict: Verdict,
    /// One sentence.
    pub(crate) detail: String,
    /// What the verdict rests on, as an object; a fact that was not observed is null.
    pub(crate) facts: Value,
    /// The commands that mend it, one a line; null where nothing is to be mended, or nobody knows how.
    pub(crate) remedy: Option<String>,
}

impl Check {
    pub(super) fn new(
        id: &'static str,
        title: &'static str,
        required: bool,
        finding: Finding,
    ) -> Self {
        let Finding {
            verdict,
            detail,
            facts,
            remedy,
        } = finding;
        Self {
            id,
            title,
            required,
            verdict,
            detail,
            facts,
            remedy,
        }
    }

    /// Whether a command can run as far as this check goes.
    fn allows_commands(&self) -> bool {
        !self.required || matches!(self.verdict, Verdict::Ready | Verdict::Weaker)
    }
}

/// What is examined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    /// Whether this host can run commands under supervision.
    Host,
    /// Whether a domain is sound.
    Domain,
}

/// Everything that was examined.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    #[serde(skip)]
    pub(super) subject: Subject,
    /// The checks, in their order.
    pub(crate) checks: Vec<Check>,
    /// Whether a command without limits and confinement can run here; of a domain, whether it is sound.
    pub(crate) ready: bool,
}

impl Report {
    pub(super) fn new(subject: Subject, checks: Vec<Check>) -> Self {
        let ready = checks.iter().all(Check::allows_commands);
        Self {
            subject,
            checks,
            ready,
        }
    }

    /// How many checks have this verdict.
    pub(super) fn count(&self, verdict: Verdict) -> usize {
        self.checks
            .iter()
            .filter(|check| check.verdict == verdict)
            .count()
    }
}

/// The message of an error and of everything that caused it, on one line.
pub(super) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(required: bool, verdict: Verdict) -> Check {
        Check::new(
            "some-check",
            "some check",
            required,
            Finding::new(verdict, "because"),
        )
    }

    #[test]
    fn only_what_is_required_decides() {
        let ready =
            |required, verdict| Report::new(Subject::Host, vec![check(required, verdict)]).ready;
        assert!(ready(true, Verdict::Ready));
        assert!(ready(true, Verdict::Weaker));
        assert!(!ready(true, Verdict::Missing));
        assert!(!ready(true, Verdict::CannotTell));
        assert!(ready(false, Verdict::Missing));
        assert!(ready(false, Verdict::CannotTell));
    }

    #[test]
    fn the_json_has_these_names() {
        let finding = Finding::cannot_tell("because")
            .with_facts(json!({ "fsType": "tmpfs" }))
            .with_remedy(Some("true".to_owned()));
        let report = Report::new(
            Subject::Host,
            vec![Check::new("some-check", "some check", true, finding)],
        );
        let expected = json!({
            "checks": [{
                "id": "some-check",
                "title": "some check",
                "required": true,
                "verdict": "cannot_tell",
                "detail": "because",
                "facts": { "fsType": "tmpfs" },
                "remedy": "true",
            }],
            "ready": false,
        });
        assert_eq!(
            serde_json::to_value(&report).expect("plain values"),
            expected
        );
    }
}
