//! The folder of a domain and the socket in it, looked at before anything is trusted. Nothing here
//! starts an arbiter: that is `starter`.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, openat, statat};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::geteuid;
use xioflow_rpc::SOCKET_NAME;
use xioflow_rpc::kernel::Hello;

use crate::connection::Connection;
use crate::greeting::{self, ConnectError, Greeting};
use crate::negotiate::Mismatch;

/// How long an arbiter may take to accept a connection and to greet. It does both at once; one that
/// does not is stopped or stuck.
pub(crate) const GREETING_WAIT: Duration = Duration::from_secs(10);

/// Bits of a folder's mode by which others could put a socket of theirs into it.
const WRITABLE_FOR_OTHERS: u32 = 0o022;

/// The folder of a domain, held open: what was checked is what is used.
#[derive(Debug)]
pub struct Endpoint {
    path: PathBuf,
    folder: OwnedFd,
}

/// Why a folder or what lies in it is not trusted.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// There is no such folder.
    #[error("there is no domain in {}", path.display())]
    Missing {
        /// The domain's folder.
        path: PathBuf,
    },
    /// There is something else.
    #[error("{} is no folder; name the domain's folder", path.display())]
    NoFolder {
        /// What was named.
        path: PathBuf,
    },
    /// The folder is another user's, who decides what is in it.
    #[error("{} belongs to user {owner_uid}, not to {our_uid}; run as that user, or choose another folder", path.display())]
    ForeignFolder {
        /// The domain's folder.
        path: PathBuf,
        /// Whose it is.
        owner_uid: u32,
        /// Who asked.
        our_uid: u32,
    },
    /// Others can put a socket of theirs in it.
    #[error("others can write in {} (mode {mode:04o}); run `chmod go-w` on it, and look what is in it", path.display())]
    FolderWritable {
        /// The domain's folder.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// At the socket's place is something else, such as a file or a link.
    #[error("{} is {found}, not the arbiter's socket; look where it comes from, and remove it", path.display())]
    NoSocket {
        /// The socket's place.
        path: PathBuf,
        /// What is there.
        found: &'static str,
    },
    /// The socket is another user's.
    #[error("{} belongs to user {owner_uid}, not to {our_uid}; look where it comes from, and remove it", path.display())]
    ForeignSocket {
        /// The socket's place.
        path: PathBuf,
        /// Whose it is.
        owner_uid: u32,
        /// Who asked.
        our_uid: u32,
    },
    /// Who listens is another user.
    #[error("a process of user {peer_uid} listens at {}, not one of user {our_uid}; nothing was said to it", path.display())]
    ForeignPeer {
        /// The socket's place.
        path: PathBuf,
        /// Whose process it is.
        peer_uid: u32,
        /// Who asked.
        our_uid: u32,
    },
    /// The system refused to let us look.
    #[error("cannot {doing} {}", path.display())]
    System {
        /// What was looked at.
        path: PathBuf,
        /// What was being done to it, as a verb.
        doing: &'static str,
        /// Why not.
        source: io::Error,
    },
}

impl Endpoint {
    /// Opens the folder of a domain and checks that only its owner, who has to be this user, decides
    /// what is in it. Links on the way to it are followed.
    ///
    /// # Errors
    /// [`EndpointError::Missing`], [`EndpointError::NoFolder`], [`EndpointError::ForeignFolder`],
    /// [`EndpointError::FolderWritable`], [`EndpointError::System`].
    pub fn open(domain_folder: &Path) -> Result<Self, EndpointError> {
        let path = std::fs::canonicalize(domain_folder)
            .map_err(|error| folder_error(domain_folder, "find", error))?;
        // A link that appears at the last moment is not followed.
        let how = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = openat(CWD, &path, how, Mode::empty())
            .map_err(|error| folder_error(&path, "open", error.into()))?;
        let about = fstat(&folder).map_err(|error| folder_error(&path, "examine", error.into()))?;
        check_folder(&path, &about)?;
        Ok(Self { path, folder })
    }

    /// The folder, as an absolute path without links.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the socket is, for messages.
    #[must_use]
    pub fn socket_path(&self) -> PathBuf {
        self.path.join(SOCKET_NAME)
    }

    /// Connects to the arbiter of this domain and greets it.
    ///
    /// # Errors
    /// [`ConnectError::NoArbiter`] if nobody listens; the others say what is wrong with whoever does.
    pub fn connect(&self, hello: &Hello) -> Result<Connection, ConnectError> {
        match self.greet(hello)? {
            Greeting::Welcomed(connection) => Ok(connection),
            Greeting::OtherVersion { theirs, .. } => {
                let mismatch = Mismatch::new(&self.path, hello, theirs);
                Err(ConnectError::Version(Box::new(mismatch)))
            }
        }
    }

    /// Connects to the arbiter of this domain, of whatever release it is. If it speaks another protocol, all
    /// that can be said to it is `kernel.shutdown`, which never changes its shape.
    ///
    /// # Errors
    /// As [`Self::connect`], without [`ConnectError::Version`].
    pub fn connect_to_end(&self, hello: &Hello) -> Result<Connection, ConnectError> {
        match self.greet(hello)? {
            Greeting::Welcomed(connection) | Greeting::OtherVersion { connection, .. } => {
                Ok(connection)
            }
        }
    }

