//! A helper whose file has `CAP_KILL`: whom it ends with it, whom it serves, and that it reaches nobody else.
//!
//! An ordinary user has to be its supervisor, so the tests that speak with one run their half as that user.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use xioflow_kit::{Deadline, Holder, Order, Stage, running_as_root, wait};
use xioflow_protocol::{
    Containment, FEATURE_ARMOUR, FEATURE_CAP_KILL, HELPER_EXIT_MISUSE, HELPER_EXIT_PROTOCOL,
    ProtocolFault, Reply, Request, StopPlan,
};

use crate::{plan, rung, signal, until_empty, until_last};

const HALF: &str = "XIOFLOW_TEST_PRIVILEGED";
const NOBODY: u32 = 65534;

/// What a test says that cannot have such a helper.
const MISSING: &str = "skipped: needs root and setcap of libcap2-bin, to give a file a capability that its file system keeps";

/// A copy of the helper with the capability, as a package would install it; `None` where that cannot be made.
fn packaged(stage: &Stage, capability: &str) -> Option<PathBuf> {
    if !running_as_root() {
        return None;
    }
    let path = stage.path("packaged-reaper");
    fs::copy(stage.program("xioflow-reaper"), &path).expect("a copy");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("chmod");
    let set = Command::new("setcap").arg(capability).arg(&path).status();
    set.is_ok_and(|status| status.success()).then_some(path)
}

/// Starts a helper of that file in place of the stage's.
fn start<'a>(stage: &'a Stage, path: &Path, before: &str) -> Holder<'a> {
    let script = format!("{before} exec {}", path.display());
    Holder::start_through(stage, &["/bin/sh", "-c", &script])
}

/// The socket is of the test's user, who is root; the helper is nobody's.
#[test]
fn it_serves_nobody_but_its_own_real_user() {
    let stage = Stage::ordinary();
    let Some(path) = packaged(&stage, "cap_kill+ep") else {
        eprintln!("{MISSING}");
        return;
    };
    let mut holder = start(&stage, &path, "");
    // It refuses before it has heard anything.
    let stranger = ProtocolFault::Stranger {
        ours: NOBODY,
        theirs: Some(0),
    };
    assert_eq!(holder.reply(), Reply::Refused(stranger));
    holder.hang_up();
    assert_eq!(holder.wait().code(), Some(HELPER_EXIT_PROTOCOL));
}

#[test]
fn a_set_user_id_helper_explains_itself_and_serves_nobody() {
    if !running_as_root() {
        eprintln!("skipped: needs root, to make a set-user-ID program");
        return;
    }
    let stage = Stage::ordinary();
    let path = stage.path("set-user-id");
    fs::copy(stage.program("xioflow-reaper"), &path).expect("a copy");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o4755)).expect("chmod");
    let owner = fs::metadata(&path).expect("there").uid();
    assert_eq!(owner, 0, "it is root's");
    let mut holder = start(&stage, &path, "");
    assert_eq!(holder.wait().code(), Some(HELPER_EXIT_MISUSE));
}

/// Neither a loader nor a library is in it, so no variable of a loader means anything to it.
#[test]
fn its_file_names_no_loader() {
    let stage = Stage::new();
    let file = fs::read(stage.program("xioflow-reaper")).expect("a program");
    let number = |at: usize, len: usize| {
        let bytes = file[at..at + len].iter().rev();
        bytes.fold(0_usize, |number, &byte| number << 8 | usize::from(byte))
    };
    // e_phoff, e_phentsize and e_phnum of elf(5); PT_DYNAMIC is 2, PT_INTERP 3.
    let (table, size, count) = (number(32, 8), number(54, 2), number(56, 2));
    let kinds: Vec<_> = (0..count).map(|at| number(table + at * size, 4)).collect();
    assert!(kinds.contains(&1), "it is loaded: {kinds:?}");
    assert!(!kinds.contains(&3), "no interpreter: {kinds:?}");
}

