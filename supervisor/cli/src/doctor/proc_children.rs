//! Whether descendants can be found from a process downwards, through
//! `/proc/<pid>/task/<tid>/children`.

use std::io;
use std::path::Path;

use serde_json::json;

use super::report::Finding;
use super::waiting_child::WaitingChild;

/// A mount of processes only (`subset=pid`) lacks it.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Starts a child and looks for it in the list of this thread.
pub(super) fn look() -> Finding {
    if !Path::new("/proc/self").exists() {
        return Finding::missing(
            "nothing is mounted at /proc; without it no process can be identified, and nothing runs",
        )
        .with_facts(json!({ "childListed": null, "hidepid": null }))
        .with_remedy(Some("mount -t proc proc /proc".to_owned()));
    }
    if let Err(error) = std::fs::read(BOOT_ID) {
        return Finding::missing(format!(
            "{BOOT_ID} cannot be read ({error}); without it no process can be identified, and nothing runs"
        ))
        .with_facts(json!({ "childListed": null, "hidepid": null }))
        .with_remedy(Some("mount -t proc proc /proc".to_owned()));
    }
    let hidepid = std::fs::read("/proc/self/mountinfo")
        .ok()
        .and_then(|content| hidepid(&content));
    let listed = child_is_listed();
    let facts = json!({
        "childListed": listed.as_ref().ok().copied().flatten(),
        "hidepid": hidepid,
    });
    let hidden = match hidepid.as_deref() {
        None | Some("0" | "off") => "",
        Some(_) => "; processes of other users are hidden (hidepid)",
    };
    let finding = match listed {
        Ok(Some(true)) if hidden.is_empty() => {
            Finding::ready("a child was found in the list of its parent")
        }
        Ok(Some(true)) => Finding::weaker(format!(
            "a child was found in the list of its parent{hidden}"
        )),
        Ok(Some(false)) => {
            Finding::cannot_tell(format!("a child is not in the list of its parent{hidden}"))
        }
        Ok(None) => Finding::weaker(format!(
            "the kernel keeps no lists of children (CONFIG_PROC_CHILDREN); all of /proc is read \
             instead{hidden}"
        )),
        Err(error) => Finding::cannot_tell(format!("look for a child in /proc: {error}")),
    };
    finding.with_facts(facts)
}

/// `None` if there are no such lists.
fn child_is_listed() -> io::Result<Option<bool>> {
    let child = WaitingChild::start()?;
    let tid = rustix::thread::gettid().as_raw_nonzero();
    let path = format!("/proc/self/task/{tid}/children");
    match std::fs::read_to_string(&path) {
        Ok(list) => {
            let pid = child.pid().as_raw_nonzero().to_string();
            Ok(Some(
                list.split_ascii_whitespace().any(|entry| entry == pid),
            ))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound && task_is_there(&path) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Without /proc nothing can be said about its lists.
fn task_is_there(path: &str) -> bool {
    Path::new(path).parent().is_some_and(Path::is_dir)
}

/// The `hidepid` option of the file system at `/proc`, which is off unless it is named; `None` if
/// nothing is mounted there. Later lines cover earlier ones.
fn hidepid(mountinfo: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(mountinfo);
    let mut lines = text
        .lines()
        .filter(|line| line.split(' ').nth(4) == Some("/proc"));
    let options = lines.next_back()?.rsplit(' ').next()?;
    let named = options
        .split(',')
        .find_map(|option| option.strip_prefix("hidepid="));
    Some(named.unwrap_or("off").to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::report::{Check, Verdict};

    #[test]
    fn hidepid_is_read_from_the_mount_at_proc_alone() {
        let mounts = b"22 1 0:5 / /proc rw,nosuid - proc proc rw,hidepid=invisible\n\
                       23 1 0:5 / /chroot/proc rw - proc proc rw,hidepid=1\n";
        assert_eq!(hidepid(mounts).as_deref(), Some("invisible"));
        assert_eq!(
            hidepid(b"22 1 0:5 / /proc rw - proc proc rw\n").as_deref(),
            Some("off")
        );
        assert_eq!(hidepid(b""), None);
    }

    #[test]
    fn a_later_mount_covers_an_earlier_one() {
        let mounts = b"22 1 0:5 / /proc rw - proc proc rw,hidepid=2\n\
                       40 1 0:9 / /proc rw - proc proc rw\n";
        assert_eq!(hidepid(mounts).as_deref(), Some("off"));
    }

    #[test]
    fn the_verdict_agrees_with_the_facts() {
        let check = Check::new("proc-children", "children", false, look());
        if check.verdict == Verdict::Ready {
            assert_eq!(check.facts["childListed"], true);
        }
    }
}
