//! Finding the program, and saying before the gate why it cannot be run.
//!
//! Runs in the child: no memory is allocated. What it passes may still fail in execve(2), which
//! has the last word; what it refuses would have failed there.

use core::ffi::CStr;

use xioflow_sys::{
    AsFd, BorrowedFd, CWD, Errno, FileKind, OpenFlags, access_execute, getdents, openat, pread,
    statat,
};

use crate::elf;
use crate::gate::Subject;
use crate::launch::Command;

/// What the kernel looks at to decide how to run a file (`BINPRM_BUF_SIZE`).
const HEAD_LEN: usize = 256;

/// Scripts whose interpreter is a script: the kernel follows this many.
const INTERPRETERS_MAX: u32 = 4;

/// Finds the file to execute, as execvp(3) does: EACCES is remembered over ENOENT.
///
/// # Errors
/// What execve(2) would say; `subject` then names what it is about.
pub(crate) fn find<'c>(command: &'c Command, subject: &mut Subject) -> Result<&'c CStr, Errno> {
    let mut denied = None;
    for candidate in &command.candidates {
        match check(candidate, 0, subject) {
            Ok(()) => return Ok(candidate),
            Err(Refusal {
                errno: Errno::EACCES,
                ..
            }) => denied = denied.or(Some(candidate)),
            Err(Refusal { errno, depth: 0 }) if is_elsewhere(errno) => {}
            Err(Refusal { errno, .. }) => return Err(errno),
        }
    }
    if let Some(candidate) = denied {
        // Asked again for its words.
        return check(candidate, 0, subject)
            .map(|()| candidate.as_c_str())
            .map_err(|r| r.errno);
    }
    match &*command.candidates {
        // A path says itself what is wrong with it, the program's name has only been missing.
        [path] if path == &command.program => check(path, 0, subject).map_err(|r| r.errno)?,
        _ => subject.set(command.program.to_bytes()),
    }
    Err(Errno::ENOENT)
}

/// Errors after which execvp(3) looks in the next folder.
fn is_elsewhere(errno: Errno) -> bool {
    [
        Errno::ENOENT,
        Errno::ENOTDIR,
        Errno::ESTALE,
        Errno::ENODEV,
        Errno::ETIMEDOUT,
    ]
    .contains(&errno)
}

/// Why a file cannot be run.
#[derive(Debug, Clone, Copy)]
struct Refusal {
    errno: Errno,
    /// 0 when it is about the file itself, more when it is about its interpreter.
    depth: u32,
}

/// Asks what execve(2) would say of a file, as far as it can be known beforehand.
fn check(path: &CStr, depth: u32, subject: &mut Subject) -> Result<(), Refusal> {
    subject.set(path.to_bytes());
    let refused = |errno| Refusal { errno, depth };
    match statat(CWD, path).map_err(refused)?.kind {
        FileKind::Regular => {}
        FileKind::Directory | FileKind::Socket | FileKind::Other => {
            return Err(refused(Errno::EACCES));
        }
    }
    access_execute(CWD, path).map_err(refused)?;
    let Ok(file) = openat(CWD, path, OpenFlags::READ_NOW, 0) else {
        // A program may be executable without being readable.
        return Ok(());
    };
    let mut head = [0; HEAD_LEN];
    let Ok(len) = pread(file.as_fd(), &mut head, 0) else {
        return Ok(());
    };
    match Format::of(&head[..len]) {
        Format::Elf => {
            check_loader(path, file.as_fd(), &head[..len], subject).map_err(|errno| Refusal {
                errno,
                depth: depth + 1,
            })
        }
        Format::Script(interpreter) if depth < INTERPRETERS_MAX => {
            check_interpreter(path, interpreter, depth, subject)
        }
        // The kernel gives up on longer chains with ELOOP.
        Format::Script(_) => Err(refused(Errno::ELOOP)),
        Format::Other if may_have_handlers() => Ok(()),
        Format::BrokenScript | Format::Other => Err(refused(Errno::ENOEXEC)),
    }
}

