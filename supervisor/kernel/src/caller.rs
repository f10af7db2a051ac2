//! Whoever asks for a command, as far as the command takes something from him. `operation/admit`
//! completes relative paths here; docs/decisions/0022 says what travels and what does not.

mod place;

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::process::{Resource, getpriority_process, getrlimit};

use crate::command::{Command, InvalidCommand, no_nul};
use crate::observe;
use crate::stdin::Stdin;

pub(crate) use place::Place;

/// All resources that have a limit, getrlimit(2).
const RESOURCES: [Resource; 16] = [
    Resource::Cpu,
    Resource::Fsize,
    Resource::Data,
    Resource::Stack,
    Resource::Core,
    Resource::Rss,
    Resource::Nproc,
    Resource::Nofile,
    Resource::Memlock,
    Resource::As,
    Resource::Locks,
    Resource::Sigpending,
    Resource::Msgqueue,
    Resource::Nice,
    Resource::Rtprio,
    Resource::Rttime,
];

/// The nice values that there are, setpriority(2).
const NICE_VALUES: std::ops::RangeInclusive<i32> = -20..=19;

/// Whoever asks for a command: what the command takes from its surroundings unless it is told
/// otherwise. For hosts that execute operations of others ([`crate::OperationBuilder::caller`]).
///
/// Its variables are those that a command can inherit or be passed; its folder is where relative paths
/// start, and the working directory of a command that names none. Its file mode mask, resource limits
/// and nice value are set for the command; what was not said is that of this process. None of it is an
/// input that makes an operation the same, but for the folder a command is in.
///
/// # Examples
/// ```
/// # let stage = xioflow_kit::Stage::new();
/// # let options = xioflow_kernel::DomainOptions::default().helper(stage.program("xioflow-reaper"));
/// # let domain = options.open(stage.domain())?;
/// use xioflow_kernel::{Caller, Command};
///
/// let caller = Caller::new(Some("/usr".into()), vec![("LANG".into(), "C".into())])
///     .umask(0o027)
///     .nice(7);
/// let asked = Command::new("/bin/sh").args(["-c", "pwd; umask; nice; echo $LANG"]).inherit_env();
/// let result = domain.operation(asked)?.caller(caller).run()?;
/// assert_eq!(result.stdout, "/usr\n0027\n7\nC\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Caller {
    folder: Option<Place>,
    variables: Vec<(OsString, OsString)>,
    umask: Option<u32>,
    limits: Vec<ResourceLimit>,
    nice: Option<i32>,
}

/// A limit as in setrlimit(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResourceLimit {
    /// The number of the resource on this platform (`RLIMIT_*`).
    pub resource: u32,
    /// The soft limit; `None` is none.
    pub soft: Option<u64>,
    /// The hard limit; `None` is none.
    pub hard: Option<u64>,
}

impl Caller {
    /// This process, as it is now; the nice value is that of the calling thread.
    ///
    /// What the system does not say is left out, and is then that of whoever executes the operation:
    /// the file mode mask before Linux 4.7 and without `/proc`.
    #[must_use]
    pub fn here() -> Self {
        Self {
            umask: observe::own_umask(),
            limits: own_limits(),
            nice: own_nice(),
            ..Self::own()
        }
    }

    /// What a command takes from this process without anything being set for it.
    pub(crate) fn own() -> Self {
        Self {
            folder: Some(Place::here()),
            ..Self::new(None, std::env::vars_os().collect())
        }
    }

    /// One who is in this folder, which must be absolute, and has these variables. Of one without a
    /// folder every path must be absolute, and every command must name its working directory.
    #[must_use]
    pub fn new(folder: Option<PathBuf>, variables: Vec<(OsString, OsString)>) -> Self {
        Self {
            folder: folder.map(Place::there),
            variables,
            umask: None,
            limits: Vec::new(),
            nice: None,
        }
    }

    /// Says that its folder is gone, with the error number that asking for it gave. What would start
    /// there is a launch that fails with that number: another folder may have its name by now.
    #[must_use]
    pub fn folder_is_gone(mut self, errno: i32) -> Self {
        if let Some(folder) = &mut self.folder {
            folder.gone = Some(errno);
        }
        self
    }

    /// Sets its file mode creation mask, umask(2). [`Command::umask`] wins over it.
    #[must_use]
    pub fn umask(mut self, mask: u32) -> Self {
        self.umask = Some(mask);
        self
    }

