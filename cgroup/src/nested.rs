//! What is below a leaf: the groups that a command made in it, and the processes in them. Reads only.
//!
//! Neighbours: `removal` takes the groups away, `kill` ends the processes one by one on old kernels.

use rustix::io::Errno;

use crate::cursor::Cursor;
use crate::directory::Directory;
use crate::error::GroupError;
use crate::flat;

/// The most groups that are looked at below one leaf. A leaf is made with a limit far below it
/// (`cgroup.max.descendants`), which a command of the same user can lift.
pub(crate) const GROUPS_MAX: usize = 65_536;

/// The numbers of all processes in a group and below it, each once, in order.
pub(crate) fn processes(root: &Directory) -> Result<Vec<u32>, GroupError> {
    let mut found = Vec::new();
    visit(root, |group| {
        found.extend(members(group)?);
        Ok(())
    })?;
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// The numbers of the processes in one group, without those below it.
pub(crate) fn members(group: &Directory) -> Result<Vec<u32>, GroupError> {
    match group.read("cgroup.procs") {
        Ok(text) => Ok(flat::processes(&text)),
        // The processes of a threaded group are listed in the domain of its threads, further up
        // in the same leaf.
        Err(error) if error.is(Errno::OPNOTSUPP) || error.is_absence() => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Visits a group and all below it, upper ones first. What is removed meanwhile is passed over.
pub(crate) fn visit(
    root: &Directory,
    mut visit: impl FnMut(&Directory) -> Result<(), GroupError>,
) -> Result<(), GroupError> {
    let mut cursor = Cursor::new(root);
    let mut seen = 1;
    visit(root)?;
    // For each level on the way, the names that are still to be visited.
    let mut waiting = vec![root.children(GROUPS_MAX)?];
    while let Some(names) = waiting.last_mut() {
        let Some(name) = names.pop() else {
            waiting.pop();
            cursor.up()?;
            continue;
        };
        if !cursor.down(&name)? {
            continue;
        }
        seen += 1;
        if seen > GROUPS_MAX {
            return Err(GroupError::TooManyGroups {
                directory: root.path().to_owned(),
                max: GROUPS_MAX,
            });
        }
        visit(cursor.group())?;
        waiting.push(children(cursor.group())?);
    }
    Ok(())
}

fn children(group: &Directory) -> Result<Vec<std::ffi::OsString>, GroupError> {
    match group.children(GROUPS_MAX) {
        Err(error) if error.is_absence() => Ok(Vec::new()),
        answer => answer,
    }
}
