//! What the command finds: its descriptors, signals, session, environment, folder.

use std::fs;
use std::io::Write;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use xioflow_kit::{Holder, Order, Stage, each_user};
use xioflow_protocol::{Reply, Request, ResourceLimit, Stage as Step};

use crate::{until_empty, until_failure};

/// Runs the order to its end and returns what it printed.
fn output(stage: &Stage, order: &Order) -> Vec<u8> {
    output_of(&mut Holder::start(stage), order)
}

fn output_of(holder: &mut Holder<'_>, order: &Order) -> Vec<u8> {
    holder.run(order);
    let (replies, _) = until_empty(holder);
    assert!(replies.contains(&Reply::Running), "{replies:?}");
    let complaints = order.stderr();
    assert!(complaints.is_empty(), "{}", complaints.escape_ascii());
    order.stdout()
}

fn text(stage: &Stage, order: &Order) -> String {
    String::from_utf8(output(stage, order)).expect("text")
}

/// The value of `Name: value` in a report of lines.
fn field<'a>(report: &'a str, name: &str) -> &'a str {
    let line = report
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {name} in\n{report}"))
        .trim()
}

#[test]
fn it_has_three_descriptors_and_no_more() {
    each_user(|stage| {
        let report = text(stage, &Order::fixture(stage, &["fds"]));
        let numbers: Vec<_> = report
            .lines()
            .filter_map(|line| line.split(' ').next())
            .collect();
        assert_eq!(numbers, ["0", "1", "2"], "{report}");
        let targets: Vec<_> = report
            .lines()
            .filter_map(|line| line.split(' ').nth(1))
            .collect();
        assert_eq!(targets[0], "/dev/null");
        assert!(targets[1].ends_with("order.stdout") && targets[2].ends_with("order.stderr"));
    });
}

/// The fixture cannot tell: its own runtime opens what it finds closed.
#[test]
fn a_closed_input_is_not_open_at_all() {
    each_user(|stage| {
        let script = "for n in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do \
                      test -e /proc/$$/fd/$n && echo $n; done";
        let mut order = Order::shell(stage, script);
        order.launch.stdin_closed = true;
        assert_eq!(text(stage, &order), "1\n2\n");
        let script = "readlink /proc/$$/fd/1 /proc/$$/fd/2";
        let mut order = Order::shell(stage, script);
        order.launch.stdin_closed = true;
        let report = text(stage, &order);
        let targets: Vec<_> = report.lines().collect();
        assert!(
            targets[0].ends_with("order.stdout") && targets[1].ends_with("order.stderr"),
            "{report}"
        );
    });
}

#[test]
fn a_program_opens_files_without_an_input() {
    let stage = Stage::new();
    let given = stage.write("given", "first\n", 0o600);
    let mut order = Order::new(&stage, "/bin/cat", [&given]);
    order.launch.stdin_closed = true;
    assert_eq!(text(&stage, &order), "first\n");
    let mut order = Order::new(&stage, "/bin/readlink", ["/proc/self/fd/0"]);
    order.launch.stdin_closed = true;
    let mut holder = Holder::start(&stage);
    holder.run(&order);
    let (replies, _) = until_empty(&mut holder);
    let exit = crate::root_exit(&replies);
    assert_eq!(exit, xioflow_protocol::Exit::Exited { code: 1 });
}

#[test]
fn a_script_runs_without_an_input() {
    let stage = Stage::new();
    let script = stage.write("script", "#!/bin/sh\nread v || echo none\n", 0o755);
    let mut order = Order::new::<&str>(&stage, &script, []);
    order.launch.stdin_closed = true;
    let mut holder = Holder::start(&stage);
    holder.run(&order);
    until_empty(&mut holder);
    assert_eq!(order.stdout(), b"none\n");
}

#[test]
fn its_descriptors_are_those_that_were_passed_whatever_their_order() {
    let stage = Stage::new();
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    let mut order = Order::fixture(&stage, &["read-stdin"]);
    order.descriptors[0] = OwnedFd::from(reader);
    writer.write_all(b"\xffgiven\n").expect("room in the pipe");
    drop(writer);
    assert_eq!(output(&stage, &order), b"\xffgiven\n");
}

