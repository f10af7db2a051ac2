//! The names of our groups. Nothing whose name does not fit is ever touched.
//!
//! A name says nothing of an operation or a command: a domain's is made of a digest, a leaf's is
//! random. Neighbours: `root`, `domain` and `leaf` make and open by these names.

use std::ffi::OsStr;
use std::fmt;

use rustix::rand::GetRandomFlags;

use crate::error::GroupError;

/// The group that R's own processes are moved to when R has to hand controllers down.
pub const HOST: &str = "xioflow-host";

const PREFIX: &str = "xioflow-";
/// Hexadecimal digits of a domain's digest.
const DIGEST_LEN: usize = 16;
/// Hexadecimal digits of a leaf's name.
const LEAF_LEN: usize = 32;

/// The name of a domain's group: `xioflow-` and 16 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupName(String);

impl GroupName {
    /// The name for a digest of what identifies the domain.
    #[must_use]
    pub fn from_digest(digest: &[u8; DIGEST_LEN / 2]) -> Self {
        Self(format!("{PREFIX}{}", hex(digest)))
    }

    /// Reads a name; null when it is none that [`Self::from_digest`] makes.
    #[must_use]
    pub fn parse(name: &OsStr) -> Option<Self> {
        let name = name.to_str()?;
        let digest = name.strip_prefix(PREFIX)?;
        is_hex(digest, DIGEST_LEN).then(|| Self(name.to_owned()))
    }

    /// As the file system has it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl AsRef<OsStr> for GroupName {
    fn as_ref(&self) -> &OsStr {
        OsStr::new(&self.0)
    }
}

impl fmt::Display for GroupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A fresh name for a leaf.
pub(crate) fn random_leaf() -> Result<String, GroupError> {
    let mut bytes = [0u8; LEAF_LEN / 2];
    // Up to 256 bytes come whole once the kernel's source is ready, which it is before any user's work.
    let len = rustix::rand::getrandom(&mut bytes, GetRandomFlags::empty())
        .map_err(|errno| GroupError::system("get random bytes for the name of a group", errno))?;
    debug_assert_eq!(len, bytes.len(), "getrandom(2) gives short requests whole");
    Ok(hex(&bytes))
}

/// Whether a name is one that a leaf can have.
pub(crate) fn is_leaf(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| is_hex(name, LEAF_LEN))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn is_hex(text: &str, len: usize) -> bool {
    text.len() == len
        && text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_our_own_names_are_taken() {
        let name = GroupName::from_digest(&[0, 1, 2, 3, 0xab, 0xcd, 0xef, 0xff]);
        assert_eq!(name.as_str(), "xioflow-00010203abcdefff");
        assert_eq!(GroupName::parse(name.as_ref()), Some(name));
        for foreign in [
            "xioflow-host",
            "xioflow-00010203ABCDEFFF",
            "xioflow-00010203abcdeff",
            "xioflow-00010203abcdefff0",
            "xioflow-00010203abcdeff/",
            "xioflow-",
            "system.slice",
            "..",
            "",
        ] {
            assert_eq!(GroupName::parse(OsStr::new(foreign)), None, "{foreign:?}");
            assert!(!is_leaf(OsStr::new(foreign)), "{foreign:?}");
        }
    }

    #[test]
    fn leaves_have_names_of_their_own() {
        let (a, b) = (
            random_leaf().expect("a name"),
            random_leaf().expect("a name"),
        );
        assert_ne!(a, b);
        assert!(is_leaf(OsStr::new(&a)) && is_leaf(OsStr::new(&b)));
    }

    proptest! {
        #[test]
        fn every_digest_is_read_back(digest: [u8; 8]) {
            let name = GroupName::from_digest(&digest);
            prop_assert_eq!(GroupName::parse(name.as_ref()), Some(name));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let name = OsStr::from_bytes(&bytes);
            prop_assert!(!(is_leaf(name) && GroupName::parse(name).is_some()));
        }
    }
}