/// A program without its loader: of another C library, or of another system's packages.
fn check_loader(
    program: &CStr,
    file: BorrowedFd<'_>,
    head: &[u8],
    subject: &mut Subject,
) -> Result<(), Errno> {
    let Some((at, len)) = elf::interpreter(head) else {
        return Ok(());
    };
    let mut path = [0; HEAD_LEN];
    let wanted = usize::try_from(len).unwrap_or(HEAD_LEN).min(HEAD_LEN);
    let Ok(read) = pread(file, &mut path[..wanted], at) else {
        return Ok(());
    };
    // A path without its end is too long to be looked at here.
    let Ok(path) = CStr::from_bytes_until_nul(&path[..read]) else {
        return Ok(());
    };
    statat(CWD, path).map(drop).inspect_err(|_| {
        subject.set(path.to_bytes());
        subject.push(b" (loader of ");
        subject.push(program.to_bytes());
        subject.push(b")");
    })
}

fn check_interpreter(
    script: &CStr,
    interpreter: &[u8],
    depth: u32,
    subject: &mut Subject,
) -> Result<(), Refusal> {
    let mut path = [0; HEAD_LEN + 1];
    path[..interpreter.len()].copy_from_slice(interpreter);
    let path = CStr::from_bytes_until_nul(&path).unwrap_or_default();
    check(path, depth + 1, subject).inspect_err(|_| {
        subject.push(b" (interpreter of ");
        subject.push(script.to_bytes());
        subject.push(b")");
    })
}

/// How the kernel would run a file.
#[derive(Debug, PartialEq, Eq)]
enum Format<'head> {
    Elf,
    /// `#!` and what stands after it.
    Script(&'head [u8]),
    /// `#!` and nothing.
    BrokenScript,
    /// Only with a handler of binfmt_misc, if at all.
    Other,
}

impl<'head> Format<'head> {
    fn of(head: &'head [u8]) -> Self {
        if head.starts_with(b"\x7fELF") {
            return Self::Elf;
        }
        let Some(line) = head.strip_prefix(b"#!") else {
            return Self::Other;
        };
        let line = line.split(|&byte| byte == b'\n').next().unwrap_or_default();
        let line = line.trim_ascii_start();
        let end = line
            .iter()
            .position(|byte| matches!(byte, b' ' | b'\t' | 0));
        match &line[..end.unwrap_or(line.len())] {
            b"" => Self::BrokenScript,
            interpreter => Self::Script(interpreter),
        }
    }
}

