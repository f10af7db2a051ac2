//! What the helper has taken from itself by the time that the command runs, and that the command has not.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use xioflow_kit::{Deadline, Holder, Order, Stage, each_user, running_as_root, strace, wait};
use xioflow_protocol::{Armour, Exit, FEATURE_ARMOUR, FEATURE_RECORDED, Reply, Request};

use crate::until_empty;

/// A helper that holds a command at its gate, and what it says of itself.
fn armoured<'a>(stage: &'a Stage, order: &Order) -> (Holder<'a>, Armour) {
    let mut holder = Holder::start(stage);
    holder.greet_naming(&[FEATURE_ARMOUR]);
    holder.send_launch(order);
    let spawned = holder.reply();
    assert!(matches!(spawned, Reply::Spawned { .. }), "{spawned:?}");
    let Reply::Armour(armour) = holder.reply() else {
        panic!("it was asked for its armour");
    };
    (holder, armour)
}

/// A field of `/proc/<pid>/status`, which anybody may read.
fn status(pid: u32, name: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let field = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t"));
    field
        .unwrap_or_else(|| panic!("no {name} in\n{text}"))
        .to_owned()
}

/// How many filters this process wears, and everything that it starts.
fn filters_of_the_host() -> u32 {
    status(std::process::id(), "Seccomp_filters")
        .parse()
        .expect("a number")
}

#[test]
fn what_it_says_of_its_armour_is_what_the_kernel_says() {
    each_user(|stage| {
        let order = Order::shell(stage, "exit 3");
        let (mut holder, armour) = armoured(stage, &order);
        let pid = holder.pid();
        assert!(armour.no_new_privs && armour.filter, "{armour:?}");
        assert_eq!(status(pid, "NoNewPrivs"), "1");
        assert_eq!(status(pid, "Seccomp"), "2");
        let filters: u32 = status(pid, "Seccomp_filters").parse().expect("a number");
        assert_eq!(filters, filters_of_the_host() + 1);
        let permitted = u64::from_str_radix(&status(pid, "CapPrm"), 16).expect("a set");
        assert_eq!(armour.capabilities, Some(permitted));
        holder.send(&Request::Release);
        let (replies, _) = until_empty(&mut holder);
        assert!(replies.contains(&Reply::Running), "{replies:?}");
    });
}

/// Of a set of 41 capabilities root's helper keeps three: another user's members of the tree, its own
/// turn, a domain of another user. An ordinary user's has none from the beginning.
#[test]
fn it_keeps_the_capabilities_that_it_uses() {
    each_user(|stage| {
        let order = Order::shell(stage, ":");
        let (holder, armour) = armoured(stage, &order);
        let kept = armour.capabilities.expect("it can be told");
        let used = 1 << 1 | 1 << 5 | 1 << 23;
        assert_eq!(kept & !used, 0, "{kept:x}");
        if status(std::process::id(), "CapEff").ends_with("ffffffffff") && stage.user_id().is_none()
        {
            assert_eq!(kept, used, "as root it has all that it uses");
        }
        assert_eq!(status(holder.pid(), "CapInh"), "0000000000000000");
    });
}

#[test]
fn who_does_not_ask_is_told_nothing() {
    let stage = Stage::new();
    let mut holder = Holder::start(&stage);
    holder.greet_naming(&[FEATURE_RECORDED]);
    holder.send_launch(&Order::shell(&stage, ":"));
    assert!(matches!(holder.reply(), Reply::Spawned { .. }));
    holder.send(&Request::Release);
    assert_eq!(holder.reply(), Reply::Running);
}