#[test]
fn an_ordinary_user_s_packaged_helper_ends_its_tree_and_nobody_else() {
    for capability in [
        "cap_kill+ep",
        "cap_kill+p",
        "cap_kill,cap_sys_admin,cap_setuid+ep",
    ] {
        let stage = Stage::ordinary();
        let Some(path) = packaged(&stage, capability) else {
            eprintln!("{MISSING}");
            return;
        };
        let become_root = stage.path("become-root");
        fs::copy("/usr/bin/setpriv", &become_root).expect("setpriv of util-linux");
        fs::set_permissions(&become_root, fs::Permissions::from_mode(0o4755)).expect("chmod");
        let half = stage.path("half");
        fs::copy(std::env::current_exe().expect("this program"), &half).expect("a copy");
        let programs = stage.program("xioflow");
        let mut victim = Victim::start();
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(&half)
            .args(["--exact", "privileged::half", "--ignored", "--nocapture"])
            .env(HALF, stage.path(""))
            .env("XIOFLOW_TEST_VICTIM", victim.0.id().to_string())
            .env("XIOFLOW_TEST_BIN_DIR", programs.parent().expect("a folder"))
            .stdin(Stdio::null());
        let output = command.output().expect("setpriv runs");
        let said = String::from_utf8_lossy(&output.stdout);
        let complaints = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "{capability} of {}:\n{said}\n{complaints}",
            path.display()
        );
        assert!(said.contains("1 passed"), "{said}");
        assert!(
            victim.0.try_wait().expect("ours").is_none(),
            "{capability}: it was reached"
        );
    }
}

/// A process of root outside of every tree, in a group and a session of its own.
struct Victim(Child);

impl Victim {
    fn start() -> Self {
        let sleeper = Command::new("setsid").args(["sleep", "120"]).spawn();
        Self(sleeper.expect("setsid of util-linux"))
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
#[ignore = "the half of another test that an ordinary user runs"]
fn half() {
    let Some(folder) = std::env::var_os(HALF).map(PathBuf::from) else {
        return;
    };
    let path = folder.join("packaged-reaper");
    let become_root = folder.join("become-root");
    let stage = Stage::new();
    it_holds_one_right_that_is_not_in_force(&stage, &path);
    who_became_root_is_ended(&stage, &path, &become_root);
    a_rung_reaches_who_became_root(&stage, &path, &become_root);
    nothing_that_is_asked_reaches_others(&stage, &path);
    a_namespace_can_be_had_with_it(&stage, &path);
}

/// In a namespace of its own the child needs the rights that the user namespace gives, and those of the file are gone.
fn a_namespace_can_be_had_with_it(stage: &Stage, path: &Path) {
    let mut order = Order::shell(stage, "grep ^Cap /proc/self/status; setsid sleep 100 & :");
    order.launch.no_new_privs = false;
    order.launch.containment = Containment::PidNamespace;
    let mut holder = start(stage, path, "");
    holder.greet();
    holder.send_launch(&order);
    let reply = holder.reply();
    let Reply::Spawned {
        namespace: Some(namespace),
        ..
    } = reply
    else {
        panic!("{reply:?}");
    };
    assert!(namespace.user_namespace);
    assert_eq!(field(&holder.pid().to_string(), "CapPrm"), "0".repeat(16));
    holder.send(&Request::Release);
    let (_, end) = until_empty(&mut holder);
    assert_eq!(end.survivors_total, 1);
    let said = String::from_utf8(order.stdout()).expect("text");
    for name in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert!(
            said.contains(&format!("{name}:\t{:016x}", 0)),
            "{name} in {said}"
        );
    }
}

fn field(pid: &str, name: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t"));
    line.expect("a field").to_owned()
}

fn it_holds_one_right_that_is_not_in_force(stage: &Stage, path: &Path) {
    let script = "grep ^Cap /proc/self/status; cat /proc/$PPID/environ 2>/dev/null && echo open; :";
    let mut order = Order::shell(stage, script);
    order.launch.no_new_privs = false;
    // A loader would print its libraries and end; there is none.
    let mut holder = start(
        stage,
        path,
        "LD_PRELOAD=/nonexistent LD_SHOW_AUXV=1 LD_TRACE_LOADED_OBJECTS=1",
    );
    let hello = holder.greet_naming(&[FEATURE_ARMOUR]);
    assert!(
        hello.features.iter().any(|name| name == FEATURE_CAP_KILL),
        "{hello:?}"
    );
    let pid = holder.pid().to_string();
    let right = format!("{:016x}", 1 << 5);
    assert_eq!(field(&pid, "CapPrm"), right);
    assert_eq!(field(&pid, "CapEff"), format!("{:016x}", 0));
    holder.send_launch(&order);
    assert!(matches!(holder.reply(), Reply::Spawned { .. }));
    let Reply::Armour(armour) = holder.reply() else {
        panic!("it was asked for");
    };
    assert_eq!(armour.capabilities, Some(1 << 5));
    holder.send(&Request::Release);
    until_empty(&mut holder);
    let said = String::from_utf8(order.stdout()).expect("text");
    for name in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert!(
            said.contains(&format!("{name}:\t{:016x}", 0)),
            "{name} in {said}"
        );
    }
    assert!(!said.contains("open"), "{said}");
}

