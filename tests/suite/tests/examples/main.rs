//! The clients in `examples/`, as a reader would run them, against a real arbiter.
//!
//! What each needs of the host is in docs/testing.md; a test says which client it could not try.

mod ends;
mod output;
mod sharing;

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use xioflow_kit::{Run, Stage, running_as_root};

/// Names a folder in which npm has installed the TypeScript compiler and the types of Node.
const TYPESCRIPT_VARIABLE: &str = "XIOFLOW_TEST_TYPESCRIPT";

/// A client that can be tried here: an interpreter and what it interprets.
struct Client {
    interpreter: &'static str,
    source: PathBuf,
}

impl Client {
    /// A run of it in the stage, with options of its own before `--` and the command.
    fn run<'a, S: AsRef<OsStr>>(
        &self,
        stage: &'a Stage,
        options: &[&str],
        command: &[S],
    ) -> Run<'a> {
        let run = stage.run(self.interpreter).arg(self.installed(stage));
        run.args(options).arg("--").args(command)
    }

    /// Where the stage's user can read it.
    fn installed(&self, stage: &Stage) -> PathBuf {
        let name = self.source.file_name().expect("a file has a name");
        let content = fs::read(&self.source).expect("the client can be read");
        stage.write(name.to_str().expect("an ASCII name"), content, 0o644)
    }
}

/// Tries every client that this host has an interpreter for, each in a stage with an arbiter.
fn each_client(test: impl Fn(&Stage, &Client)) {
    for client in clients() {
        test(&served(Stage::new()), &client);
    }
}

/// The same and, as root, a second time as an ordinary user.
fn each_client_and_user(test: impl Fn(&Stage, &Client)) {
    each_client(&test);
    if running_as_root() {
        for client in clients() {
            test(&served(Stage::ordinary()), &client);
        }
    }
}

fn clients() -> impl Iterator<Item = Client> {
    [python(), typescript()].into_iter().flatten()
}

/// Has an arbiter serve the stage's domain, as a first `xioflow run` does.
fn served(stage: Stage) -> Stage {
    let run = stage.xioflow().args(["run", "--", "true"]).finish();
    run.assert_code(0);
    assert_eq!(stage.arbiters().len(), 1, "`xioflow run` starts an arbiter");
    stage
}

fn python() -> Option<Client> {
    let source = source("python/client.py");
    is_here("python3", "python3").then_some(Client {
        interpreter: "python3",
        source,
    })
}

fn typescript() -> Option<Client> {
    static COMPILED: OnceLock<Option<PathBuf>> = OnceLock::new();
    if !is_here("node", "Node, for the TypeScript client") {
        return None;
    }
    let compiled = COMPILED.get_or_init(|| Some(compile(&env::var_os(TYPESCRIPT_VARIABLE)?)));
    let source = compiled.clone().or_else(|| {
        skipped(&format!(
            "the TypeScript compiler, in a folder that {TYPESCRIPT_VARIABLE} names"
        ));
        None
    })?;
    let interpreter = "node";
    Some(Client {
        interpreter,
        source,
    })
}

/// Compiles the client as its README says.
fn compile(installed: &OsStr) -> PathBuf {
    let (stage, folder) = (Stage::new(), Path::new(env!("CARGO_TARGET_TMPDIR")));
    let modules = Path::new(installed).join("node_modules");
    let compiler = stage.run("node").arg(modules.join("typescript/bin/tsc"));
    let compiler = compiler.args(["--strict", "--noEmitOnError", "--target", "es2022"]);
    let compiler = compiler.args(["--module", "commonjs", "--types", "node", "--typeRoots"]);
    let compiler = compiler.arg(modules.join("@types")).arg("--outDir");
    let source = source("typescript/client.ts");
    let compiled = compiler.arg(folder).arg(source).finish();
    compiled.assert_code(0).assert_stdout("");
    folder.join("client.js")
}

fn source(name: &str) -> PathBuf {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    top.expect("the suite is two below the top")
        .join("examples")
        .join(name)
}

/// Whether a program is where commands of a stage find it.
fn is_here(program: &str, wanted: &str) -> bool {
    let stage = Stage::new();
    let look = format!("command -v {program} >/dev/null");
    let here = stage.run("sh").args(["-c", &look]).finish();
    if !here.status.success() {
        skipped(wanted);
    }
    here.status.success()
}

#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn skipped(wanted: &str) {
    eprintln!("skipped in part: needs {wanted}");
}

/// The words of a script of sh(1).
fn shell(script: &str) -> [&str; 3] {
    ["sh", "-c", script]
}

/// A path that is known to be text.
fn text(path: &Path) -> &str {
    path.to_str().expect("an ASCII path")
}

/// What a client says at the end.
fn facts(id: &str, status: &str, exit_code: &str) -> String {
    format!("client: {id}: status {status}, exitCode {exit_code}, treeSettlement empty\n")
}
