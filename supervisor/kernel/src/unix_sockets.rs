//! The Unix sockets of this moment, each with its name and its other end, as sock_diag(7) lists them.
//! Who has one open is `observe`'s question.
//!
//! `/proc/net/unix` would name servers, and not who is connected to them.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;

use rustix::net::netlink::SOCK_DIAG;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with,
};

/// Sockets that are read at most: a machine with more has its answer cut, and says so.
const SOCKETS_MAX: usize = 65_536;

/// Length of one read; the kernel makes its messages no longer than 32 KiB, netlink(7).
const READ_LEN: usize = 64 * 1024;

/// How long a header of netlink is, netlink(7).
const HEADER_LEN: usize = 16;
/// How long the fixed part of an answer is, `struct unix_diag_msg`.
const SOCKET_LEN: usize = 16;
/// How long the header of an attribute is, rtnetlink(7).
const ATTRIBUTE_LEN: usize = 4;

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// `NLM_F_REQUEST | NLM_F_DUMP`.
const ALL: u16 = 0x301;
const AF_UNIX: u8 = 1;
/// `UDIAG_SHOW_NAME | UDIAG_SHOW_PEER`.
const NAME_AND_PEER: u32 = 1 | 4;
const UNIX_DIAG_NAME: u16 = 0;
const UNIX_DIAG_PEER: u16 = 2;

/// One socket.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct UnixSocket {
    /// The path that it, or the one that it was accepted from, is bound to; an abstract one begins with `@`.
    pub(crate) name: Option<OsString>,
    /// The inode of the other end; none where there is nobody, or nobody has accepted the connection yet.
    pub(crate) peer: Option<u64>,
}

/// All of them by inode.
pub(crate) type UnixSockets = HashMap<u64, UnixSocket>;

/// Asks for the sockets of this process's network namespace.
///
/// # Errors
/// Those of the system: a kernel without `CONFIG_UNIX_DIAG`, a filter of system calls, no descriptor left.
pub(crate) fn unix_sockets() -> io::Result<UnixSockets> {
    let socket = socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        Some(SOCK_DIAG),
    )?;
    send(&socket, &question(), SendFlags::empty())?;
    let mut sockets = UnixSockets::new();
    let mut answer = vec![0; READ_LEN];
    loop {
        let len = receive(&socket, &mut answer)?;
        if take(&answer[..len], &mut sockets)? || sockets.len() >= SOCKETS_MAX {
            return Ok(sockets);
        }
    }
}

fn receive(socket: &OwnedFd, into: &mut [u8]) -> io::Result<usize> {
    loop {
        match recv(socket, &mut *into, RecvFlags::empty()) {
            Ok((len, _)) => return Ok(len),
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// `struct nlmsghdr` and `struct unix_diag_req`.
fn question() -> Vec<u8> {
    let mut words = Vec::with_capacity(HEADER_LEN + 24);
    words.extend(40_u32.to_ne_bytes());
    words.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    words.extend(ALL.to_ne_bytes());
    words.extend([0; 8]);
    words.extend([AF_UNIX, 0, 0, 0]);
    // Sockets in every state, of every inode.
    words.extend(u32::MAX.to_ne_bytes());
    words.extend(0_u32.to_ne_bytes());
    words.extend(NAME_AND_PEER.to_ne_bytes());
    words.extend([0; 8]);
    words
}

/// Takes what one read has brought; true when that was the last of it.
fn take(mut bytes: &[u8], sockets: &mut UnixSockets) -> io::Result<bool> {
    let malformed = || io::Error::new(io::ErrorKind::InvalidData, "no message of sock_diag(7)");
    // Nothing at all would be asked for again and again.
    if bytes.is_empty() {
        return Err(malformed());
    }
    while !bytes.is_empty() {
        let len = u32_at(bytes, 0).and_then(|len| usize::try_from(len).ok());
        let (Some(len), Some(kind)) = (len, u16_at(bytes, 4)) else {
            return Err(malformed());
        };
        let message = bytes.get(HEADER_LEN..len).ok_or_else(malformed)?;
        match kind {
            NLMSG_DONE => return Ok(true),
            NLMSG_ERROR => {
                let errno = u32_at(message, 0).ok_or_else(malformed)?.cast_signed();
                return Err(io::Error::from_raw_os_error(errno.wrapping_neg()));
            }
            SOCK_DIAG_BY_FAMILY => {
                let (inode, socket) = socket_of(message).ok_or_else(malformed)?;
                sockets.insert(inode, socket);
            }
            _ => {}
        }
        bytes = bytes.get(aligned(len)..).unwrap_or_default();
    }
    Ok(false)
}

fn socket_of(message: &[u8]) -> Option<(u64, UnixSocket)> {
    let inode = u64::from(u32_at(message, 4)?);
    let mut socket = UnixSocket::default();
    let mut attributes = message.get(SOCKET_LEN..)?;
    while !attributes.is_empty() {
        let len = usize::from(u16_at(attributes, 0)?);
        let value = attributes.get(ATTRIBUTE_LEN..len)?;
        match u16_at(attributes, 2)? {
            UNIX_DIAG_NAME => socket.name = name_of(value),
            UNIX_DIAG_PEER => {
                socket.peer = u32_at(value, 0).filter(|inode| *inode != 0).map(u64::from)
            }
            _ => {}
        }
        attributes = attributes.get(aligned(len)..).unwrap_or_default();
    }
    Some((inode, socket))
}

/// A path may end with a NUL; an abstract name begins with one, unix(7).
fn name_of(value: &[u8]) -> Option<OsString> {
    let name = match value {
        [] => return None,
        [0, rest @ ..] => [b"@", rest].concat(),
        path => path.split(|byte| *byte == 0).next()?.to_vec(),
    };
    Some(OsString::from_vec(name))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Messages and attributes begin at multiples of four.
const fn aligned(len: usize) -> usize {
    len.next_multiple_of(4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

    /// The names that clients of this process see at their other ends.
    fn names_behind_ours() -> Vec<OsString> {
        let sockets = unix_sockets().unwrap();
        let ours = xioflow_facts::socket_inodes(std::process::id()).unwrap();
        let behind = |inode: u64| sockets.get(&sockets.get(&inode)?.peer?)?.name.clone();
        ours.into_iter().filter_map(behind).collect()
    }

    #[test]
    fn the_server_behind_a_connection_has_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("server.sock");
        let listener = UnixListener::bind(&path).unwrap();
        assert!(!names_behind_ours().contains(&path.clone().into_os_string()));
        let _client = UnixStream::connect(&path).unwrap();
        let _accepted = listener.accept().unwrap();
        assert!(names_behind_ours().contains(&path.into_os_string()));
    }

    #[test]
    fn an_abstract_name_is_told_as_such() {
        let name = format!("xioflow-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let listener = UnixListener::bind_addr(&address).unwrap();
        let _client = UnixStream::connect_addr(&address).unwrap();
        let _accepted = listener.accept().unwrap();
        assert!(names_behind_ours().contains(&format!("@{name}").into()));
    }

    proptest! {
        #[test]
        fn whatever_comes_is_taken_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut sockets = UnixSockets::new();
            take(&bytes, &mut sockets).ok();
            prop_assert!(sockets.len() <= bytes.len() / HEADER_LEN);
        }
    }

    #[test]
    fn a_length_of_nothing_ends_the_reading() {
        let mut sockets = UnixSockets::new();
        assert!(take(&[0; 32], &mut sockets).is_err());
        assert!(take(&[], &mut sockets).is_err());
    }
}
