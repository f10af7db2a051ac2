//! What an arbiter costs while nobody asks it for anything: no moment of the processor, and little memory.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use xioflow_kernel::journal::Outcome;
use xioflow_kernel::{Arbiter, Command, Domain, DomainOptions, Starter};
use xioflow_kit::{Deadline, Stage, wait};

use crate::number;

/// For how long it is looked at.
const LOOK: Duration = Duration::from_secs(5);
/// Clients that share the operations.
const CLIENTS: usize = 8;
/// Operations whose memory is looked for; `XIOFLOW_TEST_OPERATIONS` says otherwise.
const OPERATIONS: usize = 500;
/// Operations after which every buffer, thread and page has been used.
const FIRST_OPERATIONS: usize = 200;
/// Operations that run at one moment, and what each does; `XIOFLOW_TEST_CLIENTS` says how many.
const BURST: usize = 200;
const BURST_SCRIPT: &str = "sleep 2";
/// Private memory of an idle arbiter. One that is built for debugging has more code, and that counts while nobody
/// else executes it.
const PRIVATE_MAX_KIB: u64 = if cfg!(debug_assertions) { 20 } else { 12 } * 1024;
/// What operations may leave in it, however many they are.
const GROWTH_MAX_KIB: u64 = 4 * 1024;

/// Comes to the arbiter as a program does, which starts it.
fn open(stage: &Stage) -> Domain {
    let starter = Starter {
        program: stage.program("xioflow"),
        idle: Some(Deadline::USUAL * 20),
        variables: stage.environment(),
    };
    let options = DomainOptions::default().arbiter(Arbiter::Start(starter));
    options.open(stage.domain()).expect("an arbiter")
}

fn pid(domain: &Domain) -> u32 {
    domain.arbiter().expect("it was to be started").pid
}

fn run_many(stage: &Stage, domain: &Domain, operations: usize) {
    side_by_side(CLIENTS, || {
        (0..operations / CLIENTS).for_each(|_| run(stage, domain, "true"));
    });
}

/// Has so many commands in execution at one moment.
fn burst(stage: &Stage, domain: &Domain, operations: usize) {
    side_by_side(operations, || run(stage, domain, BURST_SCRIPT));
}

fn side_by_side(count: usize, act: impl Fn() + Sync) {
    thread::scope(|scope| {
        for _ in 0..count {
            scope.spawn(&act);
        }
    });
}

fn run(stage: &Stage, domain: &Domain, script: &str) {
    let command = Command::new("/bin/sh").args(["-c", script]);
    let result = domain.run(command.cwd(stage.path("")).inherit_env());
    let result = result.expect("a result");
    assert_eq!(result.status, Outcome::Succeeded, "{result:?}");
}

/// Each thread of a process and of its children, with its context switches of both kinds. A helper may end
/// after it was listed and before it is looked at: then it is told as gone, which is a change too.
fn switches(pid: u32) -> Vec<String> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return vec![format!("{pid}: gone")];
    };
    let mut all = Vec::new();
    for task in tasks {
        // The list of a process that ends meanwhile breaks off.
        let Ok(task) = task else { break };
        let task = task.path();
        all.push(format!("{}: {}", task.display(), counted(&task)));
        let children = fs::read_to_string(task.join("children")).unwrap_or_default();
        for child in children.split_whitespace() {
            all.extend(switches(child.parse().expect("a pid")));
        }
    }
    all
}

fn counted(task: &Path) -> String {
    // One that has just ended is seen as a change.
    let status = fs::read_to_string(task.join("status")).unwrap_or_default();
    let lines = status.lines().filter(|line| line.contains("ctxt_switches"));
    lines.collect::<Vec<_>>().join(" ")
}

/// Lets so much time pass while the process lives.
fn pass(pid: u32, time: Duration) {
    assert!(
        !wait::pid_gone(pid, Deadline::after(time)),
        "{pid} has ended"
    );
}

/// Waits until what was under way is over.
fn settle(pid: u32) {
    wait::until("rest", Deadline::usual(), || {
        let before = switches(pid);
        pass(pid, Duration::from_millis(300));
        switches(pid) == before
    });
}

/// The sum of fields of proc(5) that begin so, in KiB. `Private_Clean` is code that nobody else executes at
/// the moment, so it changes with who is there; what a process has written is `Private_Dirty`.
fn kib(pid: u32, fields: &str) -> u64 {
    let path = format!("/proc/{pid}/smaps_rollup");
    let rollup = fs::read_to_string(path).expect("it lives, and is ours");
    let sizes = rollup.lines().filter(|line| line.starts_with(fields));
    let sizes = sizes.filter_map(|line| line.split_whitespace().nth(1));
    sizes.map(|size| size.parse::<u64>().expect("a size")).sum()
}

/// Waits until nothing is under way, and asserts that the arbiter has little memory. Gives what it has written.
fn assert_small(pid: u32, after: &str) -> u64 {
    settle(pid);
    let (private, written) = (kib(pid, "Private_"), kib(pid, "Private_Dirty"));
    eprintln!("{private} KiB private after {after}, {written} KiB of it written");
    assert!(private < PRIVATE_MAX_KIB, "{private} KiB after {after}");
    written
}

#[test]
fn an_idle_arbiter_never_wakes() {
    let stage = Stage::new();
    let domain = open(&stage);
    let arbiter = pid(&domain);
    run_many(&stage, &domain, FIRST_OPERATIONS);
    let assert_asleep = |who: &str| {
        settle(arbiter);
        let before = switches(arbiter);
        pass(arbiter, LOOK);
        assert_eq!(switches(arbiter), before, "with {who}");
    };
    assert_asleep("an idle client");
    drop(domain);
    assert_asleep("nobody");
}

#[test]
fn operations_leave_no_memory_behind() {
    let stage = Stage::new();
    let domain = open(&stage);
    let arbiter = pid(&domain);
    run_many(&stage, &domain, FIRST_OPERATIONS);
    let before = assert_small(arbiter, "its first operations");
    let operations = number("XIOFLOW_TEST_OPERATIONS", OPERATIONS);
    run_many(&stage, &domain, operations);
    let after = assert_small(arbiter, "all operations");
    assert!(
        after < before + GROWTH_MAX_KIB,
        "from {before} to {after} KiB after {operations} operations"
    );
    burst(&stage, &domain, number("XIOFLOW_TEST_CLIENTS", BURST));
    assert_small(arbiter, "many operations at once");
}
