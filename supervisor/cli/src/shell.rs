//! Words of a shell, for commands that people paste out of a hint or a remedy.

use std::path::Path;

/// A path as a word.
pub(crate) fn path(path: &Path) -> String {
    word(&path.to_string_lossy())
}

/// A text as a word.
pub(crate) fn word(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+:=@%".contains(&byte);
    if !text.is_empty() && text.bytes().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_of_a_shell_is_one() {
        assert_eq!(word("build-7"), "build-7");
        assert_eq!(word("a b"), "'a b'");
        assert_eq!(word("$(rm -rf ~)"), "'$(rm -rf ~)'");
        assert_eq!(word("it's"), r"'it'\''s'");
        assert_eq!(word(""), "''");
        assert_eq!(path(Path::new("/srv/a b")), "'/srv/a b'");
    }
}