/// Whether a handler of binfmt_misc may exist. Where its folder is not mounted one may all the
/// same, of the host's: then execve(2) decides.
fn may_have_handlers() -> bool {
    let folder = c"/proc/sys/fs/binfmt_misc";
    let Ok(folder) = openat(CWD, folder, OpenFlags::DIRECTORY, 0) else {
        return true;
    };
    let mut buffer = [0; 1024];
    let mut mounted = false;
    loop {
        match getdents(folder.as_fd(), &mut buffer) {
            Ok(entries) if entries.is_end() => return !mounted,
            Ok(entries) => {
                for name in entries {
                    match name.to_bytes() {
                        b"." | b".." => {}
                        b"register" | b"status" => mounted = true,
                        _ => return true,
                    }
                }
            }
            Err(_) => return true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::{prepare, tests::launch};
    use std::format;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;
    use std::string::String;

    #[test]
    fn formats_are_told_by_their_first_bytes() {
        let script = |path: &'static str| Format::Script(path.as_bytes());
        assert_eq!(Format::of(b"\x7fELF\x02"), Format::Elf);
        assert_eq!(Format::of(b"#!/bin/sh\nexit"), script("/bin/sh"));
        assert_eq!(
            Format::of(b"#! \t/bin/env  python -x\n"),
            script("/bin/env")
        );
        assert_eq!(Format::of(b"#!/bin/sh"), script("/bin/sh"));
        assert_eq!(Format::of(b"#!\n/bin/sh"), Format::BrokenScript);
        assert_eq!(Format::of(b"#!  "), Format::BrokenScript);
        assert_eq!(Format::of(b"echo hello\n"), Format::Other);
        assert_eq!(Format::of(b""), Format::Other);
    }

    /// A folder of its own for one test, removed at its end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path =
                std::env::temp_dir().join(format!("xioflow-lookup-{}-{name}", std::process::id()));
            fs::create_dir_all(&path).expect("folder is made");
            Self(path)
        }

        fn file(&self, name: &str, content: impl AsRef<[u8]>, mode: u32) -> String {
            let path = self.0.join(name);
            fs::write(&path, content.as_ref()).expect("written");
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("mode is set");
            path.to_str().expect("text").into()
        }

        fn path(&self) -> &str {
            self.0.to_str().expect("text")
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _removed = fs::remove_dir_all(&self.0);
        }
    }

    fn look(program: &str, path: Option<&str>) -> Result<String, (Errno, String)> {
        let mut launch = launch(program, &[program]);
        launch
            .env
            .extend(path.map(|path| format!("PATH={path}").into_bytes().into()));
        let (command, _) = prepare(launch, 4096).expect("valid");
        let mut subject = Subject::new();
        match find(&command, &mut subject) {
            Ok(found) => Ok(found.to_str().expect("text").into()),
            Err(errno) => Err((errno, format!("{subject:?}"))),
        }
    }

    #[test]
    fn what_can_be_run_is_found() {
        assert_eq!(look("/bin/sh", None).as_deref(), Ok("/bin/sh"));
        let folder = Folder::new("found");
        let script = folder.file("script", "#!/bin/sh\n", 0o755);
        assert_eq!(look(&script, None).as_deref(), Ok(&*script));
        let path = format!("/nowhere:{}:/bin", folder.path());
        assert_eq!(look("script", Some(&path)).as_deref(), Ok(&*script));
        let outer = folder.file("outer", format!("#!{script}\n"), 0o755);
        assert_eq!(look(&outer, None).as_deref(), Ok(&*outer));
    }

    #[test]
    fn what_is_not_there_is_named() {
        let missing = |name: &str| Err((Errno::ENOENT, String::from(name)));
        assert_eq!(look("/nowhere/x", None), missing("/nowhere/x"));
        assert_eq!(look("no-such-program", None), missing("no-such-program"));
        assert_eq!(look("", None), missing(""));
        let through_file = look("/bin/sh/x", None);
        assert_eq!(
            through_file,
            Err((Errno::ENOTDIR, String::from("/bin/sh/x")))
        );
    }

    #[test]
    fn what_may_not_be_run_is_remembered_over_what_is_missing() {
        let folder = Folder::new("denied");
        let plain = folder.file("plain", "#!/bin/sh\n", 0o644);
        let denied = Err((Errno::EACCES, plain.clone()));
        assert_eq!(look(&plain, None), denied);
        let path = format!("{}:/nowhere", folder.path());
        assert_eq!(look("plain", Some(&path)), denied);
        assert_eq!(
            look(folder.path(), None),
            Err((Errno::EACCES, folder.path().into()))
        );
    }

    #[test]
    fn a_missing_interpreter_is_named_with_its_script() {
        let folder = Folder::new("interpreter");
        let script = folder.file("script", "#!/nowhere/python3 -u\n", 0o755);
        let expected = format!("/nowhere/python3 (interpreter of {script})");
        assert_eq!(look(&script, None), Err((Errno::ENOENT, expected.clone())));
        let path = format!("{}:/bin", folder.path());
        assert_eq!(look("script", Some(&path)), Err((Errno::ENOENT, expected)));
        let broken = folder.file("broken", "#!\n", 0o755);
        assert_eq!(look(&broken, None), Err((Errno::ENOEXEC, broken.clone())));
    }

    #[test]
    fn a_missing_loader_is_named_with_its_program() {
        let folder = Folder::new("loader");
        let found = folder.file("found", crate::elf::tests::program("/bin/sh"), 0o755);
        assert_eq!(look(&found, None).as_deref(), Ok(&*found));
        let lost = crate::elf::tests::program("/lib/ld-musl-nowhere.so.1");
        let lost = folder.file("lost", lost, 0o755);
        let expected = format!("/lib/ld-musl-nowhere.so.1 (loader of {lost})");
        assert_eq!(look(&lost, None), Err((Errno::ENOENT, expected)));
    }

    #[test]
    fn a_loop_of_interpreters_ends() {
        let folder = Folder::new("loop");
        let path = folder.0.join("self");
        let path = path.to_str().expect("text");
        folder.file("self", format!("#!{path}\n"), 0o755);
        assert!(matches!(look(path, None), Err((Errno::ELOOP, _))));
    }

    #[test]
    fn a_file_of_no_known_format_is_refused_where_nothing_could_run_it() {
        let folder = Folder::new("format");
        let text = folder.file("text", "echo hello\n", 0o755);
        let answer = look(&text, None);
        if may_have_handlers() {
            assert_eq!(answer, Ok(text));
        } else {
            assert_eq!(answer, Err((Errno::ENOEXEC, text)));
        }
    }
}
