//! Files that may be the last word of a helper.

use xioflow_protocol::{LastWord, LastWordError};

use crate::memory::bounded;

/// Checks the product's reader.
pub fn check(file: &[u8]) {
    check_with(LastWord::from_bytes, file);
}

/// Checks a reader: it never panics, takes memory for what the file has and not for what it claims, and what it reads
/// is the one thing that the file can mean.
///
/// # Panics
/// Where one of these does not hold.
pub fn check_with(read: impl Fn(&[u8]) -> Result<LastWord, LastWordError>, file: &[u8]) {
    let Ok(word) = bounded(file.len(), || read(file)) else {
        return;
    };
    let written = word.to_bytes().expect("what was in a file fits one");
    assert_eq!(
        read(&written).as_ref(),
        Ok(&word),
        "what was read cannot be written"
    );
    // The file is one item: half of it, or more than it, is damage.
    let half = &written[..written.len() - 1];
    assert!(
        read(half).is_err(),
        "a file that was cut is read as if it were whole"
    );
    let more = [written.as_slice(), &[0]].concat();
    assert!(
        read(&more).is_err(),
        "what follows the last word is not noticed"
    );
}
