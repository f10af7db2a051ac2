//! What is said to people of a stop action that was due and has not done its work. Pure.

use xioflow_kernel::StopActionResult;

/// Length of what is shown of its last words, in characters.
const COMPLAINT_MAX: usize = 160;

/// The line; none where it was not due, or has succeeded.
pub(super) fn line(action: &StopActionResult) -> Option<String> {
    let guidance = action.guidance.as_ref()?;
    let words = &action.words;
    let fate = match (action.ran, action.exit_code, &action.signal) {
        _ if action.timed_out == Some(true) => "did not end in its time".to_owned(),
        (Some(true), Some(code), _) => format!("failed with exit status {code}"),
        (Some(true), None, Some(signal)) => format!("was ended by {signal}"),
        (Some(false), ..) => format!("was not run{}", because(action)),
        _ => format!("is not known to have been run{}", because(action)),
    };
    let complaint = complaint(&action.stderr).map_or_else(String::new, |it| format!(": {it}"));
    Some(format!(
        "the stop action `{words}` {fate}{complaint}\n  hint: {guidance}"
    ))
}

fn because(action: &StopActionResult) -> String {
    let reason = action.reason.as_ref();
    reason.map_or_else(String::new, |reason| format!(", {reason}"))
}

/// The last line that it printed to standard error, which mostly says why.
fn complaint(stderr: &str) -> Option<String> {
    let last = stderr.lines().rev().find(|line| !line.trim().is_empty())?;
    let printable = last.chars().filter(|it| !it.is_control());
    Some(printable.take(COMPLAINT_MAX).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, from_value, json};

    fn line_of(changes: &Value) -> Option<String> {
        let mut document = json!({
            "words": "docker rm -f a", "when": "stopped", "timeoutMs": 10000, "ran": true,
            "reason": null, "exitCode": null, "signal": null, "timedOut": false, "spawnFailure": null,
            "treeSettlement": "empty", "residualPids": [], "stdout": "", "stderr": "",
            "isTruncated": false, "durationMs": 5, "guidance": "do it by hand",
        });
        for (name, value) in changes.as_object().unwrap() {
            document[name] = value.clone();
        }
        line(&from_value(document).unwrap())
    }

    #[test]
    fn one_that_failed_says_how_and_what_to_do() {
        let stderr = "trying\nno such container\u{1b}[0m\n\n";
        let told = line_of(&json!({ "exitCode": 1, "stderr": stderr })).unwrap();
        assert!(
            told.contains("`docker rm -f a` failed with exit status 1: no such container[0m\n"),
            "{told}"
        );
        assert!(told.ends_with("hint: do it by hand"), "{told}");
        let told = line_of(&json!({ "timedOut": true, "signal": "SIGTERM" })).unwrap();
        assert!(told.contains("did not end in its time"), "{told}");
        let told = line_of(&json!({ "ran": false, "reason": "its supervisor died" })).unwrap();
        assert!(told.contains("was not run, its supervisor died"), "{told}");
        let told = line_of(&json!({ "ran": null })).unwrap();
        assert!(told.contains("is not known to have been run"), "{told}");
    }

    #[test]
    fn one_that_nobody_has_to_care_about_is_silent() {
        assert_eq!(line_of(&json!({ "exitCode": 0, "guidance": null })), None);
        assert_eq!(line_of(&json!({ "ran": false, "guidance": null })), None);
    }
}
