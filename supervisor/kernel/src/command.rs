//! What is to be run, exactly: nothing is added to it and nothing is looked up but the program.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::driver::Driver;
use crate::environment::{Environment, Source};
use crate::stdin::Stdin;
use crate::stop_action::{STOP_ACTION_MAX_BYTES, StopAction};

/// A command as it will be executed. There is never a shell in between.
///
/// A new command has an empty environment, an empty standard input, and the working directory of
/// the caller at the moment it is started.
///
/// # Examples
/// ```
/// # let stage = xioflow_kit::Stage::new();
/// # let options = xioflow_kernel::DomainOptions::default().helper(stage.program("xioflow-reaper"));
/// # let domain = options.open(stage.domain())?;
/// use xioflow_kernel::{Command, Stdin};
///
/// let sorted = Command::new("sort")
///     .arg("-r")
///     .cwd("/")
///     .env("LC_ALL", "C")
///     .pass_env("PATH")
///     .stdin(Stdin::text("a\nb\n"));
/// assert_eq!(domain.run(sorted)?.stdout, "b\na\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Command {
    pub(crate) program: OsString,
    pub(crate) args: Vec<OsString>,
    pub(crate) environment: Environment,
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) stdin: Stdin,
    pub(crate) umask: Option<u32>,
    pub(crate) no_new_privs: bool,
    pub(crate) merges_stderr: bool,
    pub(crate) driver: Driver,
    pub(crate) stop_action: Option<StopAction>,
}

/// Why a command cannot be one, whatever the system says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCommand {
    /// There is no program.
    #[error("the program's name is empty")]
    EmptyProgram,
    /// A string has a NUL byte, which execve(2) cannot pass on.
    #[error("{what} contains a NUL byte, which no program can receive")]
    Nul {
        /// Which one.
        what: String,
    },
    /// The script of the stop action has no words.
    #[error(
        "the stop action has no words: leave it out, or look whether a variable that it was made of is set"
    )]
    StopActionEmpty,
    /// The stop action has no time.
    #[error("a stop action that may take no time does nothing: give it some, or leave it out")]
    StopActionWithoutTime,
    /// The words of the stop action are too many to be recorded and read.
    #[error(
        "a stop action has at most {STOP_ACTION_MAX_BYTES} bytes, this one has {len}; put it into a script"
    )]
    StopActionTooLong {
        /// Their length in bytes.
        len: usize,
    },
    /// The name of an environment variable is empty or has an equals sign.
    #[error("{name:?} cannot be the name of an environment variable")]
    EnvName {
        /// The name.
        name: OsString,
    },
    /// A path is relative, or there is none, and the caller has no folder that it could start from.
    #[error(
        "the {what} {path:?} is not absolute, and the caller named no absolute folder to start from"
    )]
    NoFolder {
        /// What the path is for.
        what: &'static str,
        /// The path.
        path: PathBuf,
    },
    /// The caller has a nice value that no process has.
    #[error("a nice value is -20 to 19, not {nice}")]
    Nice {
        /// The value.
        nice: i32,
    },
    /// A variable is to be passed on, and the caller has none of that name.
    #[error("the variable {} is to be passed on and is not set here", name.display())]
    EnvAbsent {
        /// The name.
        name: OsString,
    },
}

