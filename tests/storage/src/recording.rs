//! A trace as what it means for one folder: changes of a disk, and facts that were told to somebody
//! outside of it, in the order in which they count.

use std::collections::{BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::disk::{Change, Disk};
use crate::trace::{Argument, Call, Line};

/// The calls that change files, and those that say who does it, as strace(1) takes them.
pub const CALLS: &str = "execve,open,openat,openat2,creat,write,pwrite64,writev,pwritev,pwritev2,\
ftruncate,truncate,fallocate,copy_file_range,sendfile,splice,lseek,mmap,msync,fsync,fdatasync,\
sync_file_range,sync,syncfs,rename,renameat,renameat2,link,linkat,symlink,symlinkat,unlink,unlinkat,\
rmdir,mkdir,mkdirat,mknod,mknodat,io_uring_setup";

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The moment that counts: of a change, when it had been made; of a fact, when telling it began.
    pub at: usize,
    /// What it was.
    pub what: What,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// A change of the disk.
    Changed(PathBuf, Change),
    /// A fact was told: bytes were written to the file of this name among the facts.
    Told(OsString, Vec<u8>),
    /// A process that had executed this program has ended.
    Ended(PathBuf),
}

/// What a trace says of one folder.
#[derive(Debug, Clone, Default)]
pub struct Recording {
    /// What happened, in order.
    pub events: Vec<Event>,
    /// Files that were mapped so that writing to the memory writes to them, which no trace shows.
    pub mapped: BTreeSet<PathBuf>,
}

/// Reads a trace: what was done to the disk from the folder `place` on, and what was told by
/// writing to files in the folder `told`.
///
/// # Errors
/// Names a call on the disk whose meaning for it is not known here, or that contradicts the others.
pub fn of(lines: &[Line], place: &Path, told: &Path) -> Result<Recording, String> {
    let mut scribe = Scribe {
        place,
        told,
        ..Scribe::default()
    };
    for line in lines {
        match line {
            Line::Call(call) => scribe
                .call(call)
                .ok_or_else(|| format!("not understood: {call:?}"))??,
            Line::Ended { tid, at } => scribe.ended(*tid, *at),
        }
    }
    let mut recording = scribe.recording;
    recording.events.sort_by_key(|event| event.at);
    Ok(recording)
}

struct Scribe<'a> {
    place: &'a Path,
    told: &'a Path,
    /// What the processes see.
    disk: Disk,
    /// Where the next plain write to a file goes, and how long it is.
    positions: HashMap<PathBuf, (usize, usize)>,
    appended: BTreeSet<PathBuf>,
    programs: HashMap<u32, PathBuf>,
    recording: Recording,
}

impl Default for Scribe<'_> {
    fn default() -> Self {
        Self {
            place: Path::new(""),
            told: Path::new(""),
            disk: Disk::default(),
            positions: HashMap::new(),
            appended: BTreeSet::new(),
            programs: HashMap::new(),
            recording: Recording::default(),
        }
    }
}

/// `None`: it is not understood.
type Done = Option<Result<(), String>>;

const NOTHING: Done = Some(Ok(()));