/// The filter, the domain, and what was dropped would all pass to what is forked after them.
#[test]
fn the_command_inherits_nothing_of_it() {
    each_user(|stage| {
        let outside = stage.folder("outside");
        // Files elsewhere, programs, sockets between processes, and its own /proc.
        let script = format!(
            "grep -E '^(Seccomp|Seccomp_filters|NoNewPrivs|CapEff|CapBnd):' /proc/self/status; \
             echo made >{0}/file && cat {0}/file; echo piped | cat; ls /proc/self/fd >{0}/list",
            outside.display()
        );
        let mut order = Order::shell(stage, &script);
        order.launch.no_new_privs = false;
        let (mut holder, _) = armoured(stage, &order);
        holder.send(&Request::Release);
        until_empty(&mut holder);
        let said = String::from_utf8(order.stdout()).expect("text");
        let mut fields = BTreeMap::new();
        for line in said.lines() {
            if let Some((name, value)) = line.split_once(":\t") {
                fields.insert(name.to_owned(), value.to_owned());
            }
        }
        assert!(
            said.ends_with("made\npiped\n"),
            "{said}\n{:?}",
            order.stderr()
        );
        let ours = |name: &str| status(std::process::id(), name);
        for name in ["Seccomp", "Seccomp_filters", "NoNewPrivs", "CapBnd"] {
            assert_eq!(fields[name], ours(name), "{name}");
        }
        if stage.user_id().is_none() {
            assert_eq!(
                fields["CapEff"],
                ours("CapEff"),
                "a command has its caller's rights"
            );
        }
    });
}

/// What is at each descriptor, without the numbers of pipes and sockets.
fn descriptors(pid: u32) -> BTreeMap<u32, String> {
    let folder = fs::read_dir(format!("/proc/{pid}/fd")).expect("root may look");
    folder
        .filter_map(|entry| {
            let entry = entry.expect("an entry");
            let number = entry.file_name().to_str()?.parse().ok()?;
            // One that is closed at this moment is none.
            let target = fs::read_link(entry.path()).ok()?;
            Some((number, kind(&target.to_string_lossy()).to_owned()))
        })
        .collect()
}

/// The kernel names pipes and sockets with their number, processes with or without (pidfs, Linux 6.9).
fn kind(target: &str) -> &str {
    match target.split_once(":[") {
        Some(("anon_inode", kind)) => kind.trim_end_matches(']'),
        Some((kind, _)) => kind,
        None => target,
    }
}

/// The list of `docs/holder.md`.
#[test]
fn it_holds_the_documented_descriptors_and_no_more() {
    if !running_as_root() {
        eprintln!("skipped: needs root, to look into a helper");
        return;
    }
    let stage = Stage::new();
    let mut holder = Holder::start(&stage);
    let order = Order::fixture(&stage, &["--ttl", "60", "sleep"]);
    let held = |holder: &Holder<'_>, more: &[&str]| {
        let always = ["/dev/null", "/dev/null", "/dev/null", "signalfd", "socket"];
        let mut expected: Vec<_> = always.iter().chain(more).map(ToString::to_string).collect();
        expected.sort_unstable();
        // What it says comes before what it closes.
        wait::until(&format!("{expected:?}"), Deadline::usual(), || {
            let mut kinds: Vec<_> = descriptors(holder.pid()).into_values().collect();
            kinds.sort_unstable();
            kinds == expected
        });
    };
    holder.greet_naming(&[FEATURE_ARMOUR, FEATURE_RECORDED]);
    held(&holder, &[]);
    let holders = order.holders().to_str().expect("text");
    holder.send_launch(&order);
    let Reply::Spawned { root, .. } = holder.reply() else {
        panic!("it is spawned");
    };
    assert!(matches!(holder.reply(), Reply::Armour(_)));
    held(&holder, &["socket", "pidfd", holders]);
    holder.send(&Request::Release);
    assert_eq!(holder.reply(), Reply::Running);
    held(&holder, &["pidfd", holders]);
    let raw = Pid::from_raw(i32::try_from(root.pid).expect("a pid")).expect("not 0");
    kill_process(raw, Signal::KILL).expect("root may");
    assert!(matches!(holder.reply(), Reply::RootExited { .. }));
    assert!(matches!(holder.reply(), Reply::TreeEmpty(_)));
    // It waits for the record.
    held(&holder, &["pidfd", holders]);
    holder.send(&Request::Recorded);
    assert!(holder.wait().success());
}

