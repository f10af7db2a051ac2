//! The arbiter's socket in the domain's folder: made while the domain is owned, so whatever is at its path
//! before is stale; removed at the end only if it is still this one.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fchmod, open, statat, unlinkat};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, socket_with,
};
use rustix::process::geteuid;
use xioflow_rpc::SOCKET_NAME;

/// Connections that may wait to be accepted. The system caps it at `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Something is at its path that no arbiter left there.
    #[error("{} is {what}, and no arbiter has left it there; remove it", path.display())]
    Planted {
        /// The path.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// The system refused.
    #[error("failed to {act} {}", path.display())]
    System {
        /// What was tried.
        act: &'static str,
        /// With what.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// A socket that listens at its path.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: OwnedFd,
    folder: OwnedFd,
    /// Device and inode of what is at the path.
    is: (u64, u64),
}

impl Listener {
    /// Binds it in the domain's folder, which the caller owns.
    ///
    /// # Errors
    /// [`SocketError::Planted`] for anything but a socket of this user; [`SocketError::System`].
    pub(crate) fn bind(folder: &Path) -> Result<Self, SocketError> {
        let path = folder.join(SOCKET_NAME);
        let failed = |act| {
            let path = path.clone();
            move |errno: Errno| SocketError::System {
                act,
                path,
                source: errno.into(),
            }
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = open(folder, flags, Mode::empty()).map_err(failed("open the folder of"))?;
        remove_stale(&folder, &path)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
            .map_err(failed("make a socket for"))?;
        // The mode of the file is that of the socket less the umask, so nobody else can connect in between.
        fchmod(&socket, Mode::RUSR | Mode::WUSR).map_err(failed("set the mode of"))?;
        bind(&socket, &address(&folder).map_err(failed("name"))?).map_err(failed("bind"))?;
        listen(&socket, BACKLOG).map_err(failed("listen at"))?;
        let is = identity(&look(&folder).map_err(failed("examine"))?);
        Ok(Self { socket, folder, is })
    }

    /// Accepts one connection; none if nobody waits. It is this process's own, so it may be non-blocking.
    ///
    /// # Errors
    /// Those of accept4(2) that are not about one connection.
    pub(crate) fn accept(&self) -> io::Result<Option<OwnedFd>> {
        match accept_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(socket) => Ok(Some(socket)),
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Removes it from its path, unless another one is there by now.
    pub(crate) fn unlink(&self) {
        if look(&self.folder).is_ok_and(|there| identity(&there) == self.is) {
            // Whoever removes it first does what is wanted.
            unlinkat(&self.folder, SOCKET_NAME, AtFlags::empty()).ok();
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The address by way of the open folder. A path in it is limited to 108 bytes (unix(7)), a domain's is not,
/// and the folder's own path may have become another one.
fn address(folder: &OwnedFd) -> Result<SocketAddrUnix, Errno> {
    SocketAddrUnix::new(format!(
        "/proc/self/fd/{}/{SOCKET_NAME}",
        folder.as_raw_fd()
    ))
}

fn look(folder: &OwnedFd) -> Result<Stat, Errno> {
    statat(folder, SOCKET_NAME, AtFlags::SYMLINK_NOFOLLOW)
}

fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

fn remove_stale(folder: &OwnedFd, path: &Path) -> Result<(), SocketError> {
    let failed = |act, errno: Errno| SocketError::System {
        act,
        path: path.to_owned(),
        source: errno.into(),
    };
    let there = match look(folder) {
        Ok(there) => there,
        Err(Errno::NOENT) => return Ok(()),
        Err(errno) => return Err(failed("examine", errno)),
    };
    let what = match FileType::from_raw_mode(there.st_mode) {
        FileType::Socket if there.st_uid == geteuid().as_raw() => None,
        FileType::Socket => Some("a socket of another user"),
        FileType::Symlink => Some("a symbolic link"),
        FileType::Directory => Some("a folder"),
        FileType::RegularFile => Some("a file"),
        _ => Some("no socket"),
    };
    if let Some(what) = what {
        let path = path.to_owned();
        return Err(SocketError::Planted { path, what });
    }
    unlinkat(folder, SOCKET_NAME, AtFlags::empty())
        .map_err(|errno| failed("remove the stale", errno))
}
