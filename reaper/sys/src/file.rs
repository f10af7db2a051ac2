//! Files and directories, always relative to a descriptor.

use core::ffi::CStr;

use linux_raw_sys::general as raw;

use crate::{BorrowedFd, Errno, OwnedFd};

/// How a file is opened; close-on-exec is always among it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenFlags(u32);

impl OpenFlags {
    /// For reading.
    pub const READ: Self = Self(raw::O_RDONLY);
    /// For writing.
    pub const WRITE: Self = Self(raw::O_WRONLY);
    /// For reading and writing.
    pub const READ_WRITE: Self = Self(raw::O_RDWR);
    /// For writing a file that is made. Whatever is there already, a symbolic link too, is refused.
    pub const NEW: Self = Self(raw::O_WRONLY | raw::O_CREAT | raw::O_EXCL);
    /// For reading, without waiting for the other end of a pipe, and without touching a terminal.
    pub const READ_NOW: Self = Self(raw::O_RDONLY | raw::O_NONBLOCK | raw::O_NOCTTY);
    /// A directory, to list it or to name files in it.
    pub const DIRECTORY: Self = Self(raw::O_RDONLY | raw::O_DIRECTORY);
}

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A socket.
    Socket,
    /// Anything else.
    Other,
}

/// What fstat(2) says of a file, as far as we ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStat {
    /// Kind of file.
    pub kind: FileKind,
    /// Inode number.
    pub inode: u64,
    /// Device that holds it.
    pub device: u64,
    /// Owner.
    pub uid: u32,
    /// How many names it has; of a directory, how many directories are in it, and two more.
    pub links: u64,
}

/// Opens a file relative to a directory. The descriptor is close-on-exec from birth.
///
/// # Errors
/// As in open(2).
pub fn openat(
    directory: BorrowedFd<'_>,
    path: &CStr,
    flags: OpenFlags,
    mode: u32,
) -> Result<OwnedFd, Errno> {
    #[cfg(feature = "lacking")]
    crate::lacking::file(path)?;
    // SAFETY: `path` is a borrowed, NUL-terminated string that the kernel only reads during the
    // call; the descriptor that comes back is new.
    unsafe {
        let returned = call!(
            openat,
            directory,
            path.as_ptr(),
            flags.0 | raw::O_CLOEXEC,
            mode
        )?;
        Ok(OwnedFd::from_call(returned))
    }
}

/// Reads at the file's position; 0 is the end.
///
/// # Errors
/// As in read(2).
pub fn read(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<usize, Errno> {
    // SAFETY: the kernel writes at most `buffer.len()` bytes into a slice borrowed for the call.
    unsafe { call!(read, fd, buffer.as_mut_ptr(), buffer.len()) }
}

/// Reads at `offset` without moving the file's position.
///
/// # Errors
/// As in pread(2).
pub fn pread(fd: BorrowedFd<'_>, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
    // SAFETY: the kernel writes at most `buffer.len()` bytes into a slice borrowed for the call.
    unsafe { call!(pread64, fd, buffer.as_mut_ptr(), buffer.len(), offset) }
}

/// Writes some of the bytes and says how many.
///
/// # Errors
/// As in write(2).
pub fn write(fd: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize, Errno> {
    // SAFETY: the kernel reads at most `bytes.len()` bytes from a slice borrowed for the call.
    unsafe { call!(write, fd, bytes.as_ptr(), bytes.len()) }
}

/// What an open file is.
///
/// # Errors
/// As in fstat(2).
pub fn fstat(fd: BorrowedFd<'_>) -> Result<FileStat, Errno> {
    // SAFETY: an all-zero `stat` is a valid value of a plain structure of integers.
    let mut stat: raw::stat = unsafe { core::mem::zeroed() };
    // SAFETY: the kernel fills one `stat`, which is local and outlives the call.
    unsafe { call!(fstat, fd, &raw mut stat) }?;
    Ok(stat.into())
}

/// What a path leads to, through symbolic links.
///
/// # Errors
/// As in fstatat(2).
pub fn statat(directory: BorrowedFd<'_>, path: &CStr) -> Result<FileStat, Errno> {
    // SAFETY: an all-zero `stat` is a valid value of a plain structure of integers.
    let mut stat: raw::stat = unsafe { core::mem::zeroed() };
    // SAFETY: `path` is NUL-terminated and borrowed; `stat` is local; both outlive the call.
    #[cfg(not(target_arch = "aarch64"))]
    unsafe { call!(newfstatat, directory, path.as_ptr(), &raw mut stat, 0u32) }?;
    // SAFETY: as above; the same call under the name that the table of aarch64 has for it.
    #[cfg(target_arch = "aarch64")]
    unsafe { call!(fstatat, directory, path.as_ptr(), &raw mut stat, 0u32) }?;
    Ok(stat.into())
}

impl From<raw::stat> for FileStat {
    #[expect(
        clippy::allow_attributes,
        reason = "the widths of these fields differ between architectures"
    )]
    #[allow(clippy::useless_conversion, reason = "as above")]
    fn from(stat: raw::stat) -> Self {
        let kind = match stat.st_mode & raw::S_IFMT {
            raw::S_IFREG => FileKind::Regular,
            raw::S_IFDIR => FileKind::Directory,
            raw::S_IFSOCK => FileKind::Socket,
            _ => FileKind::Other,
        };
        Self {
            kind,
            inode: u64::from(stat.st_ino),
            device: u64::from(stat.st_dev),
            uid: u32::from(stat.st_uid),
            links: u64::from(stat.st_nlink),
        }
    }
}

