//! The ways to run a command that are compared.

use std::env;
use std::error::Error;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::TempDir;
use xioflow_kernel::journal::Outcome;
use xioflow_kernel::{Arbiter, Domain, DomainOptions, Starter};

/// The command that is run: the least there is.
const PROGRAM: &str = "/bin/true";

/// One way to run a command to its end.
pub(crate) trait Way {
    fn name(&self) -> &str;
    fn run_true(&self) -> Result<(), Box<dyn Error>>;
}

/// The standard library: one process, nothing kept.
pub(crate) struct Bare;

impl Way for Bare {
    fn name(&self) -> &'static str {
        "bare spawn and wait"
    }

    fn run_true(&self) -> Result<(), Box<dyn Error>> {
        let status = quiet(PROGRAM).status()?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("{PROGRAM}: {status}").into())
        }
    }
}

/// The kernel inside this process, with its journal.
pub(crate) struct Embedded {
    name: &'static str,
    domain: Domain,
    // After the domain, which must be closed before its folder goes.
    _folder: TempDir,
}

impl Embedded {
    pub(crate) fn new(name: &'static str, warm_helpers: usize) -> Result<Self, Box<dyn Error>> {
        let folder = folder()?;
        let domain = DomainOptions::default()
            .warm_helpers(warm_helpers)
            .open(folder.path().join("domain"))?;
        Ok(Self {
            name,
            domain,
            _folder: folder,
        })
    }
}

impl Way for Embedded {
    fn name(&self) -> &str {
        self.name
    }

    fn run_true(&self) -> Result<(), Box<dyn Error>> {
        succeeded(&self.domain)
    }
}

/// The kernel in an arbiter, for a client that stays.
pub(crate) struct Attached {
    domain: Domain,
    // It has started the arbiter, and ends it.
    _line: CommandLine,
}

impl Attached {
    pub(crate) fn new() -> Result<Self, Box<dyn Error>> {
        let line = CommandLine::through_an_arbiter()?;
        let starter = Starter::new(&line.program);
        let options = DomainOptions::default().arbiter(Arbiter::Start(starter));
        Ok(Self {
            domain: options.open(line.folder.path().join("domain"))?,
            _line: line,
        })
    }
}

impl Way for Attached {
    fn name(&self) -> &'static str {
        "library, through an arbiter"
    }

    fn run_true(&self) -> Result<(), Box<dyn Error>> {
        succeeded(&self.domain)
    }
}

fn succeeded(domain: &Domain) -> Result<(), Box<dyn Error>> {
    let result = domain.run(xioflow_kernel::Command::new(PROGRAM))?;
    if result.status == Outcome::Succeeded {
        Ok(())
    } else {
        Err(format!("{PROGRAM}: {}", result.status).into())
    }
}

/// `xioflow run`: through an arbiter, which the first one starts, or with nobody resident, so that
/// it opens and closes the domain each time.
pub(crate) struct CommandLine {
    name: &'static str,
    options: &'static [&'static str],
    program: PathBuf,
    folder: TempDir,
}

impl CommandLine {
    pub(crate) fn through_an_arbiter() -> Result<Self, Box<dyn Error>> {
        Self::new("xioflow run", &[])
    }

    pub(crate) fn alone() -> Result<Self, Box<dyn Error>> {
        Self::new("xioflow run --no-arbiter", &["--no-arbiter"])
    }

    fn new(name: &'static str, options: &'static [&str]) -> Result<Self, Box<dyn Error>> {
        let program = env::current_exe()?.with_file_name("xioflow");
        if !program.exists() {
            return Err(format!("{} is missing; run cargo xtask bench", program.display()).into());
        }
        Ok(Self {
            name,
            options,
            program,
            folder: folder()?,
        })
    }

    fn xioflow(&self, verb: &str) -> Command {
        let mut command = quiet(&self.program);
        command
            .arg("--domain")
            .arg(self.folder.path().join("domain"));
        command.arg(verb);
        command
    }
}

impl Drop for CommandLine {
    fn drop(&mut self) {
        // Where there is no arbiter, there is nothing to end; one that does not end ends when it is idle.
        self.xioflow("shutdown").status().ok();
    }
}

impl Way for CommandLine {
    fn name(&self) -> &str {
        self.name
    }

    fn run_true(&self) -> Result<(), Box<dyn Error>> {
        let mut run = self.xioflow("run");
        let status = run.args(self.options).args(["--", PROGRAM]).status()?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("xioflow run: {status}").into())
        }
    }
}

fn quiet(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// A folder on the disk that builds are on: one in memory would make durability free.
fn folder() -> Result<TempDir, Box<dyn Error>> {
    let beside = env::current_exe()?;
    let target = beside.parent().ok_or("this program has no folder")?;
    Ok(tempfile::Builder::new()
        .prefix("xioflow-bench-")
        .tempdir_in(target)?)
}
