//! A launch message, checked and made ready, so that nothing is left to allocate after the fork.

use alloc::ffi::CString;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use xioflow_protocol::{
    Containment, Descendants, Launch, LaunchFailure, ProtocolFault, ResourceLimit, Stage, StopPlan,
};
use xioflow_sys::{Errno, ExecStrings, OwnedFd, Signal};

use crate::group::Group;

/// The longest name of a last word; its temporary name is four bytes longer.
const LAST_WORD_NAME_LEN_MAX: usize = 251;

/// The most rungs a plan may have. Two are usual.
const RUNGS_MAX: usize = 16;

/// Where a program is looked for when the environment has no `PATH`, as confstr(3) says.
const DEFAULT_PATH: &[u8] = b"/bin:/usr/bin";

/// Everything the child needs.
#[derive(Debug)]
pub struct Command {
    /// The program as it was named.
    pub(crate) program: CString,
    /// Where it may be, in the order of the search.
    pub(crate) candidates: Vec<CString>,
    pub(crate) argv: ExecStrings,
    pub(crate) env: ExecStrings,
    pub(crate) cwd: CString,
    pub(crate) umask: Option<u32>,
    pub(crate) limits: Vec<ResourceLimit>,
    pub(crate) nice: Option<i32>,
    pub(crate) no_new_privs: bool,
    pub(crate) oom_score_adj: i32,
    /// How its tree is held.
    pub containment: Containment,
    /// The group that it is to be in, if it has one of its own.
    pub group: Option<Group>,
}

/// What the helper keeps of a launch.
#[derive(Debug)]
pub(crate) struct Terms {
    pub(crate) descendants: Descendants,
    pub(crate) settle_ms: u32,
    pub(crate) on_host_loss: StopPlan,
    pub(crate) last_word_name: CString,
    pub(crate) operation_id: String,
}

/// The descriptors of a launch.
#[derive(Debug)]
pub(crate) struct Descriptors {
    /// The command's own.
    pub(crate) standard: Standard,
    /// The folder for the last word.
    pub(crate) holders: OwnedFd,
    /// The directory of the control group, where the launch asks for one.
    pub(crate) group: Option<OwnedFd>,
}

/// The command's descriptors 0, 1 and 2.
#[derive(Debug)]
pub struct Standard {
    /// None where it has no standard input at all.
    pub(crate) input: Option<OwnedFd>,
    pub(crate) output: OwnedFd,
    pub(crate) error: OwnedFd,
}

impl Descriptors {
    /// Gives those that came with a launch their places; `None` unless they are exactly its own.
    pub(crate) fn place(came: Vec<OwnedFd>, stdin_closed: bool, group: bool) -> Option<Self> {
        let mut came = came.into_iter();
        let input = match stdin_closed {
            true => None,
            false => Some(came.next()?),
        };
        let (output, error, holders) = (came.next()?, came.next()?, came.next()?);
        let group = match group {
            true => Some(came.next()?),
            false => None,
        };
        let standard = Standard {
            input,
            output,
            error,
        };
        came.next().is_none().then_some(Self {
            standard,
            holders,
            group,
        })
    }
}

/// Why a launch does not even get to the fork.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Rejection {
    /// No launch can have this value: the supervisor is wrong.
    Fault(ProtocolFault),
    /// The kernel would refuse the command.
    Failure(LaunchFailure),
}

/// Checks a launch and prepares it. `page_size` is what limits one string of it.
pub(crate) fn prepare(launch: Launch, page_size: usize) -> Result<(Command, Terms), Rejection> {
    check_stop_plan("on_host_loss", &launch.on_host_loss)?;
    if let Descendants::Stop(plan) = &launch.descendants {
        check_stop_plan("descendants", plan)?;
    }
    let last_word_name = file_name(launch.last_word_name.into())?;
    let program = c_string("program", launch.program.into())?;
    let cwd = c_string("cwd", launch.cwd.into())?;
    if !cwd.as_bytes().starts_with(b"/") {
        return Err(invalid("cwd is not absolute"));
    }
    if launch.argv.is_empty() {
        return Err(invalid("argv is empty"));
    }
    let argv = c_strings("argv", launch.argv)?;
    let env = c_strings("env", launch.env)?;
    check_lengths(&argv, &env, page_size)?;
    let candidates = candidates(&program, &env);
    let command = Command {
        program,
        candidates,
        argv: ExecStrings::new(argv),
        env: ExecStrings::new(env),
        cwd,
        umask: launch.umask,
        limits: launch.limits,
        nice: launch.nice,
        no_new_privs: launch.no_new_privs,
        oom_score_adj: launch.oom_score_adj,
        containment: launch.containment,
        group: None,
    };
    let terms = Terms {
        descendants: launch.descendants,
        settle_ms: launch.settle_ms,
        on_host_loss: launch.on_host_loss,
        last_word_name,
        operation_id: launch.operation_id,
    };
    Ok((command, terms))
}

