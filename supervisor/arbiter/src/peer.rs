//! Who is at the other end of a connection, and whether the arbiter may act for it.
//!
//! What the arbiter starts has the arbiter's rights. So it serves only who has the same: another user or
//! group, another namespace, or a confined process would be lent what it does not have.

use std::io;
use std::os::fd::AsFd;

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use rustix::process::geteuid;
use xioflow_facts::Standing;
use xioflow_rpc::refusal::{Fault, kind};

/// The process that connected.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer {
    /// None for a process that this one's pid namespace has no number for.
    pid: Option<u32>,
    uid: u32,
}

impl Peer {
    /// As the system noted it when it connected (unix(7), `SO_PEERCRED`).
    ///
    /// # Errors
    /// Those of getsockopt(2).
    pub(crate) fn of(socket: &impl AsFd) -> io::Result<Self> {
        let credentials = getsockopt(socket, PeerCredentials)?;
        Ok(Self {
            pid: u32::try_from(credentials.pid()).ok().filter(|pid| *pid > 0),
            uid: credentials.uid(),
        })
    }

    /// Whether it has what this process has.
    ///
    /// # Errors
    /// The refusal that says in what it differs.
    pub(crate) fn judge(&self, own: &Standing) -> Result<(), Fault> {
        if self.uid != geteuid().as_raw() {
            return Err(differs(vec!["uid"]));
        }
        let Some(pid) = self.pid else {
            return Err(differs(vec!["pid namespace"]));
        };
        let differences = match Standing::of(pid) {
            Ok(its) => own.differs(&its),
            Err(error) => {
                let message = "the arbiter cannot tell what its client may do, and lends nobody its own rights";
                let fault = Fault::refused(kind::STANDING, message).causes([error.to_string()]);
                return Err(fault.about("differs", Vec::<String>::new()));
            }
        };
        match differences.is_empty() {
            true => Ok(()),
            false => Err(differs(differences)),
        }
    }
}

fn differs(names: Vec<&'static str>) -> Fault {
    let message = format!(
        "the arbiter of this domain differs from its client in {}, and would lend it what it does not have",
        names.join(", ")
    );
    Fault::refused(kind::STANDING, message)
        .hint("use a domain of your own, by --domain DIR")
        .about("differs", names)
}