    /// As [`Self::connect`], but keeps the connection to an arbiter of another protocol.
    pub(crate) fn greet(&self, hello: &Hello) -> Result<Greeting, ConnectError> {
        self.check_socket()?;
        let socket = self.dial()?;
        self.check_peer(&socket)?;
        greeting::exchange(socket, hello, &self.socket_path(), GREETING_WAIT)
    }

    /// Looks at what is at the socket's place.
    fn check_socket(&self) -> Result<(), ConnectError> {
        let path = self.socket_path();
        let about = match statat(&self.folder, SOCKET_NAME, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(about) => about,
            Err(Errno::NOENT) => return Err(ConnectError::NoArbiter),
            Err(error) => return Err(system(path, "examine", error).into()),
        };
        match FileType::from_raw_mode(about.st_mode) {
            FileType::Socket => {}
            other => {
                let found = kind_name(other);
                return Err(EndpointError::NoSocket { path, found }.into());
            }
        }
        let (owner_uid, our_uid) = (about.st_uid, geteuid().as_raw());
        if owner_uid != our_uid {
            return Err(EndpointError::ForeignSocket {
                path,
                owner_uid,
                our_uid,
            }
            .into());
        }
        Ok(())
    }

    /// Connects through the folder that is open: the way does not depend on what has become of its
    /// path, and fits the address of a socket (108 bytes, unix(7)) however long that is.
    fn dial(&self) -> Result<OwnedFd, ConnectError> {
        let refused = |doing| {
            let path = self.socket_path();
            move |error| ConnectError::from(system(path, doing, error))
        };
        let socket = socket_with(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )
        .map_err(refused("make a socket for"))?;
        let through = format!("/proc/self/fd/{}/{SOCKET_NAME}", self.folder.as_raw_fd());
        let address = SocketAddrUnix::new(through).map_err(refused("name"))?;
        // A listener with a full queue is waited for, but not for ever (unix(7), SO_SNDTIMEO).
        set_socket_timeout(&socket, Timeout::Send, Some(GREETING_WAIT))
            .map_err(refused("set a time limit for"))?;
        match rustix::io::retry_on_intr(|| connect(&socket, &address)) {
            Ok(()) => {}
            Err(Errno::NOENT | Errno::CONNREFUSED) => return Err(ConnectError::NoArbiter),
            Err(Errno::AGAIN) => {
                return Err(ConnectError::Silent {
                    path: self.socket_path(),
                });
            }
            Err(error) => return Err(refused("connect to")(error)),
        }
        set_socket_timeout(&socket, Timeout::Send, None)
            .map_err(refused("lift the time limit of"))?;
        Ok(socket)
    }

    /// Asks the kernel whose process listens, before anything is said to it.
    fn check_peer(&self, socket: &OwnedFd) -> Result<(), ConnectError> {
        let path = self.socket_path();
        let peer = getsockopt(socket, PeerCredentials).map_err(|errno| EndpointError::System {
            path: path.clone(),
            doing: "ask who listens at",
            source: errno.into(),
        })?;
        let (peer_uid, our_uid) = (peer.uid(), geteuid().as_raw());
        if peer_uid != our_uid {
            return Err(EndpointError::ForeignPeer {
                path,
                peer_uid,
                our_uid,
            }
            .into());
        }
        Ok(())
    }
}

impl AsFd for Endpoint {
    /// The folder, opened as a path only (`O_PATH`).
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }
}

/// Judges what fstat(2) says of the folder.
fn check_folder(path: &Path, about: &Stat) -> Result<(), EndpointError> {
    let path = path.to_owned();
    let (owner_uid, our_uid) = (about.st_uid, geteuid().as_raw());
    if owner_uid != our_uid {
        return Err(EndpointError::ForeignFolder {
            path,
            owner_uid,
            our_uid,
        });
    }
    let mode = about.st_mode & 0o7777;
    if mode & WRITABLE_FOR_OTHERS != 0 {
        return Err(EndpointError::FolderWritable { path, mode });
    }
    Ok(())
}

fn folder_error(path: &Path, doing: &'static str, source: io::Error) -> EndpointError {
    let path = path.to_owned();
    match source.kind() {
        io::ErrorKind::NotFound => EndpointError::Missing { path },
        io::ErrorKind::NotADirectory => EndpointError::NoFolder { path },
        _ => EndpointError::System {
            path,
            doing,
            source,
        },
    }
}

fn system(path: PathBuf, doing: &'static str, error: Errno) -> EndpointError {
    EndpointError::System {
        path,
        doing,
        source: error.into(),
    }
}

fn kind_name(kind: FileType) -> &'static str {
    match kind {
        FileType::RegularFile => "a file",
        FileType::Directory => "a folder",
        FileType::Symlink => "a link",
        FileType::Fifo => "a named pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Unknown => "something unknown",
    }
}
