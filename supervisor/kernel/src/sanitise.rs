//! Keeps secrets out of a Run's recorded configuration. Pure.

use serde_json::{Map, Value};

/// A key with one of these words in it is dropped.
const SECRET_WORDS: &[&str] = &["token", "key", "secret", "password", "auth", "credential"];

/// Keys that are kept with whatever they hold, also when a word in them looks like a secret's.
const KEPT: &[&str] = &[
    "model",
    "temperature",
    "maxTokens",
    "cwd",
    "timeoutMs",
    "maxRetries",
    "mode",
    "environment",
    "permissionScope",
    "toolsAllowed",
];

/// What of `config` may be recorded: the known keys, and every other plain value whose key has
/// no word of a secret in it.
pub(crate) fn config(config: &Value) -> Value {
    let Value::Object(fields) = config else {
        return Value::Object(Map::new());
    };
    let kept = fields.iter().filter(|(key, value)| {
        KEPT.contains(&key.as_str()) || (is_plain(value) && !is_secret(key))
    });
    Value::Object(
        kept.map(|(key, value)| (key.clone(), value.clone()))
            .collect(),
    )
}

fn is_plain(value: &Value) -> bool {
    !matches!(value, Value::Array(_) | Value::Object(_))
}

/// Compares whole words of the key, so that `monkey` is not taken for one with `key` in it; a
/// plural counts as its singular.
fn is_secret(key: &str) -> bool {
    words(key).iter().any(|word| {
        let singular = word.strip_suffix('s').unwrap_or(word);
        SECRET_WORDS
            .iter()
            .any(|secret| *secret == word || *secret == singular)
    }) || SECRET_WORDS
        .iter()
        .any(|secret| key.to_ascii_lowercase().ends_with(secret))
}

/// The words of a key in camel, snake or kebab case, in lower case.
fn words(key: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before_upper = false;
    for letter in key.chars() {
        // Capitals in a row are one word, as in AUTH_HEADER.
        let starts = !letter.is_alphanumeric() || (letter.is_uppercase() && !before_upper);
        before_upper = letter.is_uppercase();
        let current = words.last().map_or("", String::as_str);
        if starts && !current.is_empty() {
            words.push(String::new());
        }
        if letter.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(letter.to_lowercase());
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn secrets_go_and_settings_stay() {
        let all = json!({
            "maxTokens": 5, "apiKey": "x", "AUTH_HEADER": "x", "my-secret": "x", "db_password": "x",
            "awsCredentials": "x", "cwd": "/w", "retries": 2, "nested": {"a": 1}, "author": "ann",
            "toolsAllowed": ["a"], "APIKEY": "x", "keys": "x",
        });
        let kept = json!({
            "maxTokens": 5, "cwd": "/w", "retries": 2, "author": "ann", "toolsAllowed": ["a"],
        });
        assert_eq!(config(&all), kept);
    }

    #[test]
    fn what_is_no_object_has_no_configuration() {
        assert_eq!(config(&json!("secret")), json!({}));
    }
}
