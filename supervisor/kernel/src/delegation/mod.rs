//! Work that a command may have handed to somebody outside of its tree: what was seen of that, and how to look
//! for it. Nobody holds such work; it can only be said. Pure; `clients` and `servers` are what is known of
//! programs and sockets, `look` looks at a tree that lives.

mod clients;
mod look;
mod servers;

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use clients::{Client, Handed, client, client_of_process};
use servers::{Server, server};

use crate::command::Command;
use crate::result::SurvivorRecord;

pub(crate) use look::look_at_tree;

/// How many are named at most.
const DELEGATED_MAX: usize = 16;

/// What shows that work may have been handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DelegationEvidence {
    /// The command's own program is known to do it.
    Command,
    /// A process of its tree ran such a program.
    Process,
    /// A process of its tree was connected to a Unix socket of somebody outside.
    Socket,
}

/// Work that may live outside of a command's tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Delegated {
    /// The program that hands it over; null for a server that is not known.
    pub client: Option<String>,
    /// What shows it.
    pub evidence: DelegationEvidence,
    /// The process that it was seen of; null where it was the command's words.
    pub pid: Option<u32>,
    /// Path of the socket, if that was it; an abstract one begins with `@`.
    pub socket: Option<String>,
    /// What may be left, in a few words; null where nothing is known of it.
    pub may_leave: Option<String>,
    /// Whether that goes on is what the command's words ask for, as far as they can be understood.
    pub is_meant_to_go_on: bool,
    /// A command that shows such work; null where there is none.
    pub look: Option<String>,
    /// A command that ends it; null likewise.
    pub stop: Option<String>,
}

impl Delegated {
    fn of_client(client: &Client, evidence: DelegationEvidence) -> Self {
        Self {
            client: Some(client.name.to_owned()),
            evidence,
            pid: None,
            socket: None,
            may_leave: Some(client.may_leave.to_owned()),
            is_meant_to_go_on: false,
            look: client.look.map(str::to_owned),
            stop: client.stop.map(str::to_owned),
        }
    }

    fn of_process(client: &Client, pid: u32) -> Self {
        Self {
            pid: Some(pid),
            ..Self::of_client(client, DelegationEvidence::Process)
        }
    }
}

/// One process of a tree, as it was seen while it lived.
#[derive(Debug, Clone)]
struct Member {
    pid: u32,
    command: Vec<u8>,
    /// Names of the sockets that it was connected to, and whether their servers are known to be outside.
    servers: Vec<(OsString, bool)>,
}

/// Everything that was seen of one operation, each once.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    all: Vec<Delegated>,
}

impl Seen {
    pub(crate) fn of_command(&mut self, command: &Command) {
        let name = Path::new(&command.program).file_name();
        let Some(client) = name.and_then(|name| client(name.as_bytes())) else {
            return;
        };
        let words: Vec<&[u8]> = command.args.iter().map(|word| word.as_bytes()).collect();
        let is_meant_to_go_on = match client.handed(&words) {
            Handed::No => return,
            Handed::Perhaps => false,
            Handed::ToGoOn => true,
        };
        self.add(Delegated {
            is_meant_to_go_on,
            ..Delegated::of_client(client, DelegationEvidence::Command)
        });
    }

    pub(crate) fn of_survivors(&mut self, survivors: &[SurvivorRecord]) {
        for survivor in survivors {
            if let Some(client) = client_of_process(survivor.command.as_bytes()) {
                self.add(Delegated::of_process(client, survivor.pid));
            }
        }
    }

    fn of_member(&mut self, member: &Member) {
        if let Some(client) = client_of_process(&member.command) {
            self.add(Delegated::of_process(client, member.pid));
        }
        for (name, is_outside) in &member.servers {
            let known = match server(name.as_bytes()) {
                Server::Takes(name) => client(name.as_bytes()),
                Server::Unknown if *is_outside => None,
                Server::Unknown | Server::TakesNothing => continue,
            };
            let unknown = || Delegated {
                client: None,
                evidence: DelegationEvidence::Socket,
                pid: None,
                socket: None,
                may_leave: None,
                is_meant_to_go_on: false,
                look: None,
                stop: None,
            };
            let found = known.map(|it| Delegated::of_client(it, DelegationEvidence::Socket));
            self.add(Delegated {
                pid: Some(member.pid),
                socket: Some(name.to_string_lossy().into_owned()),
                ..found.unwrap_or_else(unknown)
            });
        }
    }

    pub(crate) fn extend(&mut self, more: Self) {
        more.all.into_iter().for_each(|one| self.add(one));
    }

    /// The first of a kind is kept, and says who it was.
    fn add(&mut self, one: Delegated) {
        let same = |it: &Delegated| {
            (&it.client, it.evidence, &it.socket) == (&one.client, one.evidence, &one.socket)
        };
        if self.all.len() < DELEGATED_MAX && !self.all.iter().any(same) {
            self.all.push(one);
        }
    }

    pub(crate) fn into_vec(self) -> Vec<Delegated> {
        self.all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(fill: impl FnOnce(&mut Seen)) -> Vec<Delegated> {
        let mut seen = Seen::default();
        fill(&mut seen);
        seen.into_vec()
    }

    fn member(command: &str, servers: &[(&str, bool)]) -> Member {
        let servers = servers.iter();
        Member {
            pid: 7,
            command: command.as_bytes().to_vec(),
            servers: servers.map(|(name, is)| (name.into(), *is)).collect(),
        }
    }

    #[test]
    fn a_client_is_known_wherever_its_program_lies() {
        let found = seen(|seen| {
            seen.of_command(&Command::new("/usr/bin/docker").args(["run", "--detach", "nginx"]));
        });
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].client.as_deref(), Some("docker"));
        assert_eq!(found[0].evidence, DelegationEvidence::Command);
        assert!(found[0].is_meant_to_go_on);
    }

    #[test]
    fn what_only_looks_and_what_is_not_known_is_not_told() {
        let found = seen(|seen| {
            seen.of_command(&Command::new("docker").arg("ps"));
            seen.of_command(&Command::new("sh").args(["-c", "docker run -d nginx"]));
            seen.of_member(&member("make", &[("/run/systemd/journal/stdout", true)]));
        });
        assert_eq!(found, []);
    }

    #[test]
    fn a_server_that_may_be_of_the_tree_is_told_only_where_it_is_known_to_take_work() {
        let found = seen(|seen| {
            let servers = [("/srv/a.sock", false), ("/run/docker.sock", false)];
            seen.of_member(&member("make", &servers));
        });
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].socket.as_deref(), Some("/run/docker.sock"));
        let found = seen(|seen| seen.of_member(&member("make", &[("/srv/a.sock", true)])));
        assert_eq!((found.len(), found[0].client.as_deref()), (1, None));
    }

    #[test]
    fn the_same_is_told_once_and_not_without_end() {
        let found = seen(|seen| {
            for at in 0..100 {
                seen.of_member(&member("docker", &[(&format!("/srv/{at}.sock"), true)]));
            }
        });
        assert_eq!(found.len(), DELEGATED_MAX);
        let of_process = |it: &&Delegated| it.evidence == DelegationEvidence::Process;
        assert_eq!(found.iter().filter(of_process).count(), 1);
    }
}