/// The type of the file system that holds an open file, as in statfs(2).
///
/// # Errors
/// As in fstatfs(2).
#[expect(clippy::cast_sign_loss, reason = "file system types are bit patterns")]
pub fn fstatfs_type(fd: BorrowedFd<'_>) -> Result<u64, Errno> {
    // SAFETY: an all-zero `statfs` is a valid value of a plain structure of integers.
    let mut statfs: raw::statfs = unsafe { core::mem::zeroed() };
    // SAFETY: the kernel fills one `statfs`, which is local and outlives the call.
    unsafe { call!(fstatfs, fd, &raw mut statfs) }?;
    Ok(statfs.f_type as u64)
}

/// Reads where a symbolic link points; an answer as long as the buffer may be cut.
///
/// # Errors
/// As in readlink(2).
pub fn readlinkat(
    directory: BorrowedFd<'_>,
    path: &CStr,
    buffer: &mut [u8],
) -> Result<usize, Errno> {
    // SAFETY: `path` is NUL-terminated; the kernel writes at most `buffer.len()` bytes; both are
    // borrowed for the call.
    unsafe {
        call!(
            readlinkat,
            directory,
            path.as_ptr(),
            buffer.as_mut_ptr(),
            buffer.len()
        )
    }
}

/// Asks whether the effective user may execute a file.
///
/// # Errors
/// As in faccessat2(2); EACCES when the permission is missing or the mount says `noexec`.
pub fn access_execute(directory: BorrowedFd<'_>, path: &CStr) -> Result<(), Errno> {
    // SAFETY: `path` is NUL-terminated, only read, and borrowed for the call.
    let answer = unsafe {
        call!(
            faccessat2,
            directory,
            path.as_ptr(),
            raw::X_OK,
            raw::AT_EACCESS
        )
    };
    match answer {
        // Before Linux 5.8. It asks for the real user, and ours is never another one.
        // SAFETY: as above.
        Err(Errno::ENOSYS) => unsafe { call!(faccessat, directory, path.as_ptr(), raw::X_OK) },
        other => other,
    }
    .map(drop)
}

/// Renames a file within one directory, replacing what has the new name.
///
/// # Errors
/// As in rename(2).
pub fn renameat(directory: BorrowedFd<'_>, from: &CStr, to: &CStr) -> Result<(), Errno> {
    // SAFETY: both paths are NUL-terminated, only read, and borrowed for the call.
    unsafe {
        call!(
            renameat2,
            directory,
            from.as_ptr(),
            directory,
            to.as_ptr(),
            0u32
        )
    }
    .map(drop)
}

/// Removes a file's name.
///
/// # Errors
/// As in unlink(2).
pub fn unlinkat(directory: BorrowedFd<'_>, path: &CStr) -> Result<(), Errno> {
    // SAFETY: `path` is NUL-terminated, only read, and borrowed for the call.
    unsafe { call!(unlinkat, directory, path.as_ptr(), 0u32) }.map(drop)
}

/// Makes a file's content, or a directory's names, durable.
///
/// # Errors
/// As in fsync(2).
pub fn fsync(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: takes no pointer.
    unsafe { call!(fsync, fd) }.map(drop)
}

/// Changes the working directory.
///
/// # Errors
/// As in chdir(2).
pub fn chdir(path: &CStr) -> Result<(), Errno> {
    // SAFETY: `path` is NUL-terminated, only read, and borrowed for the call.
    unsafe { call!(chdir, path.as_ptr()) }.map(drop)
}

