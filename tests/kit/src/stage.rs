//! One test's world, and the check at its end.

use std::collections::hash_map::RandomState;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use rustix::process::Signal;

use crate::delegated;
use crate::leftovers::{self, Leftover};
use crate::run::Run;
use crate::wait::{self, Deadline, SLOW_VARIABLE};

/// The variable that marks every process of a stage.
const NONCE_VARIABLE: &str = "XIOFLOW_TEST_NONCE";
/// Names the folder of the programs under test, when they are not beside the test itself.
pub const BIN_DIR_VARIABLE: &str = "XIOFLOW_TEST_BIN_DIR";
/// After how long an arbiter ends that a stage could not end, because its test was killed.
const ARBITER_IDLE: &str = "20s";
/// `nobody` on every distribution.
pub(crate) const ORDINARY_ID: u32 = 65534;
/// The project's programs that a stage has, where they are built.
pub const PROGRAMS: [&str; 5] = [
    "xioflow",
    "xioflow-reaper",
    "xioflow-fixture",
    "xioflow-false-helper",
    "xioflow-lacking-helper",
];

/// A private folder, the project's programs, a hermetic environment, and a check on drop that
/// no process, mount, control group or file of it is left.
#[derive(Debug)]
pub struct Stage {
    root: PathBuf,
    nonce: String,
    ordinary: bool,
    watched: Mutex<Vec<u32>>,
    groups: Mutex<Vec<PathBuf>>,
}

impl Stage {
    /// A stage for the user who runs the tests.
    ///
    /// # Panics
    /// When the folder cannot be made or a program is missing.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "a stage is an act, not a value")]
    pub fn new() -> Self {
        Self::set_up(false)
    }

    /// A stage for a user without any privilege: `nobody` when the tests run as root, else the
    /// one who runs them.
    ///
    /// # Panics
    /// As [`Stage::new`].
    #[must_use]
    pub fn ordinary() -> Self {
        Self::set_up(running_as_root())
    }

    fn set_up(ordinary: bool) -> Self {
        let root = tempfile::Builder::new()
            .prefix("xioflow-test-")
            .tempdir()
            .expect("a folder")
            .keep();
        let nonce = format!(
            "{NONCE_VARIABLE}={:016x}",
            RandomState::new().build_hasher().finish()
        );
        let stage = Self {
            root,
            nonce,
            ordinary,
            watched: Mutex::default(),
            groups: Mutex::default(),
        };
        for folder in ["bin", "home", "tmp", "work"] {
            fs::create_dir(stage.root().join(folder)).expect("a folder in the stage");
        }
        stage.install_programs();
        if ordinary {
            stage.hand_over();
        }
        stage
    }

    /// Links the programs into the stage, so that what runs from it can be told by its path and
    /// an ordinary user can reach it wherever the build is.
    fn install_programs(&self) {
        let built = bin_dir();
        for name in PROGRAMS {
            let (from, to) = (built.join(name), self.program_path(name));
            if !from.exists() {
                continue;
            }
            fs::hard_link(&from, &to)
                .or_else(|_| fs::copy(&from, &to).map(drop))
                .unwrap_or_else(|error| panic!("install {}: {error}", from.display()));
        }
    }

    fn hand_over(&self) {
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(self.root(), mode).expect("chmod of the stage");
        for name in ["", "home", "tmp", "work"] {
            chown(self.root().join(name), Some(ORDINARY_ID), Some(ORDINARY_ID))
                .expect("chown in the stage");
        }
    }

