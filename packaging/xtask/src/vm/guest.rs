//! The guests: what each is made of, and the disk it starts from, kept by the hash of that recipe.
//!
//! The scripts that make a root a guest are in `tests/vm/image`; `machine` starts what is made here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

use crate::tool::{Failure, read_file, root, run};

/// A Debian with its kernel.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Guest {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    suite: &'static str,
    kernel: &'static str,
    /// Further sources of packages, as lines of sources.list.
    sources: &'static [&'static str],
    /// Options of apt.
    options: &'static [&'static str],
}

/// From old to new; the first is what is taken unless somebody says otherwise.
pub(crate) const GUESTS: [Guest; 3] = [
    Guest {
        name: "bookworm",
        about: "Debian 12, kernel 6.1",
        suite: "bookworm",
        kernel: "linux-image-cloud-amd64",
        sources: &[],
        options: &[],
    },
    Guest {
        name: "trixie",
        about: "Debian 13, kernel 6.12",
        suite: "trixie",
        kernel: "linux-image-cloud-amd64",
        sources: &[],
        options: &[],
    },
    Guest {
        name: "newest",
        about: "Debian unstable with the newest kernel that Debian has",
        suite: "sid",
        kernel: "linux-image-cloud-amd64",
        sources: &[],
        options: &[],
    },
];

/// What every guest has besides its kernel: a service manager, sessions, a manager for the ordinary user, and the programs
/// that the suites ask for.
const PACKAGES: &str =
    "systemd,systemd-sysv,dbus-user-session,libpam-systemd,udev,util-linux,procps";

/// Options of apt for every guest. A mirror may stand still longer than its files claim to be valid.
const APT_OPTIONS: [&str; 2] = [
    "Acquire::Check-Valid-Until \"false\"",
    "Acquire::Retries \"3\"",
];

/// The scripts of the recipe, from the top of the work tree.
const SCRIPTS: &str = "tests/vm/image";

/// A guest that is ready to be started.
#[derive(Debug)]
pub(crate) struct Image {
    folder: PathBuf,
}

impl Image {
    pub(crate) fn disk(&self) -> PathBuf {
        self.folder.join("root.img")
    }

    pub(crate) fn kernel(&self) -> PathBuf {
        self.folder.join("vmlinuz")
    }

    pub(crate) fn initial_file_system(&self) -> PathBuf {
        self.folder.join("initrd")
    }

    /// The version of its C library, as getconf(1) says it: `glibc 2.36`.
    pub(crate) fn libc(&self) -> Result<String, Failure> {
        let path = self.folder.join("libc");
        fs::read_to_string(&path).map_err(|source| Failure::File { path, source })
    }
}

/// The guest of that name.
pub(crate) fn named(name: &str) -> Option<&'static Guest> {
    GUESTS.iter().find(|guest| guest.name == name)
}

impl Guest {
    /// The image below `cache`, made now when there is none of this very recipe. Older ones of the guest are removed.
    pub(crate) fn image(&self, cache: &Path) -> Result<Image, Failure> {
        let folder = cache.join(format!("{}-{}", self.name, self.recipe_hash()?));
        if !folder.is_dir() {
            self.remove_images(cache)?;
            self.make(cache, &folder)?;
        }
        Ok(Image { folder })
    }

    /// Everything that the image depends on, hashed; what the mirror has that day is not among it.
    fn recipe_hash(&self) -> Result<String, Failure> {
        let mut hash = Sha256::new();
        hash.update(format!("{self:?}{PACKAGES}{APT_OPTIONS:?}"));
        for script in scripts()? {
            hash.update(script.as_os_str().as_encoded_bytes());
            hash.update(read_file(&script)?);
        }
        let digest = hash.finalize();
        let hex = digest[..6].iter().map(|byte| format!("{byte:02x}"));
        Ok(hex.collect())
    }

    /// mmdebstrap leaves nothing but what its hook puts aside, and that takes its name when it is whole.
    fn make(&self, cache: &Path, folder: &Path) -> Result<(), Failure> {
        let draft = temporary_folder(cache)?;
        let scripts = root().join(SCRIPTS);
        let hook = |name: &str| {
            format!(
                "'{}' \"$1\" '{}'",
                scripts.join(name).display(),
                draft.path().display()
            )
        };
        let mut make = Command::new("mmdebstrap");
        make.args(["--quiet", "--variant=minbase", "--format=null"])
            .arg(format!("--include={PACKAGES},{}", self.kernel))
            .arg(format!("--essential-hook={}", hook("before")))
            .arg(format!("--customize-hook={}", hook("after")));
        for option in APT_OPTIONS.iter().chain(self.options) {
            make.arg(format!("--aptopt={option}"));
        }
        make.arg(self.suite).arg("/dev/null");
        if !self.sources.is_empty() {
            make.arg("http://deb.debian.org/debian").args(self.sources);
        }
        // Its own temporary folder, too: a root of some hundred megabytes.
        make.env("TMPDIR", draft.path());
        run(&mut make)?;
        fs::rename(draft.path(), folder).map_err(at(folder))
    }

    fn remove_images(&self, cache: &Path) -> Result<(), Failure> {
        let ours = format!("{}-", self.name);
        for entry in fs::read_dir(cache).map_err(at(cache))? {
            let entry = entry.map_err(at(cache))?;
            if entry.file_name().to_string_lossy().starts_with(&ours) {
                let path = entry.path();
                fs::remove_dir_all(&path).map_err(at(&path))?;
            }
        }
        Ok(())
    }
}

/// A folder for what is temporary. It names its process; what is left of one that was killed is removed by the next.
pub(super) fn temporary_folder(cache: &Path) -> Result<tempfile::TempDir, Failure> {
    for entry in fs::read_dir(cache).map_err(at(cache))? {
        let path = entry.map_err(at(cache))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let owner = name
            .strip_prefix(TEMPORARY)
            .and_then(|rest| rest.split('-').next());
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            fs::remove_dir_all(&path).map_err(at(&path))?;
        }
    }
    let mut folder = tempfile::Builder::new();
    let prefix = format!("{TEMPORARY}{}-", std::process::id());
    folder.prefix(&prefix).tempdir_in(cache).map_err(at(cache))
}

/// How the names of temporary folders begin.
const TEMPORARY: &str = "tmp-";

/// The scripts by name, in an order of their own.
fn scripts() -> Result<Vec<PathBuf>, Failure> {
    let folder = root().join(SCRIPTS);
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).map_err(at(&folder))? {
        names.push(Path::new(SCRIPTS).join(entry.map_err(at(&folder))?.file_name()));
    }
    names.sort();
    Ok(names)
}

/// The failure of something that concerns this path.
pub(super) fn at(path: &Path) -> impl FnOnce(std::io::Error) -> Failure {
    let path = path.to_path_buf();
    move |source| Failure::File { path, source }
}
