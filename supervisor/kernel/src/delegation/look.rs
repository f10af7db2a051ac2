//! One look at a tree that lives, before it is stopped: which programs are in it, and to whose sockets they are
//! connected. It is bounded, so that it delays the end of no tree by more than some milliseconds.

use std::collections::HashSet;

use super::{Member, Seen};
use crate::observe;
use crate::unix_sockets::{UnixSockets, unix_sockets};

/// How many processes are looked at: those nearest to the root.
const MEMBERS_MAX: usize = 64;

/// Looks at the nearest processes below `holder`; `None` where nothing of them can be seen.
pub(crate) fn look_at_tree(holder: u32) -> Option<Seen> {
    let tree = observe::nearest_members(holder, MEMBERS_MAX)?;
    let sockets = match tree.members.iter().any(|it| !it.sockets.is_empty()) {
        true => unix_sockets().unwrap_or_default(),
        false => UnixSockets::new(),
    };
    let inside: HashSet<u64> = tree
        .members
        .iter()
        .flat_map(|it| it.sockets.clone())
        .collect();
    let mut seen = Seen::default();
    for member in tree.members {
        let servers = member.sockets.iter().filter_map(|inode| {
            let peer = sockets.get(inode)?.peer?;
            let name = sockets.get(&peer)?.name.clone()?;
            // Not known while some of the tree was not looked at: it may be one of those.
            let is_outside = tree.is_complete && !inside.contains(&peer);
            Some((name, is_outside))
        });
        seen.of_member(&Member {
            pid: member.pid,
            command: member.command,
            servers: servers.collect(),
        });
    }
    Some(seen)
}
