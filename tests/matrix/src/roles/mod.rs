//! The processes of a case: this program again, started with a role. Only the one that is to be killed has
//! the kill points' variables in its environment.

mod alone;
mod clients;
mod host;
mod successor;

use std::path::PathBuf;

use crate::folder::Folder;
use crate::scenario::named;

/// The word before a role.
pub(crate) const ROLE: &str = "--role";

/// What a process is for. Its words are the role, the scenario, the case's folder, the programs' folder,
/// and what the role needs besides.
pub(crate) mod role {
    /// Plays a scenario of one process.
    pub(crate) const PLAY: &str = "play";
    /// Is the arbiter of a scenario.
    pub(crate) const SERVE: &str = "serve";
    /// Is a client of it; its name follows.
    pub(crate) const CLIENT: &str = "client";
    /// Opens the domain, and so recovers it.
    pub(crate) const RECOVER: &str = "recover";
    /// Does the same, and decides what nobody can know.
    pub(crate) const ADJUDICATE: &str = "adjudicate";
    /// Submits everything of the scenario again.
    pub(crate) const RESUBMIT: &str = "resubmit";
}

/// Plays the role that the arguments say.
///
/// # Panics
/// If they make no sense, or what must not fail does.
pub(crate) fn play(words: &[String]) {
    let [role, scenario, folder, programs, rest @ ..] = words else {
        panic!("a role needs a scenario and two folders: {words:?}");
    };
    let folder = Folder::new(PathBuf::from(folder), PathBuf::from(programs));
    let scenario = named(scenario);
    match (role.as_str(), rest) {
        (role::PLAY, []) => alone::play(&folder, scenario.name),
        (role::SERVE, []) => clients::serve(&folder),
        (role::CLIENT, [client]) => clients::play(&folder, client),
        (role::RECOVER, []) => successor::recover(&folder),
        (role::ADJUDICATE, []) => successor::adjudicate(&folder, &scenario),
        (role::RESUBMIT, []) => successor::resubmit(&folder, &scenario),
        _ => panic!("no role {words:?}"),
    }
}