/// The fixture cannot tell, since its own runtime ignores SIGPIPE; cat(1) touches nothing.
#[test]
fn no_signal_is_blocked_or_ignored() {
    let stage = Stage::new();
    let through = [
        "env",
        "--ignore-signal",
        "--block-signal=USR1,USR2,TERM,CHLD",
    ];
    for through in [&through[..], &["env"]] {
        let order = Order::new(&stage, "/bin/cat", ["/proc/self/status"]);
        let mut holder = Holder::start_through(&stage, through);
        let report = String::from_utf8(output_of(&mut holder, &order)).expect("text");
        for name in ["SigPnd", "ShdPnd", "SigBlk", "SigIgn", "SigCgt"] {
            assert_eq!(
                field(&report, name),
                "0000000000000000",
                "{name} through {through:?}"
            );
        }
    }
}

#[test]
fn it_leads_a_session_without_a_terminal() {
    let stage = Stage::new();
    let report = text(&stage, &Order::fixture(&stage, &["status"]));
    let pid = field(&report, "Pid");
    assert_eq!(
        (field(&report, "Session"), field(&report, "Group")),
        (pid, pid)
    );
    assert_eq!(field(&report, "Terminal"), "no");
}

#[test]
fn it_cannot_gain_privileges_unless_asked() {
    each_user(|stage| {
        for (asked, expected) in [(true, "1"), (false, "0")] {
            let mut order = Order::fixture(stage, &["status"]);
            order.launch.no_new_privs = asked;
            let report = text(stage, &order);
            assert_eq!(field(&report, "NoNewPrivs"), expected);
            for name in ["CapAmb", "CapInh"] {
                assert_eq!(field(&report, name), "0000000000000000", "{name}");
            }
        }
    });
}

#[test]
fn masks_limits_and_score_are_those_of_the_order() {
    each_user(|stage| {
        let mut order = Order::fixture(stage, &["umask"]);
        order.launch.umask = Some(0o27);
        assert_eq!(text(stage, &order), "0027\n");
        let mut order = Order::fixture(stage, &["limits"]);
        let nofile = ResourceLimit {
            resource: 7,
            soft: 100,
            hard: 200,
        };
        let core = ResourceLimit {
            resource: 4,
            soft: 0,
            hard: 0,
        };
        order.launch.limits = vec![nofile, core];
        assert_eq!(text(stage, &order), "nofile 100 200\ncore 0 0\n");
        let mut order = Order::shell(stage, "nice");
        order.launch.nice = Some(11);
        assert_eq!(text(stage, &order), "11\n");
        let mut order = Order::fixture(stage, &["status"]);
        order.launch.oom_score_adj = 300;
        assert_eq!(field(&text(stage, &order), "OomScoreAdj"), "300");
    });
}

/// Whoever has no privilege can give some of what he has away, and take nothing more.
#[test]
fn what_needs_privilege_is_refused_by_name() {
    let stage = Stage::ordinary();
    let mut order = Order::shell(&stage, "ulimit -n; nice");
    let nofile = |hard| ResourceLimit {
        resource: 7,
        soft: 60,
        hard,
    };
    order.launch.limits = vec![nofile(60)];
    order.launch.nice = Some(3);
    assert_eq!(text(&stage, &order), "60\n3\n");
    let refused = |order: &Order| {
        let mut holder = Holder::start(&stage);
        holder.launch(order);
        let failure = until_failure(&mut holder);
        let subject = String::from_utf8(failure.subject.into()).expect("text");
        (failure.stage, failure.errno, subject)
    };
    order.launch.limits = vec![nofile(u64::MAX)];
    let subject = "RLIMIT_NOFILE: soft 60, hard unlimited".to_owned();
    assert_eq!(
        refused(&order),
        (Step::Limits, Errno::PERM.raw_os_error(), subject)
    );
    order.launch.limits.clear();
    order.launch.nice = Some(-5);
    let subject = "nice value -5".to_owned();
    assert_eq!(
        refused(&order),
        (Step::Limits, Errno::ACCESS.raw_os_error(), subject)
    );
}

