//! The filter against its list, and the armour on a process of its own.

use std::process::Command;
use std::string::String;
use std::vec::Vec;

use xioflow_sys::{
    AUDIT_ARCH, CWD, Errno, FilterStep, FilterTest, FilterWord, GroupId, OpenFlags, PIDFD_GET_INFO,
    Pid, Signal, SocketKind, Sysno,
};

use super::calls::{Allowed, allowed};
use super::filter::{REFUSED, program};
use super::*;

/// A call as a filter is shown it.
#[derive(Debug, Clone, Copy)]
struct Shown {
    architecture: u32,
    call: u32,
    arguments: [u32; 6],
}

/// What the kernel does with a filter. More steps than there are would be one that goes back.
fn answer(steps: &[FilterStep], shown: Shown) -> FilterStep {
    let (mut at, mut word) = (0, 0);
    loop {
        match steps[at] {
            FilterStep::Load(FilterWord::Call) => word = shown.call,
            FilterStep::Load(FilterWord::Architecture) => word = shown.architecture,
            FilterStep::Load(FilterWord::Argument(which)) => {
                word = shown.arguments[usize::from(which)];
            }
            FilterStep::Jump { test, holds, fails } => {
                let skipped = if holds_for(test, word) { holds } else { fails };
                at += usize::from(skipped);
            }
            end @ (FilterStep::Allow | FilterStep::Refuse(_)) => return end,
        }
        at += 1;
    }
}

fn holds_for(test: FilterTest, word: u32) -> bool {
    match test {
        FilterTest::Equal(operand) => word == operand,
        FilterTest::Differs(operand) => word != operand,
        FilterTest::AtLeast(operand) => word >= operand,
        FilterTest::Above(operand) => word > operand,
        FilterTest::AnyOf(operand) => word & operand != 0,
    }
}

fn expected(list: &[Allowed], call: u32, arguments: [u32; 6]) -> FilterStep {
    let entry = list.iter().find(|allowed| allowed.call as u32 == call);
    let refused = entry.is_none_or(|allowed| {
        let refuses = |unless: &calls::Unless| {
            holds_for(unless.test, arguments[usize::from(unless.argument)])
        };
        allowed.unless.iter().any(refuses)
    });
    if refused { REFUSED } else { FilterStep::Allow }
}

#[test]
fn every_number_is_answered_as_the_list_says() {
    let list = allowed();
    let steps = program(&list);
    // Beyond the highest call there is, and those of the other tables of x86.
    let numbers = (0..2000).chain([0x4000_0000, 0x4000_003e, u32::MAX - 1, u32::MAX]);
    for call in numbers {
        for word in [
            0,
            1,
            2,
            3,
            4,
            7,
            0o1000,
            0o101,
            PIDFD_GET_INFO,
            u32::MAX - 1,
            u32::MAX,
        ] {
            let shown = Shown {
                architecture: AUDIT_ARCH,
                call,
                arguments: [word; 6],
            };
            let wanted = expected(&list, call, shown.arguments);
            assert_eq!(answer(&steps, shown), wanted, "{shown:x?}");
        }
    }
}

#[test]
fn calls_of_another_architecture_are_refused_whatever_their_number() {
    let steps = program(&allowed());
    // AUDIT_ARCH_I386, AUDIT_ARCH_ARM, and none.
    for architecture in [0x4000_0003, 0x4000_0028, 0] {
        for call in 0..600 {
            let shown = Shown {
                architecture,
                call,
                arguments: [0; 6],
            };
            assert_eq!(answer(&steps, shown), REFUSED, "{shown:x?}");
        }
    }
}

#[test]
fn a_list_of_any_length_is_answered_by_its_filter() {
    for len in 0..allowed().len() {
        let list = &allowed()[..len];
        let steps = program(list);
        for call in 0..500 {
            let shown = Shown {
                architecture: AUDIT_ARCH,
                call,
                arguments: [9; 6],
            };
            let wanted = expected(list, call, shown.arguments);
            assert_eq!(answer(&steps, shown), wanted, "{len} calls, {shown:x?}");
        }
    }
}

/// What would let a helper that was taken over start a program, look into another, or speak to anybody.
#[test]
fn nothing_that_makes_a_process_a_socket_or_code_is_on_the_list() {
    let list = allowed();
    let never = [
        Sysno::execve,
        Sysno::execveat,
        Sysno::clone,
        Sysno::clone3,
        Sysno::ptrace,
        Sysno::process_vm_readv,
        Sysno::process_vm_writev,
        Sysno::pidfd_getfd,
        Sysno::socket,
        Sysno::connect,
        Sysno::bind,
        Sysno::mprotect,
        Sysno::memfd_create,
        Sysno::mount,
        Sysno::unshare,
        Sysno::setns,
        Sysno::bpf,
        Sysno::io_uring_setup,
        Sysno::setuid,
        Sysno::prctl,
        Sysno::tgkill,
        Sysno::tkill,
        Sysno::rt_sigqueueinfo,
        Sysno::prlimit64,
    ];
    for call in never {
        assert!(list.iter().all(|allowed| allowed.call != call), "{call}");
    }
}