/// From `linux/close_range.h`, which `linux-raw-sys` leaves out.
const CLOSE_RANGE_CLOEXEC: u32 = 1 << 2;

/// Marks every open descriptor from `first` on close-on-exec.
///
/// # Errors
/// As in close_range(2); ENOSYS or EINVAL before Linux 5.11.
pub fn close_on_exec_from(first: u32) -> Result<(), Errno> {
    // SAFETY: takes no pointer and closes nothing now, so every owner keeps its descriptor.
    unsafe { call!(close_range, first, u32::MAX, CLOSE_RANGE_CLOEXEC) }.map(drop)
}

/// Fills `buffer` with entries of an open directory; no bytes is the end.
///
/// # Errors
/// As in getdents64(2); EINVAL when the buffer is too small for one entry.
pub fn getdents<'b>(fd: BorrowedFd<'_>, buffer: &'b mut [u8]) -> Result<DirEntries<'b>, Errno> {
    // SAFETY: the kernel writes at most `buffer.len()` bytes into a slice borrowed for the call.
    let filled = unsafe { call!(getdents64, fd, buffer.as_mut_ptr(), buffer.len()) }?;
    Ok(DirEntries {
        rest: &buffer[..filled],
    })
}

/// The names in one filling of [`getdents`].
#[derive(Debug, Clone)]
pub struct DirEntries<'b> {
    rest: &'b [u8],
}

impl DirEntries<'_> {
    /// Whether the directory was at its end.
    #[must_use]
    pub const fn is_end(&self) -> bool {
        self.rest.is_empty()
    }
}

impl<'b> Iterator for DirEntries<'b> {
    type Item = &'b CStr;

    fn next(&mut self) -> Option<Self::Item> {
        // struct linux_dirent64: inode (8), offset (8), length (2), type (1), name.
        let length = self.rest.get(16..18)?;
        let length = usize::from(u16::from_ne_bytes([length[0], length[1]]));
        let (entry, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        CStr::from_bytes_until_nul(entry.get(19..)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AsFd, CWD};
    use std::string::{String, ToString};
    use std::vec::Vec;

    #[test]
    fn a_directory_is_listed_whole() {
        let names = list(c"/proc/self");
        for name in ["stat", "fd", "task"] {
            assert!(
                names.iter().any(|n| n == name),
                "{name} is missing in {names:?}"
            );
        }
    }

    fn list(path: &CStr) -> Vec<String> {
        let directory = openat(CWD, path, OpenFlags::DIRECTORY, 0).expect("directory opens");
        let mut names = Vec::new();
        let mut buffer = [0; 256];
        loop {
            let entries = getdents(directory.as_fd(), &mut buffer).expect("entries come");
            if entries.is_end() {
                return names;
            }
            names.extend(entries.map(|name| name.to_string_lossy().to_string()));
        }
    }

    #[test]
    fn cut_entries_end_the_listing_instead_of_reading_on() {
        let entries = DirEntries { rest: &[0; 18] };
        assert_eq!(entries.count(), 0);
        let mut long = [0u8; 24];
        long[16] = 200;
        assert_eq!(DirEntries { rest: &long }.count(), 0);
    }

    #[test]
    fn execute_permission_is_what_the_kernel_would_say() {
        assert_eq!(access_execute(CWD, c"/bin/sh"), Ok(()));
        assert_eq!(access_execute(CWD, c"/etc/passwd"), Err(Errno::EACCES));
        assert_eq!(access_execute(CWD, c"/nowhere"), Err(Errno::ENOENT));
        assert_eq!(access_execute(CWD, c"/etc/passwd/x"), Err(Errno::ENOTDIR));
    }

    #[test]
    fn a_file_is_written_read_renamed_and_removed() {
        let name = std::ffi::CString::new(std::format!("/tmp/xioflow-sys-{}", std::process::id()))
            .expect("no NUL");
        let file = openat(CWD, &name, OpenFlags::NEW, 0o600).expect("file is made");
        assert_eq!(write(file.as_fd(), b"hello"), Ok(5));
        fsync(file.as_fd()).expect("synced");
        let file = openat(CWD, &name, OpenFlags::READ, 0).expect("file opens");
        let mut buffer = [0; 3];
        assert_eq!(pread(file.as_fd(), &mut buffer, 2), Ok(3));
        assert_eq!(&buffer, b"llo");
        assert_eq!(statat(CWD, &name).map(|s| s.kind), Ok(FileKind::Regular));
        unlinkat(CWD, &name).expect("removed");
        assert_eq!(statat(CWD, &name).map(drop), Err(Errno::ENOENT));
    }
}