impl Scribe<'_> {
    fn call(&mut self, call: &Call) -> Done {
        let Some(returned) = call.returned else {
            return NOTHING;
        };
        match call.name.as_str() {
            "execve" => {
                let program = path(bytes(call, 0)?);
                self.programs.insert(call.tid, program);
                NOTHING
            }
            "open" | "creat" => self.opened(call, path(bytes(call, 0)?), word(call, 1)),
            "openat" => self.opened(call, at(call, 0)?, word(call, 2)),
            "write" => self.write(call, returned),
            "pwrite64" => self.pwrite(call, returned),
            "ftruncate" => self.set_len(call, descriptor(call, 0)),
            "fsync" | "fdatasync" => self.sync(call),
            "mkdir" => self.change(call, &path(bytes(call, 0)?), Change::MakeFolder),
            "mkdirat" => self.change(call, &at(call, 0)?, Change::MakeFolder),
            "unlink" | "rmdir" => self.change(call, &path(bytes(call, 0)?), Change::Remove),
            "unlinkat" => self.change(call, &at(call, 0)?, Change::Remove),
            "rename" => self.rename(call, &path(bytes(call, 0)?), &path(bytes(call, 1)?)),
            "renameat" | "renameat2" => self.rename(call, &at(call, 0)?, &at(call, 2)?),
            "mmap" => self.map(call),
            // It counts only where it moves the place of a plain write, which is rewound nowhere.
            "lseek" => NOTHING,
            _ => self.elsewhere(call),
        }
    }

    fn ended(&mut self, tid: u32, at: usize) {
        if let Some(program) = self.programs.remove(&tid) {
            let what = What::Ended(program);
            self.recording.events.push(Event { at, what });
        }
    }

    /// A path as one of the disk; `None` if it lies elsewhere.
    fn placed(&self, path: &Path) -> Option<PathBuf> {
        path.strip_prefix(self.place).ok().map(Path::to_path_buf)
    }

    fn change(&mut self, call: &Call, path: &Path, change: Change) -> Done {
        let Some(placed) = self.placed(path).filter(|it| !is_socket(it)) else {
            return NOTHING;
        };
        if let Err(error) = self.disk.apply(call.ended, &placed, &change) {
            return Some(Err(error));
        }
        let what = What::Changed(placed, change);
        self.recording.events.push(Event {
            at: call.ended,
            what,
        });
        NOTHING
    }

    fn opened(&mut self, call: &Call, path: PathBuf, flags: Option<&str>) -> Done {
        let flags = flags.unwrap_or("O_CREAT|O_TRUNC");
        let Some(placed) = self.placed(&path) else {
            return NOTHING;
        };
        if flags.contains("O_TMPFILE") {
            return None;
        }
        if flags.contains("O_CREAT") && !self.disk.has(&placed) {
            self.change(call, &path, Change::MakeFile)?.ok()?;
            self.positions.insert(placed.clone(), (0, 0));
        } else if flags.contains("O_TRUNC") {
            self.change(call, &path, Change::SetLen(0))?.ok()?;
            self.positions.insert(placed.clone(), (0, 0));
        }
        if flags.contains("O_APPEND") {
            self.appended.insert(placed);
        } else if flags.contains("O_WRONLY") || flags.contains("O_RDWR") {
            let len = self.positions.get(&placed).map_or(0, |(_, len)| *len);
            self.positions.insert(placed, (0, len));
        }
        NOTHING
    }

    fn write(&mut self, call: &Call, returned: i64) -> Done {
        let Some(target) = descriptor(call, 0) else {
            return NOTHING;
        };
        let written = bytes(call, 1)?.get(..usize::try_from(returned).ok()?)?;
        if let Ok(name) = target.strip_prefix(self.told) {
            let what = What::Told(name.as_os_str().to_owned(), written.to_vec());
            self.recording.events.push(Event {
                at: call.begun,
                what,
            });
            return NOTHING;
        }
        let Some(placed) = self.placed(&target) else {
            return NOTHING;
        };
        let (position, len) = *self.positions.get(&placed)?;
        let at = match self.appended.contains(&placed) {
            true => len,
            false => position,
        };
        self.wrote(call, &target, at, written)
    }

    fn pwrite(&mut self, call: &Call, returned: i64) -> Done {
        let Some(target) = descriptor(call, 0) else {
            return NOTHING;
        };
        if self.placed(&target).is_none() {
            return NOTHING;
        }
        let written = bytes(call, 1)?.get(..usize::try_from(returned).ok()?)?;
        let at = word(call, 3)?.parse().ok()?;
        self.wrote(call, &target, at, written)
    }

    fn wrote(&mut self, call: &Call, target: &Path, at: usize, bytes: &[u8]) -> Done {
        let end = at + bytes.len();
        let (position, len) = self.positions.entry(self.placed(target)?).or_default();
        *len = end.max(*len);
        if call.name == "write" {
            *position = end;
        }
        let bytes = bytes.to_vec();
        self.change(call, target, Change::Write { at, bytes })
    }

    fn set_len(&mut self, call: &Call, target: Option<PathBuf>) -> Done {
        let Some(placed) = target.as_ref().and_then(|path| self.placed(path)) else {
            return NOTHING;
        };
        let len = word(call, 1)?.parse().ok()?;
        self.positions.entry(placed).or_default().1 = len;
        self.change(call, &target?, Change::SetLen(len))
    }

    fn sync(&mut self, call: &Call) -> Done {
        let Some(target) = descriptor(call, 0) else {
            return NOTHING;
        };
        let before = call.begun;
        self.change(call, &target, Change::Sync { before })
    }

    fn rename(&mut self, call: &Call, from: &Path, to: &Path) -> Done {
        let (Some(old), Some(new)) = (self.placed(from), self.placed(to)) else {
            return NOTHING;
        };
        if old.parent() != new.parent() {
            return None;
        }
        let place = self.positions.remove(&old).unwrap_or_default();
        self.positions.insert(new, place);
        self.change(call, from, Change::Rename(to.file_name()?.to_owned()))
    }

    fn map(&mut self, call: &Call) -> Done {
        let is_shared = word(call, 3).is_some_and(|flags| flags.contains("MAP_SHARED"));
        let is_written = word(call, 2).is_some_and(|how| how.contains("PROT_WRITE"));
        let target = descriptor(call, 4).and_then(|path| self.placed(&path));
        if let Some(target) = target.filter(|_| is_shared && is_written) {
            self.recording.mapped.insert(target);
        }
        NOTHING
    }

    /// A call that may be made on any file but one of the disk.
    fn elsewhere(&self, call: &Call) -> Done {
        let is_here = call.arguments.iter().any(|argument| match argument {
            Argument::Bytes(it) | Argument::Descriptor(it) => {
                Path::new(OsStr::from_bytes(it)).starts_with(self.place)
            }
            Argument::Word(_) => false,
        });
        if is_here { None } else { NOTHING }
    }
}

