//! The virtual machine: qemu with two disks, a console that is a log, and a port by which the guest speaks.
//!
//! It lives no longer than its deadline, nor than the process that has started it, and has no network.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::asked::Accel;
use super::guest::{Image, at};
use crate::tool::{Failure, read, run_through};

/// What emulates.
pub(super) const QEMU: &str = "qemu-system-x86_64";

/// Memory of the guest, in MiB: what the suites need beside a file system in memory.
const MEMORY_MIB: &str = "3072";

/// Seconds that a kernel has to come to its end under KVM: ten times what it takes.
const PROBE_SECONDS: &str = "10";

/// Words for the kernel of a guest: its console, and a panic that is the end.
const KERNEL_WORDS: &str = "console=ttyS0 panic=-1 mitigations=off quiet";

/// A guest to be started.
#[derive(Debug)]
pub(crate) struct Machine<'a> {
    pub(crate) image: &'a Image,
    /// The second disk.
    pub(crate) lane: &'a Path,
    /// Where the console is written.
    pub(crate) console: &'a Path,
    /// For what is temporary.
    pub(crate) folder: &'a Path,
    pub(crate) has_kvm: bool,
    /// After how long it is ended.
    pub(crate) seconds: u32,
}

impl Machine<'_> {
    /// Runs the guest to its end; `heard` gets each line that it says.
    pub(super) fn run(&self, mut heard: impl FnMut(&str)) -> Result<(), Failure> {
        let mut qemu = self.qemu(&["timeout", "--kill-after=10", &self.seconds.to_string()]);
        let console = format!("file,id=console,path={}", self.console.display());
        qemu.args(["-chardev", &console]);
        // Not as "stdio", which would take the end of our input for the end of the port.
        qemu.args(["-chardev", "file,id=results,path=/dev/stdout"]);
        qemu.stdin(Stdio::null());
        let ended = run_through(&mut qemu, |line| {
            heard(line);
            false
        });
        self.explain(ended)
    }

    /// Runs the guest with its console at our terminal.
    pub(super) fn run_shell(&self) -> Result<(), Failure> {
        let mut qemu = self.qemu(&[]);
        qemu.args([
            "-chardev",
            "stdio,id=console,signal=off",
            "-chardev",
            "null,id=results",
        ]);
        let status = qemu.status().map_err(at(Path::new(QEMU)))?;
        let ended = if status.success() {
            Ok(())
        } else {
            Err(Failure::Status {
                line: QEMU.to_owned(),
                status,
            })
        };
        self.explain(ended)
    }

    /// The machine without its two character devices. `timeout` stands before qemu; setpriv(1) sees to it that neither
    /// outlives us.
    fn qemu(&self, timeout: &[&str]) -> Command {
        let mut qemu = Command::new("setpriv");
        qemu.args(["--pdeathsig", "TERM"]).args(timeout).arg(QEMU);
        qemu.args(accelerator(self.has_kvm));
        qemu.args(["-smp", "2", "-m", MEMORY_MIB]).args(BARE);
        qemu.arg("-kernel").arg(self.image.kernel());
        qemu.arg("-initrd").arg(self.image.initial_file_system());
        qemu.args(["-append", &format!("root=/dev/vda rw {KERNEL_WORDS}")]);
        // What is written to the first disk is forgotten; the second one is thrown away.
        qemu.args([
            "-drive",
            &format!("{},snapshot=on", drive(&self.image.disk())),
        ]);
        qemu.args(["-drive", &drive(self.lane)]);
        qemu.args(["-serial", "chardev:console"]);
        qemu.args(["-device", "virtio-serial-pci"]);
        qemu.args([
            "-device",
            "virtserialport,chardev=results,name=xioflow.results",
        ]);
        qemu.env("TMPDIR", self.folder);
        qemu
    }

    fn explain(&self, ended: Result<(), Failure>) -> Result<(), Failure> {
        match ended {
            Err(Failure::Status { status, .. }) if status.code() == Some(TIMED_OUT) => Err(self
                .failure(format!(
                    "the guest has not turned itself off in {} s",
                    self.seconds
                ))),
            other => other,
        }
    }

    /// A failure of the guest as a whole.
    pub(super) fn failure(&self, what: String) -> Failure {
        Failure::Guest {
            what,
            console: self.console.to_path_buf(),
        }
    }
}

/// What timeout(1) exits with when the time was over.
const TIMED_OUT: i32 = 124;

/// No device that nobody asked for, and an end instead of a second start.
const BARE: [&str; 5] = ["-nodefaults", "-nographic", "-no-reboot", "-nic", "none"];

fn accelerator(has_kvm: bool) -> [&'static str; 6] {
    let accelerator = if has_kvm { "kvm" } else { "tcg,thread=multi" };
    ["-machine", "q35", "-accel", accelerator, "-cpu", "max"]
}

fn drive(image: &Path) -> String {
    format!("file={},format=raw,if=virtio,cache=unsafe", image.display())
}

/// Whether KVM is to be used. Where the device is there it is tried once, with the guest's kernel and nothing else: there are hosts
/// where it can be opened and no kernel comes up.
pub(super) fn has_kvm(asked: Accel, image: &Image, cache: &Path) -> Result<bool, Failure> {
    match asked {
        Accel::Kvm => return Ok(true),
        Accel::Tcg => return Ok(false),
        Accel::Auto => {}
    }
    let device = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/kvm");
    if device.is_err() {
        return Ok(false);
    }
    let remembered = remembered(cache)?;
    if !remembered.exists() {
        let answer = if probe(image) { "kvm" } else { "tcg" };
        println!("/dev/kvm was tried: {answer} it is");
        fs::write(&remembered, answer).map_err(at(&remembered))?;
    }
    let answer = fs::read(&remembered).map_err(at(&remembered))?;
    Ok(answer == b"kvm")
}

/// The file with the answer for this kernel and this qemu.
fn remembered(cache: &Path) -> Result<PathBuf, Failure> {
    let host = read(Command::new("uname").arg("-r"))?;
    let qemu = read(Command::new(QEMU).arg("--version"))?;
    let version = qemu.split_whitespace().nth(3).unwrap_or_default();
    Ok(cache.join(format!("accel-{}-{version}", host.trim())))
}

/// A kernel without any disk panics, which ends the machine.
fn probe(image: &Image) -> bool {
    let mut qemu = Command::new("setpriv");
    qemu.args([
        "--pdeathsig",
        "TERM",
        "timeout",
        "--kill-after=1",
        PROBE_SECONDS,
        QEMU,
    ]);
    qemu.args(accelerator(true)).args(["-m", "256"]).args(BARE);
    qemu.arg("-kernel").arg(image.kernel());
    qemu.args(["-append", KERNEL_WORDS]);
    qemu.stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    qemu.status().is_ok_and(|status| status.success())
}
