//! A disk that can lose power: what of the changes made to it is there for certain, what may be,
//! and the trees that may be found afterwards. Pure.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Component, Path, PathBuf};

use xioflow_kit::Chance;

/// A change, by the path that the file has at that moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A new folder.
    MakeFolder,
    /// A new, empty file.
    MakeFile,
    /// Bytes at an offset.
    Write {
        /// The offset.
        at: usize,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Another length.
    SetLen(usize),
    /// Another name in the same folder, in the place of what had it.
    Rename(OsString),
    /// No name any more.
    Remove,
    /// What had been done before this moment to the file's content, or to the names in the
    /// folder, is on the disk.
    Sync {
        /// The moment.
        before: usize,
    },
}

/// What of the changes that are not synced a power failure leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Survival {
    /// Nothing.
    Nothing,
    /// All, as after the end of the processes alone.
    Everything,
    /// All names, and no content: files that are there and empty.
    Names,
    /// All content, and no names.
    Content,
    /// Each piece of this many bytes, and each name, by chance.
    Torn {
        /// Length of a piece.
        piece: usize,
        /// What chance begins with.
        seed: u64,
    },
}

/// What a path leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// A file's content.
    File(Vec<u8>),
    /// A folder's entries.
    Folder(Tree),
}

/// A folder's entries by name.
pub type Tree = BTreeMap<OsString, Found>;

/// Each file of a tree with its length and a hash, each folder with its name alone: what trees
/// are compared by, and told apart by people.
#[must_use]
pub fn outline(tree: &Tree) -> BTreeMap<PathBuf, String> {
    let mut lines = BTreeMap::new();
    for (name, found) in tree {
        let path = PathBuf::from(name);
        match found {
            Found::File(content) => {
                let mut hasher = DefaultHasher::new();
                content.hash(&mut hasher);
                let line = format!("{} bytes, {:016x}", content.len(), hasher.finish());
                lines.insert(path, line);
            }
            Found::Folder(inside) => {
                let inside = outline(inside).into_iter();
                lines.extend(inside.map(|(below, line)| (path.join(below), line)));
                lines.insert(path, "folder".to_owned());
            }
        }
    }
    lines
}

/// A place in [`Disk::nodes`].
type Id = usize;

/// The disk, from one folder on that is there for certain.
#[derive(Debug, Clone)]
pub struct Disk {
    nodes: Vec<Node>,
}

#[derive(Debug, Clone)]
enum Node {
    File(File),
    Folder(Folder),
}

#[derive(Debug, Clone, Default)]
struct File {
    synced: Vec<u8>,
    pending: Vec<(usize, Edit)>,
}

#[derive(Debug, Clone)]
enum Edit {
    Write { at: usize, bytes: Vec<u8> },
    SetLen(usize),
}

#[derive(Debug, Clone, Default)]
struct Folder {
    synced: BTreeMap<OsString, Id>,
    pending: Vec<(usize, Entry)>,
}

#[derive(Debug, Clone)]
enum Entry {
    Put(OsString, Id),
    Move(OsString, OsString, Id),
    Take(OsString, Id),
}

const ROOT: Id = 0;

impl Default for Disk {
    fn default() -> Self {
        Self {
            nodes: vec![Node::Folder(Folder::default())],
        }
    }
}

impl Disk {
    /// Makes a change at a moment. Paths begin at the folder that is there.
    ///
    /// # Errors
    /// Says what makes no sense: the programs cannot have done that.
    pub fn apply(&mut self, moment: usize, path: &Path, change: &Change) -> Result<(), String> {
        let nonsense = |why: &str| format!("{change:?} of {}: {why}", path.display());
        match change {
            Change::MakeFolder => self.put(moment, path, Node::Folder(Folder::default())),
            Change::MakeFile => self.put(moment, path, Node::File(File::default())),
            Change::Write { at, bytes } => {
                let (at, bytes) = (*at, bytes.clone());
                self.edit(moment, path, Edit::Write { at, bytes })
            }
            Change::SetLen(len) => self.edit(moment, path, Edit::SetLen(*len)),
            Change::Rename(_) | Change::Remove => self.rename(moment, path, change),
            Change::Sync { before } => {
                let id = self.find(path);
                id.map(|id| self.nodes[id].sync(*before))
            }
        }
        .ok_or_else(|| nonsense("there is nothing of the kind"))
    }

    /// Whether there is something at a path, for the processes.
    #[must_use]
    pub fn has(&self, path: &Path) -> bool {
        self.find(path).is_some()
    }

    /// A tree that may be found after a power failure at this moment.
    #[must_use]
    pub fn after(&self, survival: Survival) -> Tree {
        let seed = match survival {
            Survival::Torn { seed, .. } => seed,
            _ => 0,
        };
        self.tree(ROOT, survival, &mut Chance::of(seed))
    }

    /// The folder that a path lies in, and its name there.
    fn parent(&self, path: &Path) -> Option<(Id, OsString)> {
        Some((self.find(path.parent()?)?, path.file_name()?.to_owned()))
    }

    fn find(&self, path: &Path) -> Option<Id> {
        path.components().try_fold(ROOT, |at, part| match part {
            Component::Normal(name) => self.folder(at)?.now().get(name).copied(),
            Component::CurDir => Some(at),
            _ => None,
        })
    }

