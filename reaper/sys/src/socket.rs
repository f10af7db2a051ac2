//! Sockets of one pair, and the descriptors that travel through them.

use alloc::vec::Vec;
use core::ptr;

use linux_raw_sys::general::iovec;
use linux_raw_sys::net as raw;

use crate::{AsFd, BorrowedFd, Errno, OwnedFd, RawFd};

/// How many descriptors one message is received with; more are closed by the kernel.
const DESCRIPTORS_MAX: usize = 16;

const HEADER_LEN: usize = size_of::<raw::cmsghdr>();
const FD_LEN: usize = size_of::<RawFd>();
const CONTROL_LEN: usize = HEADER_LEN + DESCRIPTORS_MAX * FD_LEN;

/// Room for ancillary data, aligned as its header needs.
#[repr(C)]
union Control {
    header: raw::cmsghdr,
    bytes: [u8; CONTROL_LEN],
}

/// How a pair of sockets keeps what is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketKind {
    /// As a stream of bytes.
    Stream,
    /// As records: each read takes what one write put in.
    Records,
}

/// Makes two connected sockets, close-on-exec.
///
/// # Errors
/// As in socketpair(2).
pub fn socketpair(kind: SocketKind) -> Result<(OwnedFd, OwnedFd), Errno> {
    let kind = match kind {
        SocketKind::Stream => raw::SOCK_STREAM,
        SocketKind::Records => raw::SOCK_SEQPACKET,
    } | linux_raw_sys::general::O_CLOEXEC;
    let mut pair: [RawFd; 2] = [-1; 2];
    // SAFETY: the kernel writes two descriptors into a local array; on success both are new.
    unsafe {
        call!(socketpair, raw::AF_UNIX, kind, 0u32, pair.as_mut_ptr())?;
        Ok((OwnedFd::from_raw(pair[0]), OwnedFd::from_raw(pair[1])))
    }
}

/// Sends some of the bytes without waiting, and at most one descriptor with the first of them.
///
/// Never raises SIGPIPE. Says how many bytes went; the descriptor went if any byte did.
///
/// # Errors
/// EAGAIN when there is no room, EPIPE when the other end is gone, and as in send(2).
pub fn send(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    descriptor: Option<BorrowedFd<'_>>,
) -> Result<usize, Errno> {
    let mut control = Control {
        bytes: [0; CONTROL_LEN],
    };
    let control_len = descriptor.map_or(0, |fd| attach(&mut control, fd.raw()));
    let mut part = iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: as_len(bytes),
    };
    let message = raw::msghdr {
        msg_name: ptr::null_mut(),
        msg_namelen: 0,
        msg_iov: (&raw mut part).cast(),
        msg_iovlen: 1,
        msg_control: if control_len == 0 {
            ptr::null_mut()
        } else {
            (&raw mut control).cast()
        },
        msg_controllen: control_len,
        msg_flags: 0,
    };
    let flags = raw::MSG_NOSIGNAL | raw::MSG_DONTWAIT;
    // SAFETY: the kernel only reads: the bytes through one iovec, and `control_len` bytes of
    // `control`, all local or borrowed for the call; a descriptor sent is duplicated, not moved.
    unsafe { call!(sendmsg, socket, &raw const message, flags) }
}

const fn as_len(bytes: &[u8]) -> u64 {
    bytes.len() as u64
}

fn attach(control: &mut Control, fd: RawFd) -> usize {
    let header = raw::cmsghdr {
        cmsg_len: HEADER_LEN + FD_LEN,
        cmsg_level: constant(raw::SOL_SOCKET),
        cmsg_type: constant(raw::SCM_RIGHTS),
    };
    control.header = header;
    // SAFETY: the union was made from `bytes`, and writing the header, which has no padding,
    // left every byte initialised.
    let bytes = unsafe { &mut control.bytes };
    bytes[HEADER_LEN..HEADER_LEN + FD_LEN].copy_from_slice(&fd.to_ne_bytes());
    HEADER_LEN + FD_LEN
}

#[expect(clippy::cast_possible_wrap, reason = "these constants are small")]
const fn constant(value: u32) -> i32 {
    value as i32
}

/// What one [`recv`] took.
#[derive(Debug)]
pub struct Received {
    /// How many bytes; 0 is the end of the stream.
    pub len: usize,
    /// The descriptors that came with them, close-on-exec.
    pub descriptors: Vec<OwnedFd>,
    /// Whether descriptors were lost because there were too many.
    pub truncated: bool,
}

