//! A helper that is killed before one of its own system calls, by strace. The helper is the one that ships:
//! nothing of this is in it.
//!
//! The supervisor starts a helper by its path, without arguments and environment. So this program stands in
//! its place under another name, reads beside itself what is to be done, and becomes strace, which becomes
//! the helper. The tracer is the helper's grandchild (`-D`), so that the helper is the supervisor's child
//! as always.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::folder::Folder;

/// The name under which this program stands in for the helper.
pub(crate) const STAND_IN: &str = "helper-under-strace";

/// What the stand-in is to do: the helper's path, that of strace and the words for it, one a line.
const PLAN: &str = "strace-plan";
/// There once a helper is traced. Only the first one is: that is the one which gets the first launch.
const TAKEN: &str = "strace-taken";
/// The system calls of the traced helper.
pub(crate) const LOG: &str = "strace-log";

/// Where strace is.
pub(crate) fn strace() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let mut places = std::env::split_paths(&path).map(|folder| folder.join("strace"));
    places.find(|program| program.is_file())
}

/// Puts the stand-in into a case's folder. `point` is `<system call>#<n>`; without one the calls are only
/// listed.
pub(crate) fn install(folder: &Folder, point: Option<&str>) {
    let ourselves = std::env::current_exe().expect("a program");
    let stand_in = folder.path().join(STAND_IN);
    fs::hard_link(&ourselves, &stand_in)
        .or_else(|_| fs::copy(&ourselves, &stand_in).map(drop))
        .expect("room for a program");
    let strace = strace().expect("strace was there when the points were found");
    let helper = folder.programs().join("xioflow-reaper");
    let log = folder.path().join(LOG);
    let text = |path: &Path| path.to_str().expect("an ASCII path").to_owned();
    let mut words = vec![text(&helper), text(&strace)];
    words.extend(["-D", "-qq", "-o"].map(str::to_owned));
    words.push(text(&log));
    if let Some((call, nth)) = point.and_then(|point| point.split_once('#')) {
        words.push("-e".to_owned());
        words.push(format!("inject={call}:signal=SIGKILL:when={nth}"));
    }
    fs::write(folder.path().join(PLAN), words.join("\n")).expect("a file of the case");
}

/// Becomes the helper, if this program was started in its place.
pub(crate) fn stand_in_if_asked() {
    let ourselves = std::env::current_exe().expect("a program");
    if ourselves.file_name().is_some_and(|name| name == STAND_IN) {
        let folder = ourselves.parent().expect("a program is in a folder");
        let error = become_helper(folder);
        panic!("the helper cannot be executed: {error}");
    }
}

fn become_helper(folder: &Path) -> std::io::Error {
    let plan = fs::read_to_string(folder.join(PLAN)).expect("a plan");
    let mut words = plan.lines();
    let helper = words.next().expect("a helper");
    let strace = words.next().expect("a tracer");
    let is_first = File::options()
        .write(true)
        .create_new(true)
        .open(folder.join(TAKEN))
        .is_ok();
    match is_first {
        true => Command::new(strace).args(words).arg(helper).exec(),
        false => Command::new(helper).exec(),
    }
}

/// The points of a list of system calls: each call with its number among those of its name, in the order of
/// time. The first is how strace itself becomes the helper.
pub(crate) fn points(log: &str) -> Vec<String> {
    let mut times = std::collections::HashMap::new();
    let calls = log
        .lines()
        .filter_map(|line| line.split_once('(').map(|(name, _)| name));
    let is_call = |name: &&str| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let count = |name: &str| {
        let times: &mut u32 = times.entry(name.to_owned()).or_default();
        *times += 1;
        format!("{name}#{times}")
    };
    calls.filter(is_call).map(count).skip(1).collect()
}

/// Whether the list ends with the helper's end by this injection.
pub(crate) fn was_killed(log: &str) -> bool {
    log.lines()
        .last()
        .is_some_and(|line| line.contains("killed by SIGKILL"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_name() {
        let log = "execve(\"x\") = 0\npoll([..]) = 1\nread(0) = 4\npoll([..]) = 1\n--- SIGCHLD {} ---\n+++ exited +++\n";
        assert_eq!(points(log), ["poll#1", "read#1", "poll#2"]);
        assert!(was_killed("read(0\n+++ killed by SIGKILL +++\n"));
        assert!(!was_killed(log));
    }
}
