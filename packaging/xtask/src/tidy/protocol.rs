//! `docs/protocol.md` carries a hash of the protocol's source, so that neither changes alone.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::Breach;
use crate::tool::{Failure, read_file, root};

const SOURCE: &str = "reaper/protocol/src";
const PAGE: &str = "docs/protocol.md";
const MARK: &str = "<!-- protocol-source: sha256 ";
const MARK_END: &str = " -->";

const INSTEAD: &str = "make the page say what the source says, then run `cargo xtask tidy --bless`";

pub(super) fn check() -> Result<Vec<Breach>, Failure> {
    let Ok(page) = fs::read_to_string(root().join(PAGE)) else {
        return Ok(vec![Breach::new(PAGE, "is missing", INSTEAD)]);
    };
    let fault = match stated(&page) {
        None => Some(format!("carries no line `{MARK}...{MARK_END}`")),
        Some(stated) if stated != source_hash()? => {
            Some(format!("describes another state of {SOURCE}"))
        }
        Some(_) => None,
    };
    Ok(fault
        .map(|fault| Breach::new(PAGE, fault, INSTEAD))
        .into_iter()
        .collect())
}

/// Writes the hash of the present source into the page.
pub(super) fn bless() -> Result<(), Failure> {
    let path = root().join(PAGE);
    let failed = |source| Failure::File {
        path: PathBuf::from(PAGE),
        source,
    };
    let page = fs::read_to_string(&path).map_err(failed)?;
    let blessed = with_hash(&page, &source_hash()?);
    fs::write(&path, blessed).map_err(failed)
}

fn stated(page: &str) -> Option<&str> {
    page.lines()
        .find_map(|line| line.strip_prefix(MARK)?.strip_suffix(MARK_END))
}

/// The page with this hash in its line, or with such a line at its end.
fn with_hash(page: &str, hash: &str) -> String {
    let line = format!("{MARK}{hash}{MARK_END}");
    let Some(old) = stated(page) else {
        return format!("{}\n\n{line}\n", page.trim_end());
    };
    page.replace(&format!("{MARK}{old}{MARK_END}"), &line)
}

/// SHA-256 over names, lengths and contents of the source files, in the order of their names.
fn source_hash() -> Result<String, Failure> {
    let folder = root().join(SOURCE);
    let failed = |source| Failure::File {
        path: folder.clone(),
        source,
    };
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).map_err(failed)? {
        names.push(entry.map_err(failed)?.file_name());
    }
    names.sort();
    let mut hash = Sha256::new();
    for name in names {
        let bytes = read_file(&Path::new(SOURCE).join(&name))?;
        hash.update(format!("{} {}\n", name.display(), bytes.len()));
        hash.update(bytes);
    }
    Ok(hash
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_gets_the_line_once() {
        let first = with_hash("# Protocol\n\nText.\n", "aa");
        assert_eq!(
            first,
            "# Protocol\n\nText.\n\n<!-- protocol-source: sha256 aa -->\n"
        );
        let second = with_hash(&first, "bb");
        assert_eq!(stated(&second), Some("bb"));
        assert_eq!(second.matches(MARK).count(), 1);
    }

    #[test]
    fn the_hash_is_the_same_twice() {
        let once = source_hash().expect("the source is there");
        assert_eq!(once.len(), 64);
        assert_eq!(once, source_hash().expect("the source is there"));
    }
}
