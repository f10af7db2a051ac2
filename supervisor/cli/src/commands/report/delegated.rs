//! What is said to people of work that may live outside of a command's tree. Pure.

use xioflow_kernel::{Delegated, OperationResult};

/// How the command came to its end, as far as that tells what it wanted to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// It has done what it was asked for.
    Succeeded,
    /// It came to an exit of its own, and has not.
    Failed,
    /// It was stopped or killed in the middle of its work, or its end was not seen.
    CutShort,
}

impl End {
    fn of(result: &OperationResult) -> Self {
        match result.exit_code {
            Some(0) if result.stop.is_none() => Self::Succeeded,
            Some(_) if result.stop.is_none() => Self::Failed,
            _ => Self::CutShort,
        }
    }
}

/// One line for each client of which there is reason to say something.
pub(super) fn lines(result: &OperationResult) -> Vec<String> {
    let all = result.delegated.as_deref().unwrap_or_default();
    lines_of(all, End::of(result))
}

fn lines_of(all: &[Delegated], end: End) -> Vec<String> {
    let matters = |one: &&Delegated| match end {
        // Success is silent, but for what goes on after it on purpose.
        End::Succeeded => one.is_meant_to_go_on,
        End::Failed => false,
        // A connection that nobody knows how to look behind is in the document only.
        End::CutShort => one.look.is_some() || one.socket.is_none(),
    };
    let mut told: Vec<&str> = Vec::new();
    let mut lines = Vec::new();
    for one in all.iter().filter(matters) {
        let (Some(client), Some(may_leave)) = (&one.client, &one.may_leave) else {
            continue;
        };
        if !told.contains(&client.as_str()) {
            told.push(client);
            lines.push(line(client, may_leave, one));
        }
    }
    lines
}

fn line(client: &str, may_leave: &str, one: &Delegated) -> String {
    let mut text = format!("{client} may have left {may_leave}, outside of what this tree started");
    let ways = [(&one.look, "shows"), (&one.stop, "ends")];
    let ways: Vec<String> = ways
        .into_iter()
        .filter_map(|(command, does)| Some(format!("`{}` {does} them", command.as_ref()?)))
        .collect();
    if !ways.is_empty() {
        text += "\n  hint: ";
        text += &ways.join(", ");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    fn docker(goes_on: bool) -> Delegated {
        let document = json!({
            "client": "docker", "evidence": "command", "pid": null, "socket": null,
            "mayLeave": "containers", "isMeantToGoOn": goes_on,
            "look": "docker ps --all", "stop": "docker rm --force NAME",
        });
        from_value(document).unwrap()
    }

    fn connection(client: Option<&str>) -> Delegated {
        let document = json!({
            "client": client, "evidence": "socket", "pid": 7, "socket": "/srv/a.sock",
            "mayLeave": client.map(|_| "whatever"), "isMeantToGoOn": false, "look": null, "stop": null,
        });
        from_value(document).unwrap()
    }

    #[test]
    fn who_came_to_an_exit_of_his_own_has_left_only_what_he_meant_to() {
        assert_eq!(lines_of(&[docker(false)], End::Succeeded), [""; 0]);
        assert_eq!(lines_of(&[docker(true)], End::Succeeded).len(), 1);
        assert_eq!(lines_of(&[docker(true)], End::Failed), [""; 0]);
    }

    #[test]
    fn who_was_cut_short_may_have_left_something() {
        let lines = lines_of(&[docker(false), docker(true)], End::CutShort);
        assert_eq!(lines.len(), 1, "each is told once");
        assert!(
            lines[0].contains("outside of what this tree started"),
            "{lines:?}"
        );
        assert!(lines[0].contains("`docker ps --all`"), "{lines:?}");
    }

    #[test]
    fn a_connection_that_tells_nobody_what_to_do_is_not_told() {
        let vague = [connection(None), connection(Some("dbus-send"))];
        assert_eq!(lines_of(&vague, End::CutShort), [""; 0]);
    }
}
