//! sandbox-exec: a seatbelt profile that denies writes outside some folders. macOS only.
//!
//! Neighbour: `write_trial` is what the probe runs in it. The profile travels as an argument, so
//! no file that a command could change is read back.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::driver::DriverState;
use crate::write_trial::WriteTrial;

/// It is part of the system and lives nowhere else.
const PROGRAM: &str = "/usr/bin/sandbox-exec";

const START_LIMIT: Duration = Duration::from_secs(5);

/// Writes are denied except to devices and to the folder that is given as a parameter.
const PROFILE: &str = include_str!("write_only_below.sbpl");

/// Starts sandbox-exec with one writable folder, and tries to write outside.
#[must_use]
pub fn sandbox_exec() -> DriverState {
    let path = PathBuf::from(PROGRAM);
    if !path.is_file() {
        return DriverState::Absent { remedy: None };
    }
    let trial = match WriteTrial::new() {
        Ok(trial) => trial,
        Err(error) => {
            return DriverState::CannotTell {
                why: format!("set up a trial: {error}"),
            };
        }
    };
    // The profile is matched against real paths, and the temporary folder is behind a link.
    let writable = match trial.writable().canonicalize() {
        Ok(writable) => writable,
        Err(error) => {
            return DriverState::CannotTell {
                why: format!("set up a trial: {error}"),
            };
        }
    };
    match trial.run(&path, &arguments(&writable), START_LIMIT) {
        Ok(()) => DriverState::Ready {
            path,
            version: None,
            losses: Vec::new(),
        },
        Err(why) => DriverState::Broken {
            path,
            why,
            remedy: None,
        },
    }
}

fn arguments(writable: &Path) -> Vec<OsString> {
    let mut parameter = OsString::from("WRITABLE=");
    parameter.push(writable);
    vec!["-D".into(), parameter, "-p".into(), PROFILE.into()]
}
