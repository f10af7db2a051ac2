//! bubblewrap: started with one writable folder, and made to write outside.

use serde_json::{Value, json};
use xioflow_sandbox::{DriverState, Failure, Loss, UserNamespaces, bubblewrap};

use super::report::Finding;

/// Runs the trial.
pub(super) fn look() -> Finding {
    judge(bubblewrap())
}

fn judge(state: DriverState) -> Finding {
    let facts = facts(&state);
    let finding = match state {
        DriverState::Ready {
            path,
            version,
            losses,
        } => {
            let name = version.unwrap_or_else(|| "a version that it does not tell".to_owned());
            let works = format!("{} ({name}) stopped a write outside", path.display());
            match losses.as_slice() {
                [] => Finding::ready(works),
                [Loss::ProcReadOnly, ..] => {
                    Finding::weaker(format!("{works}; /proc is read-only inside"))
                }
            }
        }
        DriverState::Broken { path, why, remedy } => {
            Finding::missing(format!("{} {why}", path.display())).with_remedy(remedy)
        }
        DriverState::Absent { remedy } => {
            Finding::missing("bwrap is not in PATH").with_remedy(remedy)
        }
        DriverState::CannotTell { why } => Finding::cannot_tell(why),
    };
    finding.with_facts(facts)
}

fn facts(state: &DriverState) -> Value {
    match state {
        DriverState::Ready {
            path,
            version,
            losses,
        } => json!({
            "path": path.to_string_lossy(),
            "version": version,
            "losses": losses.iter().map(|loss| loss.name()).collect::<Vec<_>>(),
        }),
        DriverState::Broken { path, why, .. } => json!({
            "path": path.to_string_lossy(),
            "failure": failure(why),
            "userNamespaces": user_namespaces(UserNamespaces::observe()),
        }),
        DriverState::Absent { .. } | DriverState::CannotTell { .. } => json!({ "path": null }),
    }
}

fn failure(why: &Failure) -> Value {
    match why {
        Failure::NotRun { why } => json!({ "kind": "not_run", "why": why }),
        Failure::TimedOut { limit_ms } => {
            json!({ "kind": "timed_out", "limitMs": u64::try_from(*limit_ms).ok() })
        }
        Failure::NotWritten {
            exit_code,
            signal,
            first_line,
        } => json!({
            "kind": "not_written",
            "exitCode": exit_code,
            "signal": signal,
            "firstLine": first_line,
        }),
        Failure::Escaped => json!({ "kind": "escaped" }),
    }
}

fn user_namespaces(settings: UserNamespaces) -> Value {
    json!({
        "apparmorRestricts": settings.apparmor_restricts,
        "unprivilegedClone": settings.unprivileged_clone,
        "max": settings.max,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::report::{Check, Verdict};

    fn check(state: DriverState) -> Check {
        Check::new("bubblewrap", "bubblewrap", false, judge(state))
    }

    #[test]
    fn every_state_has_its_verdict() {
        let ready = |losses| DriverState::Ready {
            path: "/usr/bin/bwrap".into(),
            version: None,
            losses,
        };
        assert_eq!(check(ready(Vec::new())).verdict, Verdict::Ready);
        assert_eq!(
            check(ready(vec![Loss::ProcReadOnly])).verdict,
            Verdict::Weaker
        );
        let unknown = DriverState::CannotTell {
            why: "no room".to_owned(),
        };
        assert_eq!(check(unknown).verdict, Verdict::CannotTell);
    }

    #[test]
    fn one_that_is_broken_shows_its_words_and_the_remedy() {
        let why = Failure::NotWritten {
            exit_code: Some(1),
            signal: None,
            first_line: Some("no permission".to_owned()),
        };
        let remedy = Some("sudo sysctl -w user.max_user_namespaces=15000".to_owned());
        let path = "/usr/bin/bwrap".into();
        let check = check(DriverState::Broken {
            path,
            why,
            remedy: remedy.clone(),
        });
        assert_eq!(check.verdict, Verdict::Missing);
        assert!(check.detail.ends_with("no permission"), "{}", check.detail);
        assert_eq!(check.remedy, remedy);
        assert_eq!(check.facts["failure"]["exitCode"], 1);
    }
}