/// Takes what has come, without waiting.
///
/// # Errors
/// EAGAIN when nothing has, and as in recv(2).
pub fn recv(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<Received, Errno> {
    receive(socket, buffer, raw::MSG_DONTWAIT)
}

/// Takes what has come, and waits for it.
///
/// # Errors
/// As in recv(2).
pub fn recv_waiting(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<Received, Errno> {
    receive(socket, buffer, 0)
}

fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8], flags: u32) -> Result<Received, Errno> {
    let mut control = Control {
        bytes: [0; CONTROL_LEN],
    };
    let mut part = iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: as_len(buffer),
    };
    let mut message = raw::msghdr {
        msg_name: ptr::null_mut(),
        msg_namelen: 0,
        msg_iov: (&raw mut part).cast(),
        msg_iovlen: 1,
        msg_control: (&raw mut control).cast(),
        msg_controllen: CONTROL_LEN,
        msg_flags: 0,
    };
    // SAFETY: the kernel writes at most `buffer.len()` bytes through one iovec and at most
    // CONTROL_LEN bytes into `control`; both are local or borrowed for the call.
    let len = unsafe {
        call!(
            recvmsg,
            socket,
            &raw mut message,
            flags | raw::MSG_CMSG_CLOEXEC
        )
    }?;
    // SAFETY: the union was made from `bytes`, and the kernel only writes initialised bytes.
    let bytes = unsafe { &control.bytes };
    let filled = message.msg_controllen.min(CONTROL_LEN);
    // SAFETY: recvmsg(2) has succeeded and set `msg_controllen` to what it wrote at the beginning of `control`, so
    // these bytes are its ancillary data and nothing older; no other value was made of the descriptors in it.
    let descriptors = unsafe { detach(&bytes[..filled]) };
    Ok(Received {
        len,
        descriptors,
        truncated: message.msg_flags & raw::MSG_CTRUNC != 0,
    })
}