/// Checks a plan that comes with a message.
pub(crate) fn check_stop_plan(what: &str, plan: &StopPlan) -> Result<(), Rejection> {
    if plan.rungs.len() > RUNGS_MAX {
        return Err(invalid(&format!(
            "{what} has {} rungs, at most {RUNGS_MAX}",
            plan.rungs.len()
        )));
    }
    match plan
        .rungs
        .iter()
        .find(|rung| Signal::new(rung.signal).is_none())
    {
        Some(rung) => Err(invalid(&format!("{what} has signal {}", rung.signal))),
        None => Ok(()),
    }
}

fn invalid(what: &str) -> Rejection {
    Rejection::Fault(ProtocolFault::Invalid {
        what: String::from(what),
    })
}

fn c_string(what: &str, bytes: Vec<u8>) -> Result<CString, Rejection> {
    CString::new(bytes).map_err(|_| invalid(&format!("{what} has a NUL byte")))
}

fn c_strings<T: Into<Vec<u8>>>(what: &str, all: Vec<T>) -> Result<Vec<CString>, Rejection> {
    all.into_iter()
        .enumerate()
        .map(|(at, bytes)| {
            CString::new(bytes).map_err(|_| invalid(&format!("{what}[{at}] has a NUL byte")))
        })
        .collect()
}

fn file_name(bytes: Vec<u8>) -> Result<CString, Rejection> {
    let name = c_string("last_word_name", bytes)?;
    match name.as_bytes() {
        b"" | b"." | b".." => Err(invalid("last_word_name is no file name")),
        bytes if bytes.contains(&b'/') => Err(invalid("last_word_name has a slash")),
        bytes if bytes.len() > LAST_WORD_NAME_LEN_MAX => Err(invalid("last_word_name is too long")),
        _ => Ok(name),
    }
}

/// The kernel takes no single string longer than 32 pages, its NUL included (`MAX_ARG_STRLEN`).
fn check_lengths(argv: &[CString], env: &[CString], page_size: usize) -> Result<(), Rejection> {
    let len_max = 32 * page_size - 1;
    let too_long = |string: &&CString| string.as_bytes().len() > len_max;
    let name = if let Some(at) = argv.iter().position(|string| too_long(&string)) {
        let len = argv[at].as_bytes().len();
        format!("argument {at}: {len} bytes")
    } else if let Some(string) = env.iter().find(too_long) {
        let len = string.as_bytes().len();
        let name = string
            .as_bytes()
            .split(|&byte| byte == b'=')
            .next()
            .unwrap_or_default();
        // A name is as much of it as may be said: values can be secrets.
        let name = String::from_utf8_lossy(&name[..name.len().min(64)]).into_owned();
        format!("environment variable {name}: {len} bytes")
    } else {
        return Ok(());
    };
    Err(Rejection::Failure(LaunchFailure {
        stage: Stage::Exec,
        errno: Errno::E2BIG.raw(),
        subject: format!("{name}, the limit for one string is {len_max}")
            .into_bytes()
            .into(),
    }))
}

/// Where a program may be: itself when it has a slash, else in each folder of `PATH`.
fn candidates(program: &CString, env: &[CString]) -> Vec<CString> {
    let name = program.as_bytes();
    if name.is_empty() || name.contains(&b'/') {
        return alloc::vec![program.clone()];
    }
    let path = env
        .iter()
        .find_map(|entry| entry.as_bytes().strip_prefix(b"PATH="));
    path.unwrap_or(DEFAULT_PATH)
        .split(|&byte| byte == b':')
        .filter_map(|folder| CString::new(join(folder, name)).ok())
        .collect()
}