#[test]
fn nobody_of_its_user_looks_into_it() {
    let stage = Stage::ordinary();
    let mut order = Order::shell(
        &stage,
        "for file in mem environ maps fd/0 root cwd; do \
         cat /proc/$PPID/$file >/dev/null 2>&1 && echo $file; ls /proc/$PPID/$file/ >/dev/null 2>&1 && echo $file; \
         done; echo looked",
    );
    order.launch.settle_ms = 0;
    let mut holder = Holder::start(&stage);
    holder.run(&order);
    until_empty(&mut holder);
    assert_eq!(String::from_utf8_lossy(&order.stdout()), "looked\n");
}

/// Calls by their numbers on x86_64, with arguments of 0 harmless in any process: who it is, its files' mode
/// mask, sockets, memory that can be run, signals to everybody in its group, and one that is allowed.
const CALLS: [(&str, i64); 6] = [
    ("102", -38),    // getuid
    ("95", -38),     // umask
    ("41", -38),     // socket
    ("10", -38),     // mprotect
    ("62", -38),     // kill, of process 0: its own group
    ("231231", -38), // no call at all
];

/// The real helper is made to do what no helper does.
#[test]
fn a_call_that_is_not_on_its_list_is_refused_and_it_lives() {
    if !cfg!(target_arch = "x86_64") || !running_as_root() || !has_python() {
        eprintln!("skipped: needs root, x86_64 and python3, to have a helper make calls");
        return;
    }
    let stage = Stage::new();
    let order = Order::shell(&stage, "exit 3");
    let mut holder = Holder::start(&stage);
    holder.greet_naming(&[FEATURE_ARMOUR]);
    let umask = made_to_call(holder.pid(), &["102"]);
    assert_eq!(umask, ["102 0"], "before, it may ask who it is");
    holder.send_launch(&order);
    assert!(matches!(holder.reply(), Reply::Spawned { .. }));
    assert!(matches!(holder.reply(), Reply::Armour(_)));
    let numbers = CALLS.map(|(number, _)| number);
    let answers = made_to_call(holder.pid(), &numbers);
    let expected = CALLS.map(|(number, answer)| format!("{number} {answer}"));
    assert_eq!(answers, expected);
    let own_pid = made_to_call(holder.pid(), &["39"]);
    assert_eq!(own_pid, [format!("39 {}", holder.pid())], "getpid is on it");
    holder.send(&Request::Release);
    let (replies, _) = until_empty(&mut holder);
    assert_eq!(crate::root_exit(&replies), Exit::Exited { code: 3 });
}

fn has_python() -> bool {
    let mut python = Command::new("python3");
    python.args(["-c", "import ctypes"]).stderr(Stdio::null());
    python.status().is_ok_and(|status| status.success())
}

/// Lines of a number and the answer to it.
fn made_to_call(pid: u32, numbers: &[&str]) -> Vec<String> {
    let mut python = Command::new("python3");
    python.args(["-c", include_str!("call_in.py"), &pid.to_string()]);
    let output = python.args(numbers).output().expect("python3 runs");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("numbers");
    text.lines().map(str::to_owned).collect()
}

/// What a refusal costs where it was not meant: here the call that reads the socket. The helper takes it
/// for broken and ends its tree as it does without a supervisor.
#[test]
fn a_refusal_that_was_not_meant_costs_nobody_the_tree() {
    if !running_as_root() || !strace::is_there() {
        eprintln!("{}", strace::MISSING);
        return;
    }
    let stage = Stage::new();
    let order = Order::fixture(&stage, &["--ttl", "60", "ignore-signals"]);
    let (mut holder, _) = armoured(&stage, &order);
    holder.send(&Request::Release);
    assert_eq!(holder.reply(), Reply::Running);
    let pid = holder.pid().to_string();
    let mut debugger = Command::new("strace")
        .args(["-qq", "-o", "/dev/null", "-p", &pid, "--trace=recvmsg"])
        .arg("--inject=recvmsg:error=ENOSYS:when=1")
        .stdin(Stdio::null())
        .spawn()
        .expect("strace runs");
    wait::until("strace is attached", Deadline::usual(), || {
        status(holder.pid(), "TracerPid") == debugger.id().to_string()
    });
    // It never gets to read this.
    holder.send(&Request::Resume);
    let word = order.last_word();
    assert!(word.empty && word.stopped, "{word:?}");
    assert!(holder.wait().success());
    debugger.wait().expect("ours");
}