    /// Sets its limit for one resource, setrlimit(2); a later one for the same resource replaces it.
    /// `None` is no limit.
    ///
    /// A limit that this process cannot set for the command, since it is above its own hard limit,
    /// is a launch that fails at the stage `limits`.
    #[must_use]
    pub fn limit(mut self, resource: u32, soft: Option<u64>, hard: Option<u64>) -> Self {
        self.limits.retain(|limit| limit.resource != resource);
        self.limits.push(ResourceLimit {
            resource,
            soft,
            hard,
        });
        self
    }

    /// Sets its nice value, -20 to 19.
    #[must_use]
    pub fn nice(mut self, nice: i32) -> Self {
        self.nice = Some(nice);
        self
    }

    /// Its folder, also if that is gone.
    #[must_use]
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_ref().map(|folder| folder.path.as_path())
    }

    /// The error number of its folder, if that is gone.
    #[must_use]
    pub fn folder_gone(&self) -> Option<i32> {
        self.folder.as_ref()?.gone
    }

    /// Its variables. Their values can be secrets.
    #[must_use]
    pub fn variables(&self) -> &[(OsString, OsString)] {
        &self.variables
    }

    /// Its file mode creation mask, if it is known.
    #[must_use]
    pub fn umask_value(&self) -> Option<u32> {
        self.umask
    }

    /// Its resource limits, those that are known.
    #[must_use]
    pub fn limits(&self) -> &[ResourceLimit] {
        &self.limits
    }

    /// Its nice value, if it is known.
    #[must_use]
    pub fn nice_value(&self) -> Option<i32> {
        self.nice
    }

    /// Checks what comes from outside and can be wrong.
    pub(crate) fn validate(&self) -> Result<(), InvalidCommand> {
        if let Some(folder) = self.folder() {
            no_nul(folder.as_os_str(), || "the caller's folder".to_owned())?;
        }
        for (name, value) in &self.variables {
            // The first byte can be an equals sign: execve(2) takes such a string, too.
            if name.is_empty() || name.as_bytes()[1..].contains(&b'=') {
                return Err(InvalidCommand::EnvName { name: name.clone() });
            }
            no_nul(name, || format!("the variable name {name:?}"))?;
            no_nul(value, || {
                format!("the value of the variable {}", name.display())
            })?;
        }
        match self.nice {
            Some(nice) if !NICE_VALUES.contains(&nice) => Err(InvalidCommand::Nice { nice }),
            _ => Ok(()),
        }
    }

    /// Takes the variables out.
    pub(crate) fn take_variables(&mut self) -> Vec<(OsString, OsString)> {
        std::mem::take(&mut self.variables)
    }

    /// Where a command will be.
    pub(crate) fn folder_of(&self, command: &Command) -> Result<Place, InvalidCommand> {
        match (&command.cwd, self.standing_place()) {
            (None, Some(folder)) => Ok(folder.clone()),
            (asked, _) => {
                let asked = asked.as_deref().unwrap_or(Path::new(""));
                self.complete("working directory", asked)
            }
        }
    }

    /// The file that a command reads, if it reads one.
    pub(crate) fn input_of(&self, command: &Command) -> Result<Option<Place>, InvalidCommand> {
        match &command.stdin {
            Stdin::File(path) => self.complete("standard input", path).map(Some),
            Stdin::Null | Stdin::Closed | Stdin::Bytes(_) | Stdin::Descriptor(_) => Ok(None),
        }
    }

    /// Makes a path absolute.
    pub(crate) fn complete(
        &self,
        what: &'static str,
        path: &Path,
    ) -> Result<Place, InvalidCommand> {
        if path.is_absolute() {
            return Ok(Place::there(path.to_owned()));
        }
        let folder = self.standing_place();
        folder
            .map(|folder| folder.below(path))
            .ok_or_else(|| InvalidCommand::NoFolder {
                what,
                path: path.to_owned(),
            })
    }

    /// Its folder, where something can start from it. Of one that is gone the name may be unknown.
    fn standing_place(&self) -> Option<&Place> {
        let usable = |folder: &&Place| folder.path.is_absolute() || folder.gone.is_some();
        self.folder.as_ref().filter(usable)
    }

    /// Those of its limits that differ from this process's, which a command has anyway.
    pub(crate) fn limits_to_set(&self) -> Vec<ResourceLimit> {
        if self.limits.is_empty() {
            return Vec::new();
        }
        let ours = own_limits();
        let differs = |limit: &&ResourceLimit| !ours.contains(limit);
        self.limits.iter().filter(differs).copied().collect()
    }

    /// Its nice value, if it differs from this thread's, which a command has anyway.
    pub(crate) fn nice_to_set(&self) -> Option<i32> {
        let nice = self.nice?;
        (own_nice() != Some(nice)).then_some(nice)
    }
}

