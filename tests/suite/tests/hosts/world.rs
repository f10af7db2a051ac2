//! Worlds to run in, made by unshare(1) around a stage: another `/proc`, other pids, fewer privileges.

use std::path::Path;

use serde_json::Value;
use xioflow_kit::{Run, Stage, running_as_root};

/// What a test says that needs a world and cannot make one.
pub(crate) const MISSING: &str =
    "skipped: needs root, and namespaces of its own for mounts and processes";

/// What stands at `/proc`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proc {
    /// Everybody is shown.
    Whole,
    /// Who may not be traced is not shown (`hidepid=2`).
    Hiding,
    /// Processes and nothing else (`subset=pid`).
    Processes,
    /// Nothing.
    Nothing,
}

/// A world in a mount and a pid namespace of its own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct World<'a> {
    stage: &'a Stage,
    proc: Proc,
    /// Whether what runs is process 1, as in most containers.
    is_first: bool,
    /// A capability that nobody has there.
    without: Option<&'static str>,
}

impl<'a> World<'a> {
    /// The world, or `None` where it cannot be made.
    pub(crate) fn new(stage: &'a Stage, proc: Proc) -> Option<Self> {
        let world = Self {
            stage,
            proc,
            is_first: false,
            without: None,
        };
        let made = || world.run("true", &[]).finish().status.success();
        (running_as_root() && made()).then_some(world)
    }

    /// The same, and what runs is process 1.
    pub(crate) const fn as_first(mut self) -> Self {
        self.is_first = true;
        self
    }

    /// The same without a capability.
    pub(crate) const fn without(mut self, capability: &'static str) -> Self {
        self.without = Some(capability);
        self
    }

    /// A run of a program as the stage's user.
    pub(crate) fn run(&self, program: impl AsRef<Path>, words: &[&str]) -> Run<'a> {
        let mount = match self.proc {
            Proc::Whole => "mount -t proc proc /proc",
            Proc::Hiding => "mount -t proc -o hidepid=2 proc /proc",
            Proc::Processes => "mount -t proc -o subset=pid proc /proc",
            Proc::Nothing => "mount -t tmpfs none /proc",
        };
        let begin = match self.is_first {
            true => "exec \"$@\"",
            false => "\"$@\"; exit $?",
        };
        let script = format!("{mount} && {begin}");
        let user = self.stage.user_id().unwrap_or(0).to_string();
        let capabilities = self.without.map(|name| format!("-{name}"));
        let bounds = capabilities
            .iter()
            .flat_map(|it| ["--bounding-set", it, "--inh-caps", it].map(str::to_owned));
        self.stage
            .run_privileged("unshare")
            .args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-c"])
            .args([&script, "sh", "setpriv", "--clear-groups"])
            .args(["--reuid", &user, "--regid", &user])
            .args(bounds)
            .arg(program.as_ref())
            .args(words)
    }

    /// The result of `xioflow run` without an arbiter.
    pub(crate) fn result(&self, options: &[&str], command: &[&str]) -> Value {
        let fixed = ["run", "--no-arbiter", "--json"];
        let words = [&fixed[..], options, &["--"], command].concat();
        let xioflow = self.stage.program("xioflow");
        self.run(xioflow, &words).finish().json()
    }

    /// What `xioflow doctor` finds.
    pub(crate) fn check(&self, id: &str) -> Value {
        let xioflow = self.stage.program("xioflow");
        let report = self.run(xioflow, &["doctor", "--json"]).finish().json();
        let checks = report["checks"].as_array().expect("checks");
        let found = checks.iter().find(|check| check["id"] == id);
        found
            .unwrap_or_else(|| panic!("no check {id} in {report:#}"))
            .clone()
    }
}

/// A path that is known to be text.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("an ASCII path")
}

/// Checks fields of a document, with the document in the message.
pub(crate) fn assert_fields(document: &Value, expected: &Value) {
    for (name, value) in expected.as_object().expect("fields to expect") {
        assert_eq!(&document[name], value, "{name} of {document:#}");
    }
}
