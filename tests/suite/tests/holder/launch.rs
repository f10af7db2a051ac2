//! What a launch reports, and every way in which it fails.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use rustix::io::Errno;
use xioflow_kit::{Holder, Order, Stage, each_user};
use xioflow_protocol::{
    Exit, HELPER_EXIT_OK, HELPER_EXIT_PROTOCOL, LaunchFailure, ProtocolFault, Reply, Request,
    ResourceLimit, Stage as Step,
};

use crate::{root_exit, until_empty, until_failure};

/// Linux takes no argument longer than this, its final NUL included (`MAX_ARG_STRLEN`).
const ARGUMENT_LEN_MAX: usize = 131_072;
/// Numbers of setrlimit(2) and signal(7).
const RLIMIT_CORE: u32 = 4;
const SIGABRT: i32 = 6;

#[test]
fn an_exit_status_is_exact() {
    each_user(|stage| {
        for code in [0, 1, 7, 125, 126, 127, 255] {
            let order = Order::fixture(stage, &["exit", &code.to_string()]);
            let mut holder = Holder::start(stage);
            let root = holder.run(&order);
            let (replies, end) = until_empty(&mut holder);
            let expected = Exit::Exited { code };
            assert_eq!(
                replies,
                [Reply::Running, Reply::RootExited { exit: expected }]
            );
            assert_eq!(end.exit, Some(expected));
            assert_eq!((end.survivors_total, end.last_signal), (0, None));
            assert!(end.survivors.is_empty());
            assert!(
                end.usage.max_rss_kib > 0,
                "something that ran has used memory"
            );
            crate::assert_all_gone(&[root]);
        }
    });
}

#[test]
fn an_ending_signal_is_exact() {
    let stage = Stage::new();
    for signal in [1, 6, 9, 11, 15, 31, 34, 64] {
        let number = signal.to_string();
        let order = Order::shell(&stage, &format!("ulimit -c 0; kill -{number} $$"));
        let mut holder = Holder::start(&stage);
        holder.run(&order);
        let (replies, end) = until_empty(&mut holder);
        assert_eq!(
            root_exit(&replies),
            Exit::Signaled {
                signal,
                core: false
            }
        );
        assert_eq!(end.last_signal, None, "the ladder sent nothing");
    }
}

#[test]
fn a_core_dump_is_a_fact_of_its_own() {
    let stage = Stage::new();
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").expect("/proc is mounted");
    let mut order = Order::fixture(&stage, &["core"]);
    let core = |len| ResourceLimit {
        resource: RLIMIT_CORE,
        soft: len,
        hard: len,
    };
    order.launch.limits = vec![core(0)];
    assert_eq!(
        exit_of(&stage, &order),
        Exit::Signaled {
            signal: SIGABRT,
            core: false
        }
    );
    if pattern.trim() != "core" {
        eprintln!("skipped in part: core dumps go to {}", pattern.trim());
        return;
    }
    order.launch.limits = vec![core(u64::MAX)];
    let dumped = exit_of(&stage, &order);
    let file = stage.path("core").exists();
    assert_eq!(
        dumped,
        Exit::Signaled {
            signal: SIGABRT,
            core: file
        }
    );
}

fn exit_of(stage: &Stage, order: &Order) -> Exit {
    let mut holder = Holder::start(stage);
    holder.run(order);
    root_exit(&until_empty(&mut holder).0)
}

#[test]
fn the_identity_is_the_commands_own() {
    let stage = Stage::new();
    let order = Order::fixture(&stage, &["status"]);
    let mut holder = Holder::start(&stage);
    holder.launch(&order);
    let received = holder.receive().expect("a command at its gate");
    let Reply::Spawned { root, .. } = received.reply else {
        panic!("{:?}", received.reply)
    };
    assert_eq!(received.descriptors.len(), 1, "a pidfd travels along");
    let stat = fs::read_to_string(format!("/proc/{}/stat", root.pid)).expect("it lives");
    let after_name = stat.rsplit_once(") ").expect("a name in parentheses").1;
    let start_ticks = after_name.split(' ').nth(19).expect("field 22");
    assert_eq!(root.start_ticks.to_string(), start_ticks);
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("a boot id");
    let hex: String = root
        .boot_id
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert_eq!(hex, boot.trim().replace('-', ""));
    let pidfd = rustix::fs::fstat(&received.descriptors[0]).expect("fstat of the pidfd");
    if let Some(inode) = root.pidfd_inode {
        assert_eq!(inode, pidfd.st_ino);
    }
    holder.send(&Request::Release);
    until_empty(&mut holder);
    assert!(String::from_utf8_lossy(&order.stdout()).contains(&format!("Pid: {}\n", root.pid)));
}

/// The failure of a launch, before the gate or, where only execve(2) can tell, after it.
fn failure_of(stage: &Stage, order: &Order) -> LaunchFailure {
    let mut holder = Holder::start(stage);
    holder.launch(order);
    let failure = match holder.reply() {
        Reply::LaunchFailed(failure) => failure,
        Reply::Spawned { .. } => {
            holder.send(&Request::Release);
            until_failure(&mut holder)
        }
        other => panic!("expected a failed launch, got {other:?}"),
    };
    holder.hang_up();
    assert_eq!(holder.wait().code(), Some(HELPER_EXIT_OK));
    failure
}