/// Values of variables can be secrets, so they are only counted.
impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller")
            .field("folder", &self.folder)
            .field("variables", &self.variables.len())
            .field("umask", &self.umask)
            .field("limits", &self.limits)
            .field("nice", &self.nice)
            .finish()
    }
}

fn own_limits() -> Vec<ResourceLimit> {
    let limit = |resource: Resource| {
        let limit = getrlimit(resource);
        ResourceLimit {
            resource: resource as u32,
            soft: limit.current,
            hard: limit.maximum,
        }
    };
    RESOURCES.map(limit).into()
}

fn own_nice() -> Option<i32> {
    getpriority_process(None).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nowhere() -> Caller {
        Caller::new(None, Vec::new())
    }

    #[test]
    fn this_process_is_known_and_needs_nothing_set() {
        let here = Caller::here();
        assert_eq!(here.folder(), std::env::current_dir().ok().as_deref());
        assert_eq!(here.variables().len(), std::env::vars_os().count());
        assert_eq!(here.limits().len(), RESOURCES.len());
        assert!(here.umask_value().is_some() && here.nice_value().is_some());
        assert_eq!(here.limits_to_set(), []);
        assert_eq!(here.nice_to_set(), None);
        assert_eq!(here.validate(), Ok(()));
    }

    #[test]
    fn only_what_differs_is_set() {
        let ours = own_limits();
        let (core, nofile) = (Resource::Core as u32, Resource::Nofile as u32);
        let nofile_is = ours.iter().find(|limit| limit.resource == nofile).unwrap();
        let caller = nowhere()
            .limit(core, Some(1), Some(2))
            .limit(nofile, nofile_is.soft, nofile_is.hard)
            .limit(core, Some(3), Some(4));
        let different = ResourceLimit {
            resource: core,
            soft: Some(3),
            hard: Some(4),
        };
        assert_eq!(caller.limits_to_set(), [different]);
    }

    #[test]
    fn whoever_is_nowhere_completes_nothing() {
        let relative = nowhere().folder_of(&Command::new("true").cwd("below"));
        let path = PathBuf::from("below");
        let what = "working directory";
        assert_eq!(relative, Err(InvalidCommand::NoFolder { what, path }));
        assert!(nowhere().folder_of(&Command::new("true")).is_err());
        let absolute = nowhere().folder_of(&Command::new("true").cwd("/"));
        assert_eq!(absolute, Ok(Place::there("/".into())));
        let relative = Caller::new(Some("work".into()), Vec::new());
        assert!(relative.folder_of(&Command::new("true")).is_err());
    }

    #[test]
    fn what_is_gone_stays_gone_and_what_is_elsewhere_is_there() {
        let caller = Caller::new(Some("/was".into()), Vec::new()).folder_is_gone(2);
        let below = caller.input_of(&Command::new("cat").stdin(Stdin::File("in".into())));
        let gone = Place {
            path: "/was/in".into(),
            gone: Some(2),
        };
        assert_eq!(below, Ok(Some(gone)));
        let elsewhere = caller.folder_of(&Command::new("cat").cwd("/else"));
        assert_eq!(elsewhere, Ok(Place::there("/else".into())));
    }

    #[test]
    fn what_no_process_can_have_is_refused() {
        let with = |name: &str, value: &str| Caller::new(None, vec![(name.into(), value.into())]);
        assert_eq!(with("=odd", "a=b").validate(), Ok(()));
        for bad in [with("", ""), with("A=B", ""), with("A", "a\0b")] {
            assert!(bad.validate().is_err(), "{bad:?}");
        }
        let nice = 20;
        let too_nice = nowhere().nice(nice).validate();
        assert_eq!(too_nice, Err(InvalidCommand::Nice { nice }));
    }

    #[test]
    fn no_value_of_a_variable_is_shown() {
        let caller = Caller::new(None, vec![("TOKEN".into(), "secret".into())]);
        assert!(!format!("{caller:?}").contains("secret"));
    }
}
