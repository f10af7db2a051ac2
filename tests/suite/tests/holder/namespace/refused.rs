//! Hosts that forbid it: the launch fails with the call that was refused, and nothing runs in its place.

use xioflow_kit::{Holder, Order, Stage, running_as_root};
use xioflow_protocol::{HELPER_EXIT_OK, LaunchFailure, NamespaceStep, Stage as Step};

use super::enclosed;
use crate::until_failure;

/// Errors of errno(3).
const EPERM: i32 = 1;
const ENOSPC: i32 = 28;

/// Launches through other programs, and takes the refusal.
fn refused(stage: &Stage, through: &[&str]) -> LaunchFailure {
    let trace = stage.path("trace");
    let words = ["append-line", trace.to_str().expect("an ASCII path")];
    let mut holder = Holder::start_through(stage, through);
    holder.launch(&enclosed(Order::fixture(stage, &words)));
    let failure = until_failure(&mut holder);
    holder.hang_up();
    assert_eq!(holder.wait().code(), Some(HELPER_EXIT_OK));
    assert!(!trace.exists(), "the command has run without its namespace");
    assert_eq!(failure.stage, Step::Namespace);
    failure
}

fn is(failure: &LaunchFailure, step: NamespaceStep, errno: i32) {
    let found = NamespaceStep::of_subject(&failure.subject);
    assert_eq!((found, failure.errno), (Some(step), errno), "{failure:?}");
}

/// Executes what follows without any capability, as whoever one is.
const POWERLESS: &str =
    "exec setpriv --bounding-set=-all --inh-caps=-all --ambient-caps=-all \"$@\"";

#[test]
fn where_there_may_be_no_user_namespaces() {
    let stage = Stage::new();
    let script = format!("echo 0 > /proc/sys/user/max_user_namespaces && {POWERLESS}");
    let words = [
        "unshare",
        "--user",
        "--map-root-user",
        "sh",
        "-c",
        &script,
        "sh",
    ];
    is(
        &refused(&stage, &words),
        NamespaceStep::UserNamespace,
        ENOSPC,
    );
}

#[test]
fn where_there_may_be_no_pid_namespaces() {
    let stage = Stage::new();
    let script = "echo 0 > /proc/sys/user/max_pid_namespaces && exec \"$@\"";
    let words = [
        "unshare",
        "--user",
        "--map-root-user",
        "sh",
        "-c",
        script,
        "sh",
    ];
    is(
        &refused(&stage, &words),
        NamespaceStep::PidNamespace,
        ENOSPC,
    );
}

#[test]
fn where_there_may_be_no_mount_namespaces() {
    let stage = Stage::new();
    let script = "echo 0 > /proc/sys/user/max_mnt_namespaces && exec \"$@\"";
    let words = [
        "unshare",
        "--user",
        "--map-root-user",
        "sh",
        "-c",
        script,
        "sh",
    ];
    is(
        &refused(&stage, &words),
        NamespaceStep::MountNamespace,
        ENOSPC,
    );
}

/// As in most containers: a part of the host's `/proc` is covered, so that no whole one may be mounted.
#[test]
fn where_a_proc_of_its_own_cannot_be_mounted() {
    if !running_as_root() {
        eprintln!("skipped: needs root, to cover a part of /proc");
        return;
    }
    let stage = Stage::new();
    let script = format!(
        "mount -t tmpfs none /proc/fs && exec setpriv --reuid=65534 --regid=65534 --clear-groups sh -c '{POWERLESS}' sh \"$@\""
    );
    let words = ["unshare", "--mount", "sh", "-c", &script, "sh"];
    is(&refused(&stage, &words), NamespaceStep::Proc, EPERM);
}

/// What is forbidden to the helper is not done by other means.
#[test]
fn where_the_root_folder_was_changed() {
    if !running_as_root() {
        eprintln!("skipped: needs root, to change the root folder");
        return;
    }
    let stage = Stage::new();
    let script = format!(
        "mount --rbind / {0} && exec chroot {0} setpriv --reuid=65534 --regid=65534 --clear-groups sh -c '{POWERLESS}' sh \"$@\"",
        stage.folder("world").display()
    );
    let words = ["unshare", "--mount", "sh", "-c", &script, "sh"];
    is(
        &refused(&stage, &words),
        NamespaceStep::UserNamespace,
        EPERM,
    );
}