/// An empty folder means the working directory.
fn join(folder: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = folder.to_vec();
    if !folder.is_empty() && !folder.ends_with(b"/") {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use xioflow_protocol::Rung;

    pub(crate) fn launch(program: &str, args: &[&str]) -> Launch {
        let bytes = |text: &str| text.as_bytes().to_vec().into();
        Launch {
            program: bytes(program),
            argv: args.iter().map(|arg| bytes(arg)).collect(),
            env: Vec::new(),
            cwd: bytes("/"),
            umask: None,
            limits: Vec::new(),
            no_new_privs: true,
            oom_score_adj: 0,
            descendants: Descendants::Wait,
            settle_ms: 10,
            on_host_loss: StopPlan::kill(1000),
            last_word_name: bytes("word"),
            operation_id: String::from("op"),
            stdin_closed: false,
            nice: None,
            containment: Containment::Subreaper,
            group: false,
        }
    }

    fn fault(change: impl FnOnce(&mut Launch)) -> String {
        let mut launch = launch("true", &["true"]);
        change(&mut launch);
        match prepare(launch, 4096) {
            Err(Rejection::Fault(ProtocolFault::Invalid { what })) => what,
            other => panic!("not refused as invalid: {other:?}"),
        }
    }

    #[test]
    fn values_that_no_launch_can_have_are_refused() {
        let nul = || b"a\0b".to_vec().into();
        assert_eq!(
            fault(|launch| launch.program = nul()),
            "program has a NUL byte"
        );
        assert_eq!(
            fault(|launch| launch.argv.push(nul())),
            "argv[1] has a NUL byte"
        );
        assert_eq!(
            fault(|launch| launch.env.push(nul())),
            "env[0] has a NUL byte"
        );
        assert_eq!(fault(|launch| launch.cwd = nul()), "cwd has a NUL byte");
        assert_eq!(fault(|launch| launch.argv.clear()), "argv is empty");
        assert_eq!(
            fault(|launch| launch.cwd = b"here".to_vec().into()),
            "cwd is not absolute"
        );
        for name in ["", ".", ".."] {
            let what = fault(|launch| launch.last_word_name = name.as_bytes().to_vec().into());
            assert_eq!(what, "last_word_name is no file name");
        }
        assert_eq!(
            fault(|launch| launch.last_word_name = b"../x".to_vec().into()),
            "last_word_name has a slash"
        );
        assert_eq!(
            fault(|launch| launch.last_word_name = alloc::vec![b'x'; 252].into()),
            "last_word_name is too long"
        );
        let rung = Rung {
            signal: 99,
            wait_ms: 1,
        };
        assert_eq!(
            fault(|launch| launch.on_host_loss.rungs.push(rung)),
            "on_host_loss has signal 99"
        );
        let many = StopPlan {
            rungs: alloc::vec![Rung { signal: 1, wait_ms: 1 }; 17],
            kill_ms: 1,
        };
        assert_eq!(
            fault(|launch| launch.descendants = Descendants::Stop(many)),
            "descendants has 17 rungs, at most 16"
        );
    }

    #[test]
    fn a_string_that_the_kernel_would_refuse_is_named() {
        let subject = |launch: Launch| match prepare(launch, 4096) {
            Err(Rejection::Failure(failure)) => {
                assert_eq!(
                    (failure.stage, failure.errno),
                    (Stage::Exec, Errno::E2BIG.raw())
                );
                String::from_utf8(failure.subject.into()).expect("text")
            }
            other => panic!("not refused: {other:?}"),
        };
        let long = "x".repeat(131_072);
        assert_eq!(
            subject(launch("true", &["true", &long])),
            "argument 1: 131072 bytes, the limit for one string is 131071"
        );
        let mut secret = launch("true", &["true"]);
        secret
            .env
            .push(alloc::format!("KEY={long}").into_bytes().into());
        assert_eq!(
            subject(secret),
            "environment variable KEY: 131076 bytes, the limit for one string is 131071"
        );
        assert!(prepare(launch("true", &["true", &long[1..]]), 4096).is_ok());
    }

    #[test]
    fn a_program_is_looked_for_where_execvp_would() {
        let paths = |program: &str, env: &[&str]| {
            let env: Vec<_> = env
                .iter()
                .map(|entry| CString::new(*entry).expect("no NUL"))
                .collect();
            let program = CString::new(program).expect("no NUL");
            let all = candidates(&program, &env);
            all.iter()
                .map(|path| path.to_str().expect("text").into())
                .collect::<Vec<String>>()
        };
        assert_eq!(paths("ls", &[]), ["/bin/ls", "/usr/bin/ls"]);
        assert_eq!(
            paths("ls", &["X=1", "PATH=/a:/b/::c"]),
            ["/a/ls", "/b/ls", "ls", "c/ls"]
        );
        assert_eq!(paths("ls", &["PATH="]), ["ls"]);
        assert_eq!(paths("./ls", &["PATH=/a"]), ["./ls"]);
        assert_eq!(paths("", &["PATH=/a"]), [""]);
    }
}
