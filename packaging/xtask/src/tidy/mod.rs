//! The house rules as tests. Each broken one is named with what to do instead.

mod arrows;
mod field;
mod guarantees;
mod helper;
mod hooks;
mod named_tests;
mod protocol;
mod sources;
mod wire;

use std::fmt;
use std::path::PathBuf;
use std::process::Command;

use crate::tool::{Count, Failure, read, root};

/// A house rule that is broken somewhere.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Breach {
    place: String,
    fault: String,
    instead: &'static str,
}

impl Breach {
    fn new(place: impl fmt::Display, fault: impl Into<String>, instead: &'static str) -> Self {
        Self {
            place: place.to_string(),
            fault: fault.into(),
            instead,
        }
    }
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {}\n    instead: {}",
            self.place, self.fault, self.instead
        )
    }
}

/// Checks all rules. With `bless`, first takes over the helper's protocol as described, and writes
/// anew what is made from the types of clients and arbiter.
pub(crate) fn run(bless: bool) -> Result<String, Failure> {
    if bless {
        protocol::bless()?;
        wire::bless()?;
    }
    let files = tracked_files()?;
    let mut broken = report(&sources::check(&files)?);
    broken += report(&arrows::check()?);
    broken += report(&protocol::check()?);
    broken += report(&wire::check()?);
    broken += report(&field::check()?);
    broken += report(&guarantees::check()?);
    // Last, because these build.
    broken += report(&helper::check()?);
    broken += report(&hooks::check()?);
    match broken {
        0 => Ok(format!("the house is in order, {} files", files.len())),
        number => Err(Failure::Rules(Count(number))),
    }
}

fn report(breaches: &[Breach]) -> usize {
    for breach in breaches {
        println!("{breach}");
    }
    breaches.len()
}

/// The files that git keeps or would keep, relative to the top.
fn tracked_files() -> Result<Vec<PathBuf>, Failure> {
    let mut git = Command::new("git");
    git.current_dir(root()).args([
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]);
    let names = read(&mut git)?;
    let names = names
        .split('\0')
        .filter(|name| !name.is_empty())
        .map(PathBuf::from);
    // A file that was removed but not committed yet is still in the index.
    Ok(names.filter(|name| root().join(name).is_file()).collect())
}
