//! What the helper takes from itself once the command is made: rights, files, system calls.
//!
//! It is put on while the child waits at the gate. The child was forked before, so it wears none of
//! it; the command is not let run yet, so nothing of it meets a helper without it; and the supervisor
//! makes its record at that time, so nobody waits for it.
//!
//! Each part is a best effort: a kernel that has it not, or an enclosing sandbox that refuses it,
//! leaves a helper that works as well. What was put on is a value, which who asks is told.
//!
//! Neighbours: `calls` is the list of system calls, `filter` makes a filter of it; `authority` is the one
//! right that may be kept.

mod calls;
mod filter;

use xioflow_facts::{hides_processes, processes_folder};
use xioflow_sys::{
    AsFd, BorrowedFd, Capabilities, Errno, FileRights, Ruleset, capget, capset, landlock_abi,
    put_on_filter, set_no_new_privs,
};

pub(crate) use xioflow_protocol::Armour;

/// Capabilities by their bits, see capabilities(7).
pub(crate) mod capability {
    /// Passing over the permissions of files.
    pub(crate) const DAC_OVERRIDE: u64 = 1 << 1;
    /// Signalling processes of other users.
    pub(crate) const KILL: u64 = 1 << 5;
    /// Looking into processes of other users.
    pub(crate) const SYS_PTRACE: u64 = 1 << 19;
    /// Real-time scheduling.
    pub(crate) const SYS_NICE: u64 = 1 << 23;
}

/// Puts everything on that this kernel has. `holders` is the folder for the last word.
pub(crate) fn put_on(holders: BorrowedFd<'_>) -> Armour {
    // Both of the others ask for it; the helper executes nothing.
    let no_new_privs = set_no_new_privs().is_ok();
    let hidden = hides_processes() != Ok(false);
    let landlock_abi = match hidden {
        // A domain takes the right to look into processes outside of it, and such a /proc asks for
        // that right before it shows that they exist.
        true => None,
        false => restrict_files(holders).ok(),
    };
    let capabilities = drop_capabilities(hidden);
    let filter = put_on_filter(&filter::program(&calls::allowed())).is_ok();
    Armour {
        no_new_privs,
        landlock_abi,
        filter,
        capabilities,
    }
}

/// The same for the init of a namespace, which opens nothing any more. It was forked before the helper
/// puts its own on.
pub(crate) fn put_on_init() {
    // Who asks for the helper's is not told of this one: it is seen in /proc.
    let _put_on = set_no_new_privs();
    let _restricted = landlock_abi()
        .and_then(Ruleset::forbidding_all)
        .and_then(|rules| rules.restrict_self());
    let _filtered = put_on_filter(&filter::program(&calls::allowed()));
}

/// Leaves the thread nothing of the file system but `/proc` to read, and a folder to write in. Says the
/// version of Landlock that does it.
fn restrict_files(holders: BorrowedFd<'_>) -> Result<u32, Errno> {
    let abi = landlock_abi()?;
    let rules = Ruleset::forbidding_all(abi)?;
    let proc = processes_folder().map_err(|_| Errno::ENOENT)?;
    rules.allow_below(proc.as_fd(), FileRights::READ)?;
    rules.allow_below(holders, FileRights::WRITE)?;
    rules.restrict_self()?;
    Ok(abi)
}

/// Gives up the capabilities that the helper has no use for. Says which are left; `None` when that
/// cannot be told.
fn drop_capabilities(hidden: bool) -> Option<u64> {
    let sets = capget().ok()?;
    let kept = sets.permitted & needed(hidden);
    if sets.permitted != kept || sets.inheritable != 0 {
        // Giving up is always allowed; what refuses it is told by the look below.
        let _dropped = capset(Capabilities {
            effective: sets.effective & kept,
            permitted: kept,
            inheritable: 0,
        });
    }
    capget().ok().map(|sets| sets.permitted)
}

/// What a helper of root, or one with more than it was meant to have, keeps.
const fn needed(hidden: bool) -> u64 {
    // Members of the tree that are other users' (root's helper, or one that was packaged so); its
    // own turn among thousands that run; the last word in a domain of another user.
    let needed = capability::KILL | capability::SYS_NICE | capability::DAC_OVERRIDE;
    match hidden {
        // Without it root sees no processes there but its own.
        true => needed | capability::SYS_PTRACE,
        false => needed,
    }
}

#[cfg(test)]
mod tests;