    fn folder(&self, id: Id) -> Option<&Folder> {
        match &self.nodes[id] {
            Node::Folder(folder) => Some(folder),
            Node::File(_) => None,
        }
    }

    fn put(&mut self, moment: usize, path: &Path, node: Node) -> Option<()> {
        let (folder, name) = self.parent(path)?;
        self.nodes.push(node);
        self.enter(moment, folder, Entry::Put(name, self.nodes.len() - 1))
    }

    fn rename(&mut self, moment: usize, path: &Path, change: &Change) -> Option<()> {
        let id = self.find(path)?;
        let (folder, name) = self.parent(path)?;
        let entry = match change {
            Change::Rename(to) => Entry::Move(name, to.clone(), id),
            _ => Entry::Take(name, id),
        };
        self.enter(moment, folder, entry)
    }

    fn enter(&mut self, moment: usize, folder: Id, entry: Entry) -> Option<()> {
        match &mut self.nodes[folder] {
            Node::Folder(folder) => folder.pending.push((moment, entry)),
            Node::File(_) => return None,
        }
        Some(())
    }

    fn edit(&mut self, moment: usize, path: &Path, edit: Edit) -> Option<()> {
        let id = self.find(path)?;
        match &mut self.nodes[id] {
            Node::File(file) => file.pending.push((moment, edit)),
            Node::Folder(_) => return None,
        }
        Some(())
    }

    fn tree(&self, id: Id, survival: Survival, chance: &mut Chance) -> Tree {
        let Some(folder) = self.folder(id) else {
            return Tree::new();
        };
        let entries = folder.after(survival, chance).into_iter();
        entries
            .map(|(name, id)| {
                let found = match &self.nodes[id] {
                    Node::File(file) => Found::File(file.after(survival, chance)),
                    Node::Folder(_) => Found::Folder(self.tree(id, survival, chance)),
                };
                (name, found)
            })
            .collect()
    }
}

impl Node {
    fn sync(&mut self, before: usize) {
        match self {
            Self::File(file) => {
                for edit in taken(&mut file.pending, before) {
                    edit.apply(&mut file.synced);
                }
            }
            Self::Folder(folder) => {
                for entry in taken(&mut folder.pending, before) {
                    entry.apply(&mut folder.synced);
                }
            }
        }
    }
}

/// Takes out what was done before a moment.
fn taken<T>(pending: &mut Vec<(usize, T)>, before: usize) -> Vec<T> {
    let later = pending.iter().position(|(moment, _)| *moment >= before);
    let rest = pending.split_off(later.unwrap_or(pending.len()));
    let done = std::mem::replace(pending, rest);
    done.into_iter().map(|(_, change)| change).collect()
}

impl File {
    fn after(&self, survival: Survival, chance: &mut Chance) -> Vec<u8> {
        let mut content = self.synced.clone();
        for (_, edit) in &self.pending {
            match survival {
                Survival::Nothing | Survival::Names => {}
                Survival::Everything | Survival::Content => edit.apply(&mut content),
                Survival::Torn { piece, .. } => edit.apply_in_part(&mut content, piece, chance),
            }
        }
        content
    }
}

impl Edit {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::Write { at, bytes } => write(content, *at, bytes),
            Self::SetLen(len) => content.resize(*len, 0),
        }
    }

    /// Pieces end where sectors of the disk end.
    fn apply_in_part(&self, content: &mut Vec<u8>, piece: usize, chance: &mut Chance) {
        let Self::Write { at, bytes } = self else {
            if chance.flip() {
                self.apply(content);
            }
            return;
        };
        let (mut at, mut rest) = (*at, bytes.as_slice());
        while !rest.is_empty() {
            let len = rest.len().min(piece - at % piece);
            if chance.flip() {
                write(content, at, &rest[..len]);
            }
            (at, rest) = (at + len, &rest[len..]);
        }
    }
}

fn write(content: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    let end = at + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[at..end].copy_from_slice(bytes);
}

impl Folder {
    /// What the processes see in it.
    fn now(&self) -> BTreeMap<OsString, Id> {
        self.after(Survival::Everything, &mut Chance::of(0))
    }

    fn after(&self, survival: Survival, chance: &mut Chance) -> BTreeMap<OsString, Id> {
        let mut entries = self.synced.clone();
        for (_, entry) in &self.pending {
            let survives = match survival {
                Survival::Nothing | Survival::Content => false,
                Survival::Everything | Survival::Names => true,
                Survival::Torn { .. } => chance.flip(),
            };
            if survives {
                entry.apply(&mut entries);
            }
        }
        entries
    }
}

impl Entry {
    /// One that a lost one should have come before does what is left of it.
    fn apply(&self, entries: &mut BTreeMap<OsString, Id>) {
        match self {
            Self::Put(name, id) => {
                entries.insert(name.clone(), *id);
            }
            Self::Move(from, to, id) => {
                if entries.get(from) == Some(id) {
                    entries.remove(from);
                }
                entries.insert(to.clone(), *id);
            }
            Self::Take(name, id) => {
                if entries.get(name) == Some(id) {
                    entries.remove(name);
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "disk_tests.rs"]
mod tests;
