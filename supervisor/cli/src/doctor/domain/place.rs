//! The folder of a domain: whose it is, who else may look into it, and how much room there is.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde_json::json;
use xioflow_kernel::journal::DomainDir;

use super::super::report::{Finding, with_causes};
use crate::shell;
use crate::size::format_size;

/// Rights of the group and of others.
const FOREIGN_RIGHTS: u32 = 0o077;

/// With less than this free, one long output fills the disk.
const FREE_BYTES_MIN: u64 = 1024 * 1024 * 1024;

pub(super) fn folder(folder: &Path) -> Finding {
    let shown = folder.display();
    let metadata = match fs::symlink_metadata(folder).and_then(|_| fs::metadata(folder)) {
        Ok(metadata) if metadata.is_dir() => metadata,
        Ok(_) => return Finding::missing(format!("{shown} is no folder")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Finding::missing(format!("{shown} does not exist"))
                .with_remedy(Some(begin(folder)));
        }
        Err(error) => {
            return Finding::cannot_tell(format!("look at {shown}: {}", with_causes(&error)));
        }
    };
    judge(folder, &metadata, &open_to_others(folder))
}

/// What makes a domain where there is none.
pub(super) fn begin(folder: &Path) -> String {
    format!("xioflow --domain {} run -- true", shell::path(folder))
}

fn judge(folder: &Path, metadata: &Metadata, open: &[PathBuf]) -> Finding {
    let shown = folder.display();
    let (own, owner) = (rustix::process::geteuid().as_raw(), metadata.uid());
    let mode = metadata.mode() & 0o7777;
    let facts = json!({
        "folder": folder.to_string_lossy(),
        "mode": format!("{mode:04o}"),
        "uid": owner,
        "openToOthers": open.iter().map(|path| path.to_string_lossy()).collect::<Vec<_>>(),
    });
    if owner != own && own != 0 {
        let detail = format!("{shown} belongs to uid {owner}, and this is uid {own}");
        return Finding::weaker(detail).with_facts(facts);
    }
    let finding = match (mode & FOREIGN_RIGHTS, open.len()) {
        (0, 0) => Finding::ready(format!("{shown} is for its owner only")),
        // Nobody else comes as far as the files.
        (0, _) => Finding::ready(format!(
            "{shown} is for its owner only; files in it are open"
        )),
        (_, _) => Finding::weaker(format!(
            "{shown} has mode {mode:04o}: others can look into it"
        ))
        .with_remedy(Some(format!("chmod -R go= {}", shell::path(folder)))),
    };
    finding.with_facts(facts)
}

/// Parts of the domain that the group or others have rights to.
fn open_to_others(folder: &Path) -> Vec<PathBuf> {
    let Ok(dir) = DomainDir::new(folder) else {
        return Vec::new();
    };
    let parts = [dir.database(), dir.lock(), dir.artifacts(), dir.holders()];
    let is_open =
        |path: &PathBuf| fs::symlink_metadata(path).is_ok_and(|it| it.mode() & FOREIGN_RIGHTS != 0);
    parts.into_iter().filter(is_open).collect()
}

/// Of this domain: without its name, another one would be pruned.
fn make_room(folder: &Path) -> String {
    format!(
        "xioflow --domain {} prune --max-age 7d",
        shell::path(folder)
    )
}

pub(super) fn free_space(folder: &Path) -> Finding {
    let stat = match rustix::fs::statvfs(folder) {
        Ok(stat) => stat,
        Err(errno) => {
            return Finding::cannot_tell(format!("look at {}: {errno}", folder.display()));
        }
    };
    let (free, total) = (
        stat.f_bavail.saturating_mul(stat.f_frsize),
        stat.f_blocks.saturating_mul(stat.f_frsize),
    );
    let facts = json!({ "freeBytes": free, "totalBytes": total, "freeInodes": stat.f_favail });
    let said = format!("{} of {} are free", format_size(free), format_size(total));
    let finding = match free < FREE_BYTES_MIN || (stat.f_files > 0 && stat.f_favail < 1000) {
        false => Finding::ready(said),
        true => Finding::weaker(format!("{said}, {} files more", stat.f_favail))
            .with_remedy(Some(make_room(folder))),
    };
    finding.with_facts(facts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_to_be_typed_means_this_domain() {
        let folder = Path::new("/a domain");
        for typed in [begin(folder), make_room(folder)] {
            assert!(
                typed.starts_with("xioflow --domain '/a domain' "),
                "{typed}"
            );
        }
    }
}