impl Command {
    /// Makes a command that runs `program`: a path if it has a slash, else a name that is looked
    /// up in the `PATH` of the command's own environment, or in `/bin` and `/usr/bin` if that has none.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            environment: Environment::default(),
            cwd: None,
            stdin: Stdin::Null,
            umask: None,
            no_new_privs: false,
            merges_stderr: false,
            driver: Driver::Auto,
            stop_action: None,
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets one variable of the environment. A later mention of the same name, here or in
    /// [`Command::pass_env`], replaces an earlier one.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment
            .name(name.into(), Source::Given(value.into()));
        self
    }

    /// Passes one variable of the caller's on, with the value that it has when the operation is
    /// submitted; one that is not set then is refused ([`InvalidCommand::EnvAbsent`]).
    ///
    /// That it is passed on is part of what makes the operation the same, its value is not, as
    /// with [`Command::inherit_env`].
    #[must_use]
    pub fn pass_env(mut self, name: impl Into<OsString>) -> Self {
        self.environment.name(name.into(), Source::Caller);
        self
    }

    /// Passes the caller's environment on, as it is when the operation is submitted.
    ///
    /// That it is inherited is part of what makes the operation the same; its values are not, or
    /// an id could not be used again from another shell. Set with [`Command::env`] what matters.
    #[must_use]
    pub fn inherit_env(mut self) -> Self {
        self.environment.inherits = true;
        self
    }

    /// Sets the working directory; a relative one is relative to the caller's.
    #[must_use]
    pub fn cwd(mut self, path: impl Into<PathBuf>) -> Self {
        self.cwd = Some(path.into());
        self
    }

    /// Sets where its standard input comes from.
    #[must_use]
    pub fn stdin(mut self, stdin: Stdin) -> Self {
        self.stdin = stdin;
        self
    }

    /// Sets its file mode creation mask, umask(2).
    #[must_use]
    pub fn umask(mut self, mask: u32) -> Self {
        self.umask = Some(mask);
        self
    }

    /// Forbids it to gain privileges by executing set-user-ID programs (`PR_SET_NO_NEW_PRIVS`).
    #[must_use]
    pub fn no_new_privs(mut self, on: bool) -> Self {
        self.no_new_privs = on;
        self
    }

    /// Gives it one pipe for standard output and standard error, so that the order of everything it
    /// prints is kept exactly. All of it is its standard output then.
    ///
    /// With two pipes, which is the default, each keeps its own order. What was written to one before
    /// something was written to the other may be read after it: whoever looks at both sees an order
    /// that is right only where the writes lie apart in time.
    #[must_use]
    pub fn merge_stderr(mut self, on: bool) -> Self {
        self.merges_stderr = on;
        self
    }

    /// Sets in what its tree is held.
    ///
    /// A pid namespace is part of what makes the operation the same, since the command can see that it is in
    /// one; [`Driver::Auto`] and [`Driver::Reaper`] are the same operation.
    #[must_use]
    pub fn driver(mut self, driver: Driver) -> Self {
        self.driver = driver;
        self
    }

    /// Declares what ends work that it may give to others, where it is stopped: a container of an engine, a
    /// window of a tmux, a job of systemd. See [`StopAction`].
    ///
    /// # Examples
    /// ```
    /// # let stage = xioflow_kit::Stage::new();
    /// # let options = xioflow_kernel::DomainOptions::default().helper(stage.program("xioflow-reaper"));
    /// # let domain = options.open(stage.domain())?;
    /// use std::time::Duration;
    /// use xioflow_kernel::{Command, StopAction};
    ///
    /// let build = Command::new("/bin/sleep").arg("600");
    /// let build = build.stop_action(StopAction::new("/bin/echo").args(["container", "gone"]));
    /// let result = domain.operation(build)?.timeout(Duration::from_millis(200)).run()?;
    /// let action = result.stop_action.expect("it was declared");
    /// assert_eq!((action.exit_code, action.stdout.as_str()), (Some(0), "container gone\n"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn stop_action(mut self, action: StopAction) -> Self {
        self.stop_action = Some(action);
        self
    }

    /// The program's name without its folders, for people.
    #[must_use]
    pub fn display_name(&self) -> String {
        let path = Path::new(&self.program);
        path.file_name()
            .unwrap_or(self.program.as_os_str())
            .to_string_lossy()
            .into_owned()
    }

    /// Checks everything that needs no system call.
    pub(crate) fn validate(&self) -> Result<(), InvalidCommand> {
        if self.program.is_empty() {
            return Err(InvalidCommand::EmptyProgram);
        }
        no_nul(&self.program, || "the program's name".to_owned())?;
        for (index, arg) in self.args.iter().enumerate() {
            no_nul(arg, || format!("argument {}", index + 1))?;
        }
        self.environment.validate()?;
        self.stop_action
            .as_ref()
            .map_or(Ok(()), StopAction::validate)?;
        self.cwd.as_ref().map_or(Ok(()), |cwd| {
            no_nul(cwd.as_os_str(), || "the working directory".to_owned())
        })
    }
}

pub(crate) fn no_nul(text: &OsStr, what: impl FnOnce() -> String) -> Result<(), InvalidCommand> {
    if text.as_bytes().contains(&0) {
        return Err(InvalidCommand::Nul { what: what() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::Caller;
    use proptest::prelude::*;
    use std::os::unix::ffi::OsStringExt;

    #[test]
    fn bad_strings_are_named() {
        let nul = Command::new("true").arg("fine").arg("a\0b").validate();
        assert_eq!(
            nul,
            Err(InvalidCommand::Nul {
                what: "argument 2".to_owned()
            })
        );
        assert_eq!(
            Command::new("").validate(),
            Err(InvalidCommand::EmptyProgram)
        );
        let name = Command::new("true").env("A=B", "1").validate();
        assert!(matches!(name, Err(InvalidCommand::EnvName { .. })));
    }

    proptest! {
        #[test]
        fn a_nul_byte_is_found_and_named_wherever_it_is(
            text in prop::collection::vec(1u8..=255, 0..20),
            at in any::<prop::sample::Index>(),
            place in 0usize..5,
        ) {
            let mut bad = text.clone();
            bad.insert(at.index(text.len() + 1), 0);
            let bad = OsString::from_vec(bad);
            let fine = Command::new("true").arg("fine").env("A", "fine").cwd("/");
            prop_assert_eq!(fine.validate(), Ok(()));
            let (command, what) = match place {
                0 => (Command { program: bad, ..fine }, "the program's name"),
                1 => (fine.arg(bad), "argument 2"),
                2 => (fine.env("B", bad), "the value of the variable B"),
                3 => (fine.cwd(PathBuf::from(bad)), "the working directory"),
                // An equals sign in a name is refused before.
                _ => (fine.env(bad, "1"), ""),
            };
            match command.validate() {
                Err(InvalidCommand::Nul { what: named }) => prop_assert!(named.contains(what)),
                Err(InvalidCommand::EnvName { .. }) => prop_assert_eq!(place, 4),
                other => prop_assert!(false, "{:?}", other),
            }
        }

        #[test]
        fn whatever_has_no_nul_can_be_an_argument_and_a_value(
            bytes in prop::collection::vec(1u8..=255, 0..40),
        ) {
            let text = OsString::from_vec(bytes);
            let command = Command::new("true").arg(text.clone()).env("A", text);
            prop_assert_eq!(command.validate(), Ok(()));
        }

        #[test]
        fn a_working_directory_is_made_absolute_and_not_otherwise_changed(
            path in "[a-z./]{1,20}",
        ) {
            let here = std::env::current_dir().unwrap();
            let expected = if path.starts_with('/') { PathBuf::from(&path) } else { here.join(&path) };
            let folder = Caller::own().folder_of(&Command::new("true").cwd(&path)).unwrap();
            prop_assert_eq!(folder.path.as_os_str(), expected.as_os_str());
            prop_assert_eq!(folder.gone, None);
        }
    }

    #[test]
    fn a_variable_without_a_name_is_refused() {
        let unnamed = Command::new("true").env("", "1").validate();
        assert!(matches!(unnamed, Err(InvalidCommand::EnvName { .. })));
    }
}
