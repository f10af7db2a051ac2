//! The way to other programs and to the files of the work tree.

use std::env;
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

/// Why a verb has failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("cannot start `{line}`: {source}")]
    Start { line: String, source: io::Error },
    #[error("`{line}` ended with {status}")]
    Status { line: String, status: ExitStatus },
    #[error("`{line}` printed what cannot be read: {reason}")]
    Output { line: String, reason: String },
    #[error("{path}: {source}")]
    File { path: PathBuf, source: io::Error },
    #[error("{0}")]
    Usage(String),
    #[error("{what}; its console is in {console}")]
    Guest { what: String, console: PathBuf },
    #[error("suites have failed: {0}")]
    Suites(String),
    #[error("{0} broken; each is named above with what to do instead")]
    Rules(Count),
}

/// A number of house rules, for a message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Count(pub(crate) usize);

impl std::fmt::Display for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            1 => f.write_str("1 rule is"),
            number => write!(f, "{number} rules are"),
        }
    }
}

/// The top of the work tree.
pub(crate) fn root() -> PathBuf {
    let manifest = env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest
        .ancestors()
        .nth(2)
        .map(Path::to_path_buf)
        .unwrap_or(manifest)
}

/// A run of the cargo that runs us, at the top of the work tree.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).args(arguments);
    command
}

/// Runs a command to its end, its output passing through.
pub(crate) fn run(command: &mut Command) -> Result<(), Failure> {
    let line = line_of(command);
    println!("$ {line}");
    let status = command.status().map_err(|source| Failure::Start {
        line: line.clone(),
        source,
    })?;
    if status.success() {
        Ok(())
    } else {
        Err(Failure::Status { line, status })
    }
}

/// Runs a command to its end and passes on those lines of its standard output that `shown` wants.
pub(crate) fn run_through(
    command: &mut Command,
    mut shown: impl FnMut(&str) -> bool,
) -> Result<(), Failure> {
    let line = line_of(command);
    println!("$ {line}");
    let started = command.stdout(Stdio::piped()).spawn();
    let mut child = started.map_err(|source| Failure::Start {
        line: line.clone(),
        source,
    })?;
    let unreadable = |error: io::Error| Failure::Output {
        line: line.clone(),
        reason: error.to_string(),
    };
    if let Some(stdout) = child.stdout.take() {
        for printed in BufReader::new(stdout).split(b'\n') {
            // A test may print what is no UTF-8, and that must not end the run.
            let printed = printed.map_err(unreadable)?;
            let printed = String::from_utf8_lossy(&printed);
            if shown(&printed) {
                println!("{printed}");
            }
        }
    }
    let status = child.wait().map_err(unreadable)?;
    if status.success() {
        Ok(())
    } else {
        Err(Failure::Status { line, status })
    }
}

/// Runs a command to its end and returns what it printed.
pub(crate) fn read(command: &mut Command) -> Result<String, Failure> {
    let line = line_of(command);
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|source| Failure::Start {
            line: line.clone(),
            source,
        })?;
    if !output.status.success() {
        return Err(Failure::Status {
            line,
            status: output.status,
        });
    }
    String::from_utf8(output.stdout).map_err(|error| Failure::Output {
        line,
        reason: error.to_string(),
    })
}

pub(crate) fn line_of(command: &Command) -> String {
    let program = Path::new(command.get_program())
        .file_name()
        .unwrap_or_default();
    let words = std::iter::once(program).chain(command.get_args());
    words
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Reads a file of the work tree.
pub(crate) fn read_file(path: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(root().join(path)).map_err(|source| Failure::File {
        path: path.to_path_buf(),
        source,
    })
}

/// What `cargo metadata` says of the members of the workspace.
pub(crate) fn metadata() -> Result<serde_json::Value, Failure> {
    let mut command = cargo(&["metadata", "--no-deps", "--format-version", "1"]);
    let text = read(&mut command)?;
    serde_json::from_str(&text).map_err(|error| Failure::Output {
        line: line_of(&command),
        reason: error.to_string(),
    })
}

/// The folder where cargo builds.
pub(crate) fn target_dir() -> Result<PathBuf, Failure> {
    let metadata = metadata()?;
    Ok(metadata["target_directory"]
        .as_str()
        .map_or_else(|| root().join("target"), PathBuf::from))
}
