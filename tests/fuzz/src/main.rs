//! Writes the inputs that fuzzing starts from: `xioflow-fuzz-seeds FOLDER TARGET...`, each target in a folder of its own.
//! Without a target, all of them.

use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use xioflow_fuzz::{Target, seeds};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some((folder, names)) = words.split_first() else {
        return complain("usage: xioflow-fuzz-seeds FOLDER [TARGET...]");
    };
    let wanted =
        |target: &Target| names.is_empty() || names.iter().any(|name| name == target.name());
    for target in Target::ALL.into_iter().filter(wanted) {
        if let Err(error) = write(&Path::new(folder).join(target.name()), target) {
            return complain(&format!(
                "cannot write the seeds of {}: {error}",
                target.name()
            ));
        }
    }
    ExitCode::SUCCESS
}

/// What fuzzing has found there before stays.
fn write(folder: &Path, target: Target) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for (at, seed) in seeds::seeds(target).iter().enumerate() {
        fs::write(folder.join(format!("seed-{at:02}")), seed)?;
    }
    Ok(())
}

#[expect(clippy::print_stderr, reason = "it talks to people")]
fn complain(about: &str) -> ExitCode {
    eprintln!("{about}");
    ExitCode::from(64)
}
