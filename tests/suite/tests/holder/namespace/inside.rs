//! What a command finds in a namespace of its own.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use xioflow_kit::{Holder, Order, Stage, each_user, running_as_root};

use super::{enclosed, run};
use crate::until_empty;

/// Runs a script in a namespace and says what it printed.
fn told(stage: &Stage, script: &str) -> String {
    let mut order = enclosed(Order::shell(stage, script));
    order.launch.no_new_privs = false;
    let mut holder = Holder::start(stage);
    run(&mut holder, &order);
    until_empty(&mut holder);
    let complaints = order.stderr();
    assert!(complaints.is_empty(), "{}", complaints.escape_ascii());
    String::from_utf8(order.stdout()).expect("text")
}

#[test]
fn it_counts_from_the_beginning_and_sees_itself_alone() {
    each_user(|stage| {
        let script = "echo $$ $PPID; for it in /proc/[0-9]*; do echo ${it#/proc/}; done";
        assert_eq!(told(stage, script), "2 0\n1\n2\n");
        let own = told(stage, "readlink /proc/self/ns/pid");
        let out_here = fs::read_link("/proc/self/ns/pid").expect("a link");
        assert_ne!(own.trim_end(), out_here.to_str().expect("ASCII"));
    });
}

#[test]
fn it_is_who_it_was_and_may_no_more() {
    each_user(|stage| {
        let user = stage.user_id().unwrap_or(0);
        assert_eq!(told(stage, "id -u; id -g"), format!("{user}\n{user}\n"));
        let sets = told(
            stage,
            "grep -E 'Cap(Prm|Eff|Bnd|Inh|Amb)' /proc/self/status",
        );
        let empty = sets.lines().filter(|it| it.ends_with("\t0000000000000000"));
        match stage.is_privileged() {
            true => assert_eq!(empty.count(), 2, "those that pass over exec\n{sets}"),
            false => assert_eq!(empty.count(), 5, "{sets}"),
        }
        let map = told(stage, "cat /proc/self/uid_map /proc/self/setgroups");
        let words: Vec<_> = map.split_ascii_whitespace().collect();
        let one = user.to_string();
        match stage.is_privileged() {
            true => assert_eq!(words, ["0", "0", "4294967295", "allow"]),
            false => assert_eq!(words, [one.as_str(), &one, "1", "deny"]),
        }
    });
}

/// What it writes is its own out here as well.
#[test]
fn its_files_are_the_users() {
    each_user(|stage| {
        assert_eq!(told(stage, "echo x > made; stat -c %u made"), {
            format!("{}\n", stage.user_id().unwrap_or(0))
        });
        let made = fs::metadata(stage.path("made")).expect("a file");
        let owner = std::os::unix::fs::MetadataExt::uid(&made);
        assert_eq!(owner, stage.user_id().unwrap_or(0));
    });
}

/// A set-user-ID program of root's.
fn setuid_program(stage: &Stage) -> PathBuf {
    let program = stage.path("whoami");
    fs::copy("/usr/bin/id", &program).expect("id of coreutils");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).expect("chmod");
    program
}

#[test]
fn a_set_user_id_program_has_its_effect_only_where_no_user_namespace_was_needed() {
    if !running_as_root() {
        eprintln!("skipped: needs root, to make a set-user-ID program");
        return;
    }
    let stage = Stage::ordinary();
    let program = setuid_program(&stage);
    let who = told(&stage, &format!("{} -u", program.display()));
    assert_eq!(
        who,
        format!("{}\n", stage.user_id().expect("an ordinary user"))
    );
    let stage = Stage::new();
    let program = setuid_program(&stage);
    fs::set_permissions(stage.root(), fs::Permissions::from_mode(0o755)).expect("chmod");
    let words = "setpriv --reuid=65534 --regid=65534 --clear-groups";
    let who = told(&stage, &format!("{words} {} -u", program.display()));
    assert_eq!(who, "0\n");
}

/// What is mounted there stays there.
#[test]
fn mounts_are_its_own() {
    if !running_as_root() {
        eprintln!("skipped: needs root, to mount");
        return;
    }
    let stage = Stage::new();
    let place = stage.folder("place");
    let script = format!(
        "mount -t tmpfs none {place} && grep -c {place} /proc/self/mountinfo",
        place = place.display()
    );
    assert_eq!(told(&stage, &script), "1\n");
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("/proc is mounted");
    let place = place.to_str().expect("an ASCII path");
    assert!(!mounts.contains(place), "it is mounted out here:\n{mounts}");
}

/// Descriptors, session and limits are as without a namespace.
#[test]
fn it_has_three_descriptors_and_leads_a_session() {
    each_user(|stage| {
        let order = enclosed(Order::fixture(stage, &["fds"]));
        let mut holder = Holder::start(stage);
        run(&mut holder, &order);
        until_empty(&mut holder);
        let report = String::from_utf8(order.stdout()).expect("text");
        let numbers: Vec<_> = report
            .lines()
            .filter_map(|it| it.split(' ').next())
            .collect();
        assert_eq!(numbers, ["0", "1", "2"], "{report}");
        let order = enclosed(Order::fixture(stage, &["status"]));
        let mut holder = Holder::start(stage);
        run(&mut holder, &order);
        until_empty(&mut holder);
        let report = String::from_utf8(order.stdout()).expect("text");
        assert!(report.contains("Session: 2\n"), "{report}");
    });
}
