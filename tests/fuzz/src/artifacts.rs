//! The names of an operation's files, for any two ids.
//!
//! An input is two ids with a byte between them that no text has.

use std::collections::BTreeSet;

use xioflow_journal::Stream;
use xioflow_kernel::artifact_name;

/// Between the two ids of an input.
pub const BETWEEN: u8 = 0xff;

/// Longest name of a file, in bytes, where a file system encrypts names (eCryptfs); others allow 255.
const NAME_MAX: usize = 143;

/// Checks the product's names.
pub fn check(input: &[u8]) {
    check_with(artifact_name, input);
}

/// Checks names: a name stays in its folder, every file system takes it, and no two ids or streams share one, whether
/// case counts there or not.
///
/// # Panics
/// Where one of these does not hold.
pub fn check_with(name_of: impl Fn(&str, Stream) -> String, input: &[u8]) {
    let ids: Option<Vec<&str>> = input
        .splitn(2, |byte| *byte == BETWEEN)
        .map(|id| std::str::from_utf8(id).ok())
        .collect();
    let Some(ids) = ids else { return };
    let ids: BTreeSet<&str> = ids.into_iter().collect();
    let mut names = BTreeSet::new();
    for id in ids {
        for stream in Stream::ALL {
            let name = name_of(id, *stream);
            check_name(&name);
            assert_eq!(name, name_of(id, *stream), "the name of {id:?} changes");
            assert!(names.insert(name.to_lowercase()), "{name:?} belongs to two");
        }
    }
}

fn check_name(name: &str) {
    assert!(
        !name.is_empty() && name.len() <= NAME_MAX,
        "{name:?} has a length that names cannot have"
    );
    assert!(
        !name.starts_with(['.', '-']),
        "{name:?} is hidden, or an option"
    );
    // Nothing that leaves the folder, that a shell or a terminal takes for something else, or that a file system
    // writes differently (ASCII is the same in every normal form).
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-~".contains(&byte);
    assert!(
        name.bytes().all(plain),
        "{name:?} has what names should not have"
    );
}