/// Takes the descriptors out of ancillary data.
///
/// # Safety
/// `control` is what recvmsg(2) has just filled in, so each number in it is new and ours.
unsafe fn detach(mut control: &[u8]) -> Vec<OwnedFd> {
    let mut descriptors = Vec::new();
    while let Some((header, _)) = control.split_first_chunk::<HEADER_LEN>() {
        let word = |at: usize| {
            i32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let mut len = [0; size_of::<usize>()];
        len.copy_from_slice(&header[..size_of::<usize>()]);
        let len = usize::from_ne_bytes(len);
        let Some(data) = control.get(HEADER_LEN..len) else {
            break;
        };
        let level = word(size_of::<usize>());
        let kind = word(size_of::<usize>() + size_of::<i32>());
        if level == constant(raw::SOL_SOCKET) && kind == constant(raw::SCM_RIGHTS) {
            for number in data.chunks_exact(FD_LEN) {
                let number = RawFd::from_ne_bytes([number[0], number[1], number[2], number[3]]);
                // SAFETY: the caller's promise.
                descriptors.push(unsafe { OwnedFd::from_raw(number) });
            }
        }
        control = control
            .get(len.next_multiple_of(size_of::<usize>())..)
            .unwrap_or_default();
    }
    descriptors
}

impl Received {
    /// Whether the stream is at its end.
    #[must_use]
    pub const fn is_end(&self) -> bool {
        self.len == 0
    }
}

/// Says that nothing more will be written; the other end reads what is left, then the end.
///
/// # Errors
/// As in shutdown(2).
pub fn shutdown_write(socket: &impl AsFd) -> Result<(), Errno> {
    // SAFETY: takes no pointer; 1 is SHUT_WR.
    unsafe { call!(shutdown, socket.as_fd(), 1u32) }.map(drop)
}

/// The size of `struct ucred` as socklen_t.
const CREDENTIALS_LEN: u32 = 12;
const _: () = assert!(size_of::<raw::ucred>() == 12);

/// The user who made a pair of sockets, or who is connected at the other end, as it was then.
///
/// # Errors
/// As in getsockopt(2); ENODATA and the like where a socket has no such peer.
///
/// Source: unix(7), `SO_PEERCRED`.
pub fn peer_user(socket: BorrowedFd<'_>) -> Result<u32, Errno> {
    let mut credentials = raw::ucred {
        pid: 0,
        uid: u32::MAX,
        gid: u32::MAX,
    };
    let mut len = CREDENTIALS_LEN;
    // SAFETY: the kernel writes at most `len` bytes into a local structure of plain integers, and
    // how many it wrote into `len`, a local too.
    unsafe {
        call!(
            getsockopt,
            socket,
            raw::SOL_SOCKET,
            raw::SO_PEERCRED,
            &raw mut credentials,
            &raw mut len
        )
    }?;
    Ok(credentials.uid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CWD, OpenFlags, fstat, openat};

    #[test]
    fn bytes_and_a_descriptor_travel_together() {
        let (a, b) = socketpair(SocketKind::Stream).expect("a pair");
        let null = openat(CWD, c"/dev/null", OpenFlags::READ, 0).expect("/dev/null opens");
        assert_eq!(send(a.as_fd(), b"plain", None), Ok(5));
        assert_eq!(send(a.as_fd(), b"with", Some(null.as_fd())), Ok(4));
        let mut buffer = [0; 64];
        let mut bytes = Vec::new();
        let mut descriptors = Vec::new();
        while bytes.len() < 9 {
            let got = recv(b.as_fd(), &mut buffer).expect("something has come");
            bytes.extend_from_slice(&buffer[..got.len]);
            descriptors.extend(got.descriptors);
        }
        assert_eq!(bytes, b"plainwith");
        assert_eq!(descriptors.len(), 1);
        let theirs = fstat(descriptors[0].as_fd()).expect("open");
        assert_eq!(theirs.inode, fstat(null.as_fd()).expect("open").inode);
        assert!(matches!(recv(b.as_fd(), &mut buffer), Err(Errno::EAGAIN)));
        drop(a);
        assert!(recv(b.as_fd(), &mut buffer).expect("the end").is_end());
    }

    #[test]
    fn a_pair_knows_who_made_it() {
        let (a, b) = socketpair(SocketKind::Stream).expect("a pair");
        for end in [&a, &b] {
            assert_eq!(peer_user(end.as_fd()), Ok(crate::geteuid()));
        }
        let null = openat(CWD, c"/dev/null", OpenFlags::READ, 0).expect("/dev/null opens");
        assert!(peer_user(null.as_fd()).is_err(), "which is no socket");
    }

    #[test]
    fn too_many_descriptors_are_said_to_be_lost() {
        use std::os::fd::AsFd as _;
        let (a, b) = std::os::unix::net::UnixStream::pair().expect("a pair");
        let ours: Vec<_> = (0..20).map(|_| a.try_clone().expect("a copy")).collect();
        let ours: Vec<_> = ours.iter().map(|copy| copy.as_fd()).collect();
        let _kept = (&b, &ours);
        // Sending many is not something this crate does, so the message is built by hand.
        let mut control = std::vec![0u8; HEADER_LEN + 20 * FD_LEN];
        control[..size_of::<usize>()].copy_from_slice(&(HEADER_LEN + 20 * FD_LEN).to_ne_bytes());
        control[8..12].copy_from_slice(&constant(raw::SOL_SOCKET).to_ne_bytes());
        control[12..16].copy_from_slice(&constant(raw::SCM_RIGHTS).to_ne_bytes());
        for (slot, fd) in control[HEADER_LEN..].chunks_exact_mut(FD_LEN).zip(&ours) {
            slot.copy_from_slice(&std::os::fd::AsRawFd::as_raw_fd(fd).to_ne_bytes());
        }
        let mut part = iovec {
            iov_base: b"x".as_ptr().cast_mut().cast(),
            iov_len: 1,
        };
        let message = raw::msghdr {
            msg_name: ptr::null_mut(),
            msg_namelen: 0,
            msg_iov: (&raw mut part).cast(),
            msg_iovlen: 1,
            msg_control: control.as_mut_ptr().cast(),
            msg_controllen: control.len(),
            msg_flags: 0,
        };
        let number = std::os::fd::AsRawFd::as_raw_fd(&a);
        // SAFETY: all that the message points to is local and only read.
        unsafe { call!(sendmsg, number, &raw const message, 0u32) }.expect("sent");
        let mut buffer = [0; 8];
        // SAFETY: `b` is open and outlives the borrow; `OwnedFd` is forgotten, never dropped.
        let theirs = core::mem::ManuallyDrop::new(unsafe {
            OwnedFd::from_raw(std::os::fd::AsRawFd::as_raw_fd(&b))
        });
        let got = recv(theirs.as_fd(), &mut buffer).expect("something has come");
        assert_eq!(got.len, 1);
        assert!(got.truncated);
        assert_eq!(got.descriptors.len(), DESCRIPTORS_MAX);
    }
}
