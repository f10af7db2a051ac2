//! A command that became another user's: it cannot be ended, and that is said instead of waited for.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use xioflow_kit::{Deadline, Stage, running_as_root, wait};

use crate::{assert_fields, run, text};

/// What sudo(8) does, without it: a set-user-ID program that takes on root's ids for good. (With the
/// effective id alone it would still be its caller's to signal, by its real one.)
#[test]
fn a_process_of_root_is_named_with_its_owner_and_keeps_the_lease() {
    if !running_as_root() {
        eprintln!("skipped: needs root, to make a set-user-ID program");
        return;
    }
    let stage = Stage::ordinary();
    let (become_root, pid_file) = (stage.path("become-root"), stage.path("pid"));
    fs::copy("/usr/bin/setpriv", &become_root).expect("setpriv of util-linux");
    fs::set_permissions(&become_root, fs::Permissions::from_mode(0o4755)).expect("chmod");
    let script = format!("echo $$ >{}; exec sleep 60", text(&pid_file));
    let ids = ["--reuid=0", "--regid=0", "--clear-groups"];
    let words = [&[text(&become_root)], &ids[..], &["sh", "-c", &script]].concat();
    let options = [
        "--json",
        "--op",
        "sudo",
        "--lease",
        "db",
        "--timeout",
        "1s",
        "--grace",
        "200ms",
    ];
    let finished = run(&stage, &options, &words).finish();
    let pid = fs::read_to_string(&pid_file).expect("it became root");
    let pid: u32 = pid.trim().parse().expect("a pid");
    assert!(wait::is_alive(pid), "{finished}");
    // Whatever is asserted below, it must not stay.
    let raw = Pid::from_raw(i32::try_from(pid).expect("a pid")).expect("not 0");
    kill_process(raw, Signal::KILL).expect("root may");
    assert!(wait::pid_gone(pid, Deadline::usual()));

    let document = finished.json();
    finished
        .assert_code(79)
        .assert_complains("time was over")
        .assert_complains("permission")
        .assert_complains("uid 0");
    let expected = json!({
        "status": "indeterminate",
        "treeSettlement": "unverified",
        "residualPids": [pid],
        "stop": { "reason": "timed_out", "lastSignal": "SIGKILL" },
    });
    assert_fields(&document, &expected);
    assert_eq!(document["noNewPrivs"], false, "which is what it took");
    let survivor = &document["survivors"][0];
    let expected = json!({ "pid": pid, "end": "alive", "whyAlive": "permission", "uid": 0 });
    assert_fields(survivor, &expected);
    let next = run(&stage, &["--lease", "db"], &["true"]).finish();
    next.assert_code(75).assert_complains("sudo");
}

/// The same program, where the caller has asked that nothing of the command gain privileges.
#[test]
fn a_command_that_may_gain_no_privileges_stays_its_user_s_and_is_ended() {
    if !running_as_root() {
        eprintln!("skipped: needs root, to make a set-user-ID program");
        return;
    }
    let stage = Stage::ordinary();
    let become_root = stage.path("become-root");
    fs::copy("/usr/bin/setpriv", &become_root).expect("setpriv of util-linux");
    fs::set_permissions(&become_root, fs::Permissions::from_mode(0o4755)).expect("chmod");
    let script = format!(
        "{} --reuid=0 true 2>/dev/null && echo root; sleep 60",
        text(&become_root)
    );
    let options = [
        "--json",
        "--no-new-privs",
        "--op",
        "kept",
        "--timeout",
        "1s",
    ];
    let finished = run(&stage, &options, &["sh", "-c", &script]).finish();
    finished.assert_code(124);
    let expected = json!({
        "noNewPrivs": true,
        "residualPids": [],
        "stdout": "",
    });
    assert_fields(&finished.json(), &expected);
    // It is part of what the operation is.
    let other = ["--op", "kept", "--timeout", "1s"];
    let again = run(&stage, &other, &["sh", "-c", &script]).finish();
    again.assert_code(76);
}
