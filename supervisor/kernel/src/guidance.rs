//! What a person is told to do about an operation whose end cannot be proven.

/// Advice with the command that gives the operation its outcome.
pub(crate) fn adjudicate(operation_id: &str, advice: &str) -> String {
    let id = as_argument(operation_id);
    format!(
        "{advice}; then `xioflow adjudicate {id} confirmed_stopped --actor NAME` frees its leases, which it keeps until then"
    )
}

/// The id as a shell takes it, and as nothing but an id.
fn as_argument(text: &str) -> String {
    match text.starts_with(['-', '=']) {
        true => quoted(text),
        false => as_word(text),
    }
}

/// A word as a shell takes it.
pub(crate) fn as_word(text: &str) -> String {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "-_.,:/@%+=#".contains(it);
    match text.chars().all(is_plain) && !text.is_empty() && !text.starts_with('#') {
        true => text.to_owned(),
        false => quoted(text),
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_can_be_pasted() {
        for (id, argument) in [
            ("build-7", "build-7"),
            ("a/b:c#1", "a/b:c#1"),
            ("two words", "'two words'"),
            ("it's", r"'it'\''s'"),
            ("$(rm)", "'$(rm)'"),
            ("#1", "'#1'"),
        ] {
            let text = adjudicate(id, "look");
            let expected = format!("`xioflow adjudicate {argument} confirmed_stopped");
            assert!(text.contains(&expected), "{text}");
        }
    }
}