#[test]
fn its_environment_is_exact() {
    let stage = Stage::new();
    let mut order = Order::fixture(&stage, &["env"]);
    let entries: [&[u8]; 5] = [
        b"B=2",
        b"A=1",
        b"EMPTY=",
        b"BYTES=\xff\xfe\x80",
        b"EQUALS=a=b=c",
    ];
    order.launch.env = entries.iter().map(|entry| entry.to_vec().into()).collect();
    let expected: Vec<u8> = entries
        .iter()
        .flat_map(|entry| [entry, &b"\0"[..]].concat())
        .collect();
    assert_eq!(output(&stage, &order), expected);
    let mut order = Order::fixture(&stage, &["env"]);
    order.launch.env.clear();
    assert_eq!(output(&stage, &order), b"");
}

#[test]
fn its_arguments_are_exact() {
    let stage = Stage::new();
    let mut order = Order::fixture(&stage, &["args"]);
    let words: [&[u8]; 5] = [b"", b" ", b"\xff\xfe", b"a\nb", b"--option=$HOME"];
    order
        .launch
        .argv
        .extend(words.iter().map(|word| word.to_vec().into()));
    let expected: Vec<u8> = words
        .iter()
        .flat_map(|word| [word, &b"\0"[..]].concat())
        .collect();
    assert_eq!(output(&stage, &order), expected);
}

#[test]
fn its_name_is_the_one_of_the_order() {
    let stage = Stage::new();
    let mut order = Order::new(&stage, "/bin/cat", ["/proc/self/cmdline"]);
    order.launch.argv[0] = b"another".to_vec().into();
    assert_eq!(output(&stage, &order), b"another\0/proc/self/cmdline\0");
}

#[test]
fn its_program_is_searched_as_execvp_does() {
    let stage = Stage::new();
    let (first, second) = (stage.folder("first"), stage.folder("second"));
    stage.write("first/tool", "#!/bin/sh\necho first\n", 0o644);
    stage.write("second/tool", "#!/bin/sh\necho second\n", 0o755);
    let mut order = Order::new::<&str>(&stage, "tool", []);
    let path = format!("PATH=/nonexistent:{}:{}", first.display(), second.display());
    order.launch.env = vec![path.into_bytes().into()];
    assert_eq!(
        output(&stage, &order),
        b"second\n",
        "one without permission is passed over"
    );
}

#[test]
fn its_folder_is_exact() {
    use std::os::unix::ffi::OsStrExt;
    let stage = Stage::new();
    let folder = stage.folder(std::ffi::OsStr::from_bytes(b"\xff folder"));
    let mut order = Order::fixture(&stage, &["cwd"]);
    let bytes = folder.as_os_str().as_bytes().to_vec();
    order.launch.cwd = bytes.clone().into();
    assert_eq!(output(&stage, &order), bytes);
}

#[test]
fn its_folder_may_vanish_while_it_waits() {
    let stage = Stage::new();
    let folder = stage.folder("short-lived");
    let mut order = Order::fixture(&stage, &["exit", "6"]);
    order.launch.cwd = folder.as_os_str().as_encoded_bytes().to_vec().into();
    let mut holder = Holder::start(&stage);
    holder.gate(&order);
    fs::remove_dir(&folder).expect("an empty folder");
    holder.send(&Request::Release);
    let (replies, _) = until_empty(&mut holder);
    assert_eq!(
        crate::root_exit(&replies),
        xioflow_protocol::Exit::Exited { code: 6 }
    );
}

#[test]
fn its_output_is_untouched() {
    let stage = Stage::new();
    let bytes = b"\xff\xfe\x00\x80plain\xc3\x28\n";
    assert_eq!(
        output(&stage, &Order::fixture(&stage, &["not-utf8"])),
        bytes
    );
}