const HALF: &str = "XIOFLOW_TEST_ARMOURED";

/// In a process of its own: nobody takes an armour off again.
#[test]
fn an_armoured_process_can_do_what_the_helper_does_and_nothing_else() {
    let folder = std::env::temp_dir().join(std::format!("xioflow-armour-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let test = std::env::current_exe().expect("a program");
    let mut half = Command::new(test);
    half.args([
        "--exact",
        "armour::tests::armoured",
        "--ignored",
        "--nocapture",
    ]);
    let output = half.env(HALF, &folder).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let word = std::fs::read(folder.join("word")).expect("its last word");
    assert_eq!(word, b"said");
    std::fs::remove_dir_all(&folder).expect("cleaned");
}

#[test]
#[ignore = "the half of another test that is armoured"]
fn armoured() {
    let Some(folder) = std::env::var_os(HALF) else {
        return;
    };
    let name = std::ffi::CString::new(folder.into_encoded_bytes()).expect("no NUL");
    let holders = xioflow_sys::openat(CWD, &name, OpenFlags::DIRECTORY, 0).expect("the folder");
    let mut wrong = Vec::new();
    let armour = put_on(holders.as_fd());
    let mut check = |holds: bool, what: &'static str| {
        if !holds {
            wrong.push(what);
        }
    };
    check(armour.no_new_privs, "no_new_privs");
    check(armour.filter, "a filter");
    let refused = Err(Errno::ENOSYS);
    check(xioflow_sys::setsid() == refused, "setsid");
    check(xioflow_sys::chdir(c"/") == refused, "chdir");
    let pair = xioflow_sys::socketpair(SocketKind::Stream).map(drop);
    check(pair == refused, "socketpair");
    check(xioflow_sys::set_dumpable(true) == refused, "prctl");
    let both = xioflow_sys::openat(CWD, c"/dev/null", OpenFlags::READ_WRITE, 0).map(drop);
    check(both == refused, "a file that is read and written");
    if armour.landlock_abi.is_some() {
        let passwd = xioflow_sys::openat(CWD, c"/etc/passwd", OpenFlags::READ, 0).map(drop);
        check(passwd == Err(Errno::EACCES), "/etc/passwd");
        let outside = xioflow_sys::openat(CWD, c"/tmp/xioflow-armour", OpenFlags::NEW, 0o600);
        check(
            outside.map(drop) == Err(Errno::EACCES),
            "a new file in /tmp",
        );
        let own = xioflow_sys::openat(holders.as_fd(), c"word", OpenFlags::READ, 0).map(drop);
        check(own != Ok(()), "reading in the folder of last words");
    }
    check(works(holders.as_fd()) == Ok(()), "what the helper does");
    let text = std::format!("{armour:?}: not as expected: {wrong:?}\n");
    let _told = xioflow_sys::write(xioflow_sys::StandardFd::Error.borrow(), text.as_bytes());
    // The C library's own way out would meet the filter.
    xioflow_sys::exit_group(i32::from(!wrong.is_empty()));
}

/// Reading `/proc`, waiting, signalling, and a last word.
fn works(holders: BorrowedFd<'_>) -> Result<(), Errno> {
    let parent = parent().ok_or(Errno::ESRCH)?;
    xioflow_facts::children(parent).map_err(|_| Errno::EACCES)?;
    let _note = xioflow_facts::process_note(parent)
        .map_err(|_| Errno::EACCES)?
        .ok_or(Errno::ESRCH)?;
    let pidfd = xioflow_sys::pidfd_open(parent)?;
    xioflow_sys::pidfd_signal(pidfd.as_fd(), Signal::CONT)?;
    xioflow_sys::kill(Pid::new(parent).ok_or(Errno::ESRCH)?, Signal::CONT)?;
    let nobody = GroupId::new(4_194_300).ok_or(Errno::ESRCH)?;
    let nobody = xioflow_sys::kill_group(nobody, Signal::CONT);
    if nobody != Err(Errno::ESRCH) {
        return nobody;
    }
    match xioflow_sys::peek_any() {
        Err(Errno::ECHILD) => {}
        other => return other.map(drop),
    }
    let file = xioflow_sys::openat(holders, c"word.tmp", OpenFlags::NEW, 0o600)?;
    xioflow_sys::write(file.as_fd(), b"said")?;
    xioflow_sys::fsync(file.as_fd())?;
    xioflow_sys::renameat(holders, c"word.tmp", c"word")?;
    xioflow_sys::fsync(holders)
}

fn parent() -> Option<u32> {
    let mut line = xioflow_facts::StatLine::new();
    let stat = xioflow_facts::read_stat(std::process::id(), &mut line);
    stat.ok().flatten().map(|stat| stat.parent)
}