    /// The folder of everything.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A path in the folder where commands start.
    #[must_use]
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.root().join("work").join(name)
    }

    /// The domain that commands of this stage use unless told otherwise.
    #[must_use]
    pub fn domain(&self) -> PathBuf {
        self.root().join("domain")
    }

    /// Writes a file that the stage's user may read and write.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>, mode: u32) -> PathBuf {
        let path = self.path(name);
        if mode & 0o111 == 0 {
            fs::write(&path, content).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        } else {
            write_elsewhere(&path, content.as_ref());
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("chmod");
        self.give_to_user(&path);
        path
    }

    /// Makes a folder that belongs to the stage's user.
    ///
    /// # Panics
    /// When it cannot be made.
    pub fn folder(&self, name: impl AsRef<Path>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        self.give_to_user(&path);
        path
    }

    /// Makes the stage's user the owner of a path.
    ///
    /// # Panics
    /// When that is refused.
    pub fn give_to_user(&self, path: &Path) {
        if let Some(id) = self.user_id() {
            chown(path, Some(id), Some(id)).expect("chown in the stage");
        }
    }

    /// The path of one of the project's programs, which must have been built.
    ///
    /// # Panics
    /// When it is not there, with the command that builds it.
    #[must_use]
    pub fn program(&self, name: &str) -> PathBuf {
        let path = self.program_path(name);
        assert!(
            path.exists(),
            "{name} is not built in {}; run the tests by `cargo xtask test`, or set \
             {BIN_DIR_VARIABLE} to the folder that holds it",
            bin_dir().display()
        );
        path
    }

    fn program_path(&self, name: &str) -> PathBuf {
        self.root().join("bin").join(name)
    }

    /// The fixture's path.
    #[must_use]
    pub fn fixture(&self) -> PathBuf {
        self.program("xioflow-fixture")
    }

    /// A run of `xioflow` with this stage's domain.
    pub fn xioflow(&self) -> Run<'_> {
        self.run(self.program("xioflow"))
    }

    /// A run of any program in this stage's environment.
    pub fn run(&self, program: impl Into<OsString>) -> Run<'_> {
        Run::new(self, program.into(), self.user_id())
    }

    /// The same with the privileges of whoever runs the tests, also where the stage's user has none: for a
    /// program that first makes a world and then becomes that user in it.
    pub fn run_privileged(&self, program: impl Into<OsString>) -> Run<'_> {
        Run::new(self, program.into(), None)
    }

    /// Every variable that a process of this stage is given.
    ///
    /// # Panics
    /// If the stage was made without its mark, which it is not.
    #[must_use]
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        let (name, value) = self
            .nonce
            .split_once('=')
            .expect("the nonce is an assignment");
        let root = self.root();
        let mut variables = vec![
            (name.into(), value.into()),
            ("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into()),
            ("HOME".into(), root.join("home").into()),
            ("TMPDIR".into(), root.join("tmp").into()),
            ("LANG".into(), "C.UTF-8".into()),
            ("XIOFLOW_DOMAIN".into(), self.domain().into()),
            ("XIOFLOW_ARBITER_IDLE".into(), ARBITER_IDLE.into()),
        ];
        // For tests whose parts are processes of the test program itself.
        variables.extend(env::var_os(SLOW_VARIABLE).map(|factor| (SLOW_VARIABLE.into(), factor)));
        variables
    }

    /// The user that runs of this stage become, if another than the one who runs the tests.
    #[must_use]
    pub fn user_id(&self) -> Option<u32> {
        self.ordinary.then_some(ORDINARY_ID)
    }

    /// Whether what runs in this stage has root's privileges.
    #[must_use]
    pub fn is_privileged(&self) -> bool {
        running_as_root() && !self.ordinary
    }

    /// Has the stage check at its end that this process is gone, too.
    ///
    /// # Panics
    /// Never in practice: only if another thread panicked inside this call.
    pub fn watch(&self, pids: &[u32]) {
        self.watched
            .lock()
            .expect("no panic inside")
            .extend_from_slice(pids);
    }

    /// Has the stage end what is in a control group and remove it, at its end.
    pub(crate) fn remove_group_at_end(&self, directory: &Path) {
        let mut groups = self.groups.lock().expect("no panic inside");
        groups.push(directory.to_owned());
    }

    /// The name of its folder, which no other stage has.
    pub(crate) fn unique_name(&self) -> String {
        let name = self.root.file_name().expect("the folder has a name");
        name.to_string_lossy().into_owned()
    }

    /// Waits for a fixture's ready file, and has the stage watch the pids in it.
    ///
    /// # Panics
    /// When it does not come in time.
    pub fn wait_ready(&self, ready: &Path) -> Vec<u32> {
        wait::file(ready, Deadline::usual());
        let pids = fixture_pids(ready);
        self.watch(&pids);
        pids
    }

    /// The processes that this stage has caused and that live now, as text. An arbiter is none of them:
    /// it waits for clients, and the stage ends it.
    #[must_use]
    pub fn living(&self) -> Vec<String> {
        let found = leftovers::scan(&self.nonce, self.root());
        let besides = found.iter().filter(|one| !one.is_arbiter());
        besides.map(ToString::to_string).collect()
    }

    /// The arbiters of this stage's domains that live now.
    #[must_use]
    pub fn arbiters(&self) -> Vec<u32> {
        let found = leftovers::scan(&self.nonce, self.root());
        let arbiters = found.iter().filter(|one| one.is_arbiter());
        let pids: Vec<u32> = arbiters.map(|one| one.pid).collect();
        // A child that has not executed its own program yet looks like its parent.
        let is_copy = |pid: &u32| wait::parent(*pid).is_some_and(|it| pids.contains(&it));
        pids.iter().copied().filter(|pid| !is_copy(pid)).collect()
    }

    /// Ends the arbiters of this stage's domains as a service manager would, and waits for it.
    ///
    /// # Panics
    /// When one does not end.
    pub fn end_arbiters(&self) {
        let arbiters = self.arbiters();
        for &pid in &arbiters {
            wait::signal(pid, Signal::TERM);
        }
        for pid in arbiters {
            assert!(
                wait::pid_gone(pid, Deadline::usual()),
                "the arbiter {pid} does not end on SIGTERM"
            );
        }
    }

    /// Waits until nothing that this stage has caused lives besides arbiters; false when the deadline
    /// passes first.
    #[must_use]
    pub fn wait_empty(&self, deadline: Deadline) -> bool {
        loop {
            // Who is found may have children before it goes, hence again until nobody is.
            let found = leftovers::scan(&self.nonce, self.root());
            let mut found = found.iter().filter(|one| !one.is_arbiter()).peekable();
            if found.peek().is_none() {
                return true;
            }
            if !found.all(|one| wait::pid_gone(one.pid, deadline)) {
                return false;
            }
        }
    }

    /// Kills everything that this stage has caused.
    pub(crate) fn kill_all(&self) {
        leftovers::kill(&leftovers::scan(&self.nonce, self.root()));
    }

    /// Waits for what is just ending, and says what does not. Commands come before arbiters, which would
    /// stop them and so hide that they were left; what an arbiter leaves itself is looked for after it.
    fn leftovers(&self) -> Vec<String> {
        let mut lasting = self.lasting(|one| !one.is_arbiter() && !one.is_helper());
        for pid in self.arbiters() {
            wait::signal(pid, Signal::TERM);
        }
        let known: Vec<u32> = lasting.iter().map(|one| one.pid).collect();
        lasting.extend(self.lasting(|one| !known.contains(&one.pid)));
        let mut names: Vec<_> = lasting.iter().map(|one| format!("process {one}")).collect();
        let watched = self.watched.lock().expect("no panic inside");
        let alive = watched.iter().filter(|pid| wait::is_alive(**pid));
        names.extend(alive.map(|pid| format!("process {pid} of a fixture")));
        names.extend(
            leftovers::mounts(self.root())
                .iter()
                .map(|point| format!("mount {point}")),
        );
        leftovers::kill(&lasting);
        let groups = self.groups.lock().expect("no panic inside");
        names.extend(groups.iter().flat_map(|group| delegated::remove(group)));
        names
    }
}