/// A tree in which somebody is root for good; below a shell that is not, and beside one in the same group.
fn with_root<'a>(
    stage: &'a Stage,
    path: &Path,
    become_root: &Path,
    then: &str,
) -> (Holder<'a>, u32) {
    let pid_file = stage.path("pid");
    drop(fs::remove_file(&pid_file));
    let script = format!(
        "{} --reuid=0 --regid=0 --clear-groups /bin/sh -c 'echo $$ >{}; exec sleep 100' {then}",
        become_root.display(),
        pid_file.display()
    );
    let mut order = Order::shell(stage, &script);
    order.launch.no_new_privs = false;
    let mut holder = start(stage, path, "");
    holder.run(&order);
    let number = || fs::read_to_string(&pid_file).ok()?.trim().parse().ok();
    let pid = wait::in_folder(&stage.path(""), Deadline::usual(), number);
    (holder, pid.expect("a process that became root"))
}

fn who_became_root_is_ended(stage: &Stage, path: &Path, become_root: &Path) {
    for then in ["", "& sleep 100", "& exit 0"] {
        let (mut holder, pid) = with_root(stage, path, become_root, then);
        holder.send(&Request::Stop(StopPlan::kill(10_000)));
        let replies = until_last(&mut holder);
        assert!(
            matches!(replies.last(), Some(Reply::TreeEmpty(_))),
            "{then}: {replies:?}"
        );
        assert!(!wait::is_alive(pid), "{then}");
    }
}

fn a_rung_reaches_who_became_root(stage: &Stage, path: &Path, become_root: &Path) {
    // Our child: it took the place of the shell.
    let (mut holder, pid) = with_root(stage, path, become_root, "& exit 0");
    holder.send(&Request::Stop(plan(&[rung(signal::TERM, 10_000)])));
    let replies = until_last(&mut holder);
    let Some(Reply::TreeEmpty(end)) = replies.last() else {
        panic!("{replies:?}");
    };
    assert_eq!(end.last_signal, Some(signal::TERM), "{replies:?}");
    assert!(!wait::is_alive(pid));
}

/// Everything that a supervisor can say and a tree can do about numbers and groups.
fn nothing_that_is_asked_reaches_others(stage: &Stage, path: &Path) {
    let victim = std::env::var("XIOFLOW_TEST_VICTIM").expect("who it must not reach");
    let lives = |what: &str| {
        assert_ne!(field(&victim, "State").chars().next(), Some('Z'), "{what}");
    };
    // Signals that are none, and requests before there is a tree.
    for number in [0, -1, -9, 65, i32::MIN, i32::MAX] {
        let mut order = Order::shell(stage, "sleep 100");
        order.launch.on_host_loss = plan(&[rung(number, 0)]);
        let mut holder = start(stage, path, "");
        holder.launch(&order);
        let reply = holder.reply();
        assert!(matches!(reply, Reply::Refused(_)), "{number}: {reply:?}");
        lives("a signal that is none");
    }
    for request in [
        Request::Stop(StopPlan::kill(1)),
        Request::Suspend,
        Request::Release,
    ] {
        let mut holder = start(stage, path, "");
        holder.greet();
        holder.send(&request);
        assert_eq!(holder.reply(), Reply::Refused(ProtocolFault::OutOfOrder));
        lives("a request out of its order");
    }
    // A tree that would be in the victim's group, or whose root is gone before it is signalled.
    let scripts = [
        format!("python3 -c 'import os; os.setpgid(0, {victim})'; sleep 100"),
        format!("kill -0 {victim}; setsid sleep 100 & exit 0"),
        "sleep 100 & sleep 100 & exit 0".to_owned(),
    ];
    for script in scripts {
        let order = Order::shell(stage, &script);
        let mut holder = start(stage, path, "");
        holder.run(&order);
        assert_eq!(holder.reply(), Reply::Running);
        holder.send(&Request::Suspend);
        holder.send(&Request::Resume);
        holder.send(&Request::Stop(plan(&[rung(signal::TERM, 50)])));
        until_last(&mut holder);
        lives(&script);
    }
}