fn assert_failure(stage: &Stage, order: &Order, step: Step, errno: Errno) -> LaunchFailure {
    let failure = failure_of(stage, order);
    let found = (failure.stage, Errno::from_raw_os_error(failure.errno));
    let subject = failure.subject.escape_ascii();
    assert_eq!(
        found,
        (step, errno),
        "about {subject}, for {:?}",
        order.launch.program
    );
    failure
}

#[test]
fn a_working_directory_that_cannot_be_entered() {
    each_user(|stage| {
        let file = stage.write("file", "", 0o600);
        let closed = stage.folder("closed");
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o600)).expect("chmod");
        let mut cases = vec![(stage.path("missing"), Errno::NOENT), (file, Errno::NOTDIR)];
        if !stage.is_privileged() {
            cases.push((closed, Errno::ACCESS));
        }
        for (path, errno) in cases {
            let mut order = Order::fixture(stage, &["exit", "0"]);
            let bytes = path.as_os_str().as_encoded_bytes().to_vec();
            order.launch.cwd = bytes.clone().into();
            let failure = assert_failure(stage, &order, Step::Cwd, errno);
            assert_eq!(*failure.subject, *bytes, "the folder is named");
        }
    });
}

#[test]
fn a_program_that_cannot_be_executed() {
    each_user(|stage| {
        let cases = [
            (stage.path("missing"), Errno::NOENT),
            (stage.folder("folder"), Errno::ACCESS),
            (stage.write("data", "#!/bin/sh\n", 0o644), Errno::ACCESS),
            (stage.write("plain", "echo ran\n", 0o755), Errno::NOEXEC),
            (stage.write("empty", "", 0o755), Errno::NOEXEC),
            (
                stage.write("orphan", "#!/nonexistent/sh\n", 0o755),
                Errno::NOENT,
            ),
            (stage.write("file", "", 0o644).join("below"), Errno::NOTDIR),
        ];
        for (program, errno) in cases {
            let order = Order::new::<&str>(stage, &program, []);
            assert_failure(stage, &order, Step::Exec, errno);
            assert_eq!(order.stdout(), b"", "nothing has run");
        }
    });
}

#[test]
fn a_name_that_is_in_no_folder_of_the_path() {
    let stage = Stage::new();
    let order = Order::new::<&str>(&stage, "no-such-program", []);
    assert_failure(&stage, &order, Step::Exec, Errno::NOENT);
    let mut order = Order::fixture(&stage, &["exit", "0"]);
    order.launch.program = Vec::new().into();
    assert_failure(&stage, &order, Step::Exec, Errno::NOENT);
    let locked = stage.folder("locked");
    stage.write("locked/tool", "#!/bin/sh\n", 0o644);
    let mut order = Order::new::<&str>(&stage, "tool", []);
    let path = [b"PATH=".as_slice(), locked.as_os_str().as_encoded_bytes()].concat();
    order.launch.env = vec![path.into()];
    // As execvp(3): found without permission is another fact than not found.
    assert_failure(&stage, &order, Step::Exec, Errno::ACCESS);
}

#[test]
fn the_longest_argument_fits_and_one_byte_more_does_not() {
    let stage = Stage::new();
    let longest = "x".repeat(ARGUMENT_LEN_MAX - 1);
    let order = Order::fixture(&stage, &["args", &longest]);
    let mut holder = Holder::start(&stage);
    holder.run(&order);
    until_empty(&mut holder);
    assert_eq!(order.stdout().len(), longest.len() + 1);
    let order = Order::fixture(&stage, &["args", &"x".repeat(ARGUMENT_LEN_MAX)]);
    assert_failure(&stage, &order, Step::Exec, Errno::TOOBIG);
}

/// Changes an order into one that no command can have.
type Spoil = fn(&mut Order);

#[test]
fn what_no_launch_can_have_is_refused() {
    let stage = Stage::new();
    let cases: [(&str, Spoil); 6] = [
        ("no argv", |order| order.launch.argv.clear()),
        ("an argument with NUL", |order| {
            order.launch.argv.push(b"a\0b".to_vec().into())
        }),
        ("a variable with NUL", |order| {
            order.launch.env.push(b"A=\0".to_vec().into())
        }),
        ("a relative cwd", |order| {
            order.launch.cwd = b"work".to_vec().into()
        }),
        ("a name with a slash", |order| {
            order.launch.last_word_name = b"a/b".to_vec().into()
        }),
        ("a name that is no name", |order| {
            order.launch.last_word_name = b"..".to_vec().into()
        }),
    ];
    for (case, spoil) in cases {
        let trace = stage.path("trace");
        let trace = trace.to_str().expect("an ASCII path");
        let mut order = Order::fixture(&stage, &["append-line", trace]);
        spoil(&mut order);
        let mut holder = Holder::start(&stage);
        holder.launch(&order);
        let replies = holder.rest();
        let [Reply::Refused(ProtocolFault::Invalid { what })] = &replies[..] else {
            panic!("{case} is answered by {replies:?}");
        };
        assert!(!what.is_empty(), "{case} is explained");
        assert_eq!(holder.wait().code(), Some(HELPER_EXIT_PROTOCOL), "{case}");
        assert!(!stage.path("trace").exists(), "{case} runs nothing");
    }
}