impl Stage {
    /// Those that are still there when what is under way has had its time.
    fn lasting(&self, counts: impl Fn(&Leftover) -> bool) -> Vec<Leftover> {
        let deadline = Deadline::after(Duration::from_secs(5));
        let scanned = leftovers::scan(&self.nonce, self.root());
        scanned
            .into_iter()
            .filter(|one| counts(one) && !wait::pid_gone(one.pid, deadline))
            .map(Leftover::named_again)
            .collect()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let mut left = self.leftovers();
        if let Err(error) = fs::remove_dir_all(&self.root) {
            left.push(format!("files in {} ({error})", self.root.display()));
        }
        if !std::thread::panicking() {
            assert!(left.is_empty(), "the test left behind: {}", left.join(", "));
        }
    }
}

/// Runs a test for the user who runs the tests and, when that is root, for an ordinary user too.
pub fn each_user(test: impl Fn(&Stage)) {
    test(&Stage::new());
    if running_as_root() {
        test(&Stage::ordinary());
    }
}

/// Writes a file in another process. A descriptor of this one, open for writing, would be in every
/// child that another test forks in that moment, and until that child has executed something, the
/// file cannot be (ETXTBSY).
fn write_elsewhere(path: &Path, content: &[u8]) {
    let mut writer = Command::new("/bin/sh")
        .args([
            OsStr::new("-c"),
            OsStr::new("cat >\"$0\""),
            path.as_os_str(),
        ])
        .stdin(Stdio::piped())
        .spawn()
        .expect("a shell starts");
    let mut input = writer.stdin.take().expect("piped");
    input.write_all(content).expect("the shell reads");
    drop(input);
    let status = writer.wait().expect("a child of ours can be waited for");
    assert!(status.success(), "{}: {status}", path.display());
}

/// The pids in a fixture's ready file, the first process first.
///
/// # Panics
/// When the file is not one.
#[must_use]
pub fn fixture_pids(ready: &Path) -> Vec<u32> {
    let text = fs::read_to_string(ready)
        .unwrap_or_else(|error| panic!("ready file {}: {error}", ready.display()));
    text.lines()
        .map(|line| line.parse().expect("a pid a line"))
        .collect()
}

/// Whether the tests run with an effective user id of 0.
#[must_use]
pub fn running_as_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Where the programs under test are: the folder that is named, else the profile's folder of
/// this very test (`target/<profile>/deps/<test>` is two below it). An example in documentation is
/// built elsewhere, so for it the workspace's own folder is looked at.
///
/// # Panics
/// When neither can be told.
#[must_use]
pub fn bin_dir() -> PathBuf {
    env::var_os(BIN_DIR_VARIABLE).map_or_else(
        || {
            profile_dir().unwrap_or_else(|error| {
                panic!("cannot tell where this test was built ({error}); set {BIN_DIR_VARIABLE}")
            })
        },
        PathBuf::from,
    )
}

fn profile_dir() -> io::Result<PathBuf> {
    let test = env::current_exe()?;
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    let folders = [
        test.ancestors().nth(2).map(Path::to_path_buf),
        workspace.map(|folder| folder.join("target/debug")),
    ];
    let holds_programs = |folder: &PathBuf| folder.join(PROGRAMS[0]).exists();
    folders
        .into_iter()
        .flatten()
        .find(holds_programs)
        .ok_or_else(|| io::Error::other("no program stands beside it or in the workspace"))
}
