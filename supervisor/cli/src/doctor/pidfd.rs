//! Process descriptors: a signal through one cannot reach a process that got the number later.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};
use serde_json::{Value, json};

use super::report::{Finding, with_causes};
use super::waiting_child::WaitingChild;

/// How long the kernel may take to end a child that only reads.
const END_LIMIT: Timespec = Timespec {
    tv_sec: 2,
    tv_nsec: 0,
};

/// Ends a child through a descriptor for it, and sees the end through the same descriptor.
pub(super) fn look() -> Finding {
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy().into_owned();
    let facts = |signals, inode_unique: Option<bool>| json!({ "kernelRelease": release, "signalThroughPidfd": signals, "inodeUnique": inode_unique });
    match end_through_pidfd() {
        Ok(inode_unique) => judge(inode_unique, &release, facts(Some(true), inode_unique)),
        Err(Trouble::Unsupported) => Finding::missing(format!(
            "kernel {release} has no process descriptors (they came with 5.3); signals go by number"
        ))
        .with_facts(facts(Some(false), None)),
        Err(Trouble::Failed(what)) => Finding::cannot_tell(what).with_facts(facts(None, None)),
    }
}

fn judge(inode_unique: Option<bool>, release: &str, facts: Value) -> Finding {
    let works = "a child was ended and its end was seen through its descriptor";
    let finding = match inode_unique {
        Some(true) => Finding::ready(format!("{works}; inodes are unique on kernel {release}")),
        Some(false) => Finding::weaker(format!(
            "{works}; kernel {release} has no inode for each process (they came with 6.9), so \
             identity rests on start time"
        )),
        None => Finding::weaker(format!(
            "{works}; whether inodes are unique could not be seen"
        )),
    };
    finding.with_facts(facts)
}

enum Trouble {
    Unsupported,
    Failed(String),
}

fn failed(step: &str) -> impl Fn(Errno) -> Trouble + '_ {
    move |errno| match errno {
        Errno::NOSYS => Trouble::Unsupported,
        errno => Trouble::Failed(format!("{step}: {errno}")),
    }
}

fn end_through_pidfd() -> Result<Option<bool>, Trouble> {
    let start = |error| Trouble::Failed(format!("start a child: {error}"));
    let mut child = WaitingChild::start().map_err(start)?;
    let pidfd = pidfd_open(child.pid(), PidfdFlags::empty()).map_err(failed("open a pidfd"))?;
    let inode_unique = inode_is_unique(&pidfd, &child);
    pidfd_send_signal(&pidfd, Signal::KILL).map_err(failed("send a signal through a pidfd"))?;
    wait_readable(&pidfd)?;
    let status = child
        .reap()
        .map_err(|error| Trouble::Failed(format!("wait for a child: {}", with_causes(&error))))?;
    match status.signal() == Some(Signal::KILL.as_raw()) {
        true => Ok(inode_unique),
        false => Err(Trouble::Failed(format!(
            "a child killed through a pidfd ended with {status}"
        ))),
    }
}

fn wait_readable(pidfd: &OwnedFd) -> Result<(), Trouble> {
    let mut interest = [PollFd::new(pidfd, PollFlags::IN)];
    match rustix::io::retry_on_intr(|| poll(&mut interest, Some(&END_LIMIT))) {
        Ok(0) => Err(Trouble::Failed(
            "a killed child did not end within 2 s".to_owned(),
        )),
        Ok(_) => Ok(()),
        Err(errno) => Err(failed("poll a pidfd")(errno)),
    }
}

/// Unique means: the same for one process however often it is opened, and another for others.
/// Before Linux 6.9 every pidfd has the one inode of anonymous files.
fn inode_is_unique(pidfd: &OwnedFd, child: &WaitingChild) -> Option<bool> {
    let again = pidfd_open(child.pid(), PidfdFlags::empty()).ok()?;
    let own = pidfd_open(getpid(), PidfdFlags::empty()).ok()?;
    let inode = |fd: &OwnedFd| rustix::fs::fstat(fd.as_fd()).ok().map(|stat| stat.st_ino);
    let (first, second, other) = (inode(pidfd)?, inode(&again)?, inode(&own)?);
    Some(first == second && first != other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::report::{Check, Verdict};

    #[test]
    fn each_answer_about_inodes_has_its_verdict() {
        let verdict = |inode_unique| {
            Check::new(
                "pidfd",
                "pidfd",
                false,
                judge(inode_unique, "6.9", json!({})),
            )
            .verdict
        };
        assert_eq!(verdict(Some(true)), Verdict::Ready);
        assert_eq!(verdict(Some(false)), Verdict::Weaker);
        assert_eq!(verdict(None), Verdict::Weaker);
    }

    #[test]
    fn the_verdict_agrees_with_the_facts() {
        let check = Check::new("pidfd", "pidfd", false, look());
        let works = check.facts["signalThroughPidfd"].as_bool();
        match check.verdict {
            Verdict::Ready | Verdict::Weaker => assert_eq!(works, Some(true)),
            Verdict::Missing => assert_eq!(works, Some(false)),
            Verdict::CannotTell => assert_eq!(works, None),
        }
    }
}