/// A socket has no content. It is bound by another path than its own, so the trace does not show
/// that it is made.
fn is_socket(path: &Path) -> bool {
    path.extension().is_some_and(|it| it == "sock")
}

fn path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes.to_vec()))
}

fn bytes(call: &Call, index: usize) -> Option<&[u8]> {
    match call.arguments.get(index)? {
        Argument::Bytes(bytes) => Some(bytes),
        Argument::Descriptor(_) | Argument::Word(_) => None,
    }
}

fn word(call: &Call, index: usize) -> Option<&str> {
    match call.arguments.get(index)? {
        Argument::Word(word) => Some(word),
        Argument::Bytes(_) | Argument::Descriptor(_) => None,
    }
}

fn descriptor(call: &Call, index: usize) -> Option<PathBuf> {
    match call.arguments.get(index)? {
        Argument::Descriptor(target) => Some(path(target)),
        Argument::Bytes(_) | Argument::Word(_) => None,
    }
}

/// A path that begins at the folder of a descriptor.
fn at(call: &Call, index: usize) -> Option<PathBuf> {
    let folder = descriptor(call, index).unwrap_or_default();
    Some(folder.join(path(bytes(call, index + 1)?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace;

    fn hexed(text: &str) -> String {
        text.bytes().map(|byte| format!("\\x{byte:02x}")).collect()
    }

    /// A trace in which what stands in backquotes is in hexadecimal.
    fn record(text: &str) -> Result<Recording, String> {
        let parts = text.split('`').enumerate();
        let text: String = parts
            .map(|(index, part)| match index % 2 {
                0 => part.to_owned(),
                _ => hexed(part),
            })
            .collect();
        of(
            &trace::read(&text).unwrap(),
            Path::new("/p"),
            Path::new("/t"),
        )
    }

    #[test]
    fn plain_writes_follow_each_other_and_facts_count_from_their_beginning() {
        let recording = record(concat!(
            "1 openat(AT_FDCWD<`/`>, \"`/p/a`\", O_RDWR|O_CREAT, 0600) = 3<`/p/a`>\n",
            "1 write(3<`/p/a`>, \"`xy`\", 2) = 2\n",
            "1 write(3<`/p/a`>, \"`zz`\", 2 <unfinished ...>\n",
            "2 write(4<`/t/fact`>, \"`yes`\", 3 <unfinished ...>\n",
            "1 <... write resumed>) = 1\n",
            "2 <... write resumed>) = 3\n",
        ));
        let events = recording.unwrap().events;
        let written = |at, bytes: &[u8]| {
            let bytes = bytes.to_vec();
            What::Changed("a".into(), Change::Write { at, bytes })
        };
        assert_eq!(events[1].what, written(0, b"xy"));
        assert_eq!(events[2].what, What::Told("fact".into(), b"yes".to_vec()));
        assert_eq!(events[3].what, written(2, b"z"));
    }

    #[test]
    fn a_sync_counts_from_its_beginning_and_is_there_at_its_end() {
        let recording = record(concat!(
            "1 mkdir(\"`/p/d`\", 0700) = 0\n",
            "1 fsync(3<`/p/d`> <unfinished ...>\n",
            "2 mkdir(\"`/p/d/e`\", 0700) = 0\n",
            "1 <... fsync resumed>) = 0\n",
        ));
        let events = recording.unwrap().events;
        assert_eq!(events[2].at, 3);
        let sync = Change::Sync { before: 1 };
        assert_eq!(events[2].what, What::Changed("d".into(), sync));
    }

    #[test]
    fn what_a_trace_cannot_show_is_told() {
        let opened = "1 openat(AT_FDCWD<`/`>, \"`/p/a`\", O_RDWR|O_CREAT, 0600) = 3<`/p/a`>\n";
        let map =
            "1 mmap(NULL, 4096, PROT_READ|PROT_WRITE, MAP_SHARED, 3<`/p/a`>, 0) = 0x7f23f9000000\n";
        let recording = record(&format!("{opened}{map}")).unwrap();
        assert_eq!(recording.mapped, BTreeSet::from([PathBuf::from("a")]));
        let allocate = "1 fallocate(3<`/p/a`>, 0, 0, 4096) = 0\n";
        assert!(record(&format!("{opened}{allocate}")).is_err());
        assert!(record("1 fallocate(3<`/q/a`>, 0, 0, 4096) = 0\n").is_ok());
    }
}
