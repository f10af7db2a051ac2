//! The second disk: what the guest has to run, built here, stripped, and put onto a file system of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::guest::at;
use super::plan::{Programs, Suite};
use crate::tool::{Failure, cargo, line_of, read, root, run, target_dir};
use crate::verbs;

/// How the programs find the C library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Linking {
    /// The guest's own, which is not older than this host's.
    Dynamic,
    /// It is in them, because the guest's would be too old.
    Static,
}

/// A program of tests.
#[derive(Debug)]
pub(crate) struct TestProgram {
    path: PathBuf,
    name: String,
}

impl TestProgram {
    /// Where it is in the guest.
    pub(super) fn in_guest(&self) -> String {
        format!("/lane/tests/{}", self.name)
    }
}

/// What of the disk is not a program.
#[derive(Debug)]
pub(crate) struct Papers<'a> {
    pub(crate) plan: &'a str,
    /// Lines for the guest's shell, before anything runs.
    pub(crate) environment: &'a str,
    /// The place that a shell is asked for in.
    pub(crate) shell: Option<&'a str>,
}

/// Builds the programs of the product and the fixture, and says in which folder they are.
pub(super) fn build_programs(linking: Linking) -> Result<PathBuf, Failure> {
    verbs::build_programs(|arguments| linking.cargo(arguments))?;
    Ok(match linking {
        Linking::Dynamic => target_dir()?.join("debug"),
        Linking::Static => target_dir()?.join(TRIPLE).join("debug"),
    })
}

/// Builds the test programs of a suite.
pub(super) fn build_suite(suite: &Suite, linking: Linking) -> Result<Vec<TestProgram>, Failure> {
    let mut arguments = vec![
        "test",
        "--no-run",
        "--message-format=json-render-diagnostics",
    ];
    match &suite.programs {
        // With the features of the whole workspace, as `cargo xtask test` builds it: nothing is built twice.
        Programs::Target(name) => arguments.extend(["--workspace", "--test", name]),
        Programs::Packages(names) => {
            arguments.extend(names.iter().flat_map(|name| ["--package", name]))
        }
        Programs::Matrix => {
            let armed = [
                "--package",
                verbs::MATRIX,
                "--features",
                "hooks",
                "--test",
                "matrix",
            ];
            arguments.extend(armed);
        }
    }
    let mut build = linking.cargo(&arguments);
    println!("$ {}", line_of(&build));
    let messages = read(&mut build)?;
    Ok(messages.lines().filter_map(test_program).collect())
}

/// The program that one message of cargo is about, if it is one of tests.
fn test_program(message: &str) -> Option<TestProgram> {
    let message: Value = serde_json::from_str(message).ok()?;
    if message["profile"]["test"] != true {
        return None;
    }
    let path = PathBuf::from(message["executable"].as_str()?);
    let package = message["package_id"].as_str()?.rsplit_once(['#', '/'])?.1;
    let package = package.split('@').next()?;
    let (kind, target) = (&message["target"]["kind"][0], &message["target"]["name"]);
    let name = format!("{package}.{}.{}", kind.as_str()?, target.as_str()?);
    Some(TestProgram { path, name })
}

/// The triple that a static program is built for; `linking` is about the C library of Debian's architecture.
const TRIPLE: &str = "x86_64-unknown-linux-gnu";

impl Linking {
    fn cargo(self, arguments: &[&str]) -> Command {
        let mut command = cargo(arguments);
        if self == Self::Static {
            // The target by its name, so that the flag does not reach build scripts and macros.
            command.args(["--target", TRIPLE]);
            command.env("RUSTFLAGS", "-Ctarget-feature=+crt-static");
        }
        command
    }
}

/// Room for the programs and what the tests write. It costs what is written.
const DISK_SIZE: &str = "6G";

/// Puts the second disk together below `folder` and returns its image.
pub(super) fn disk(
    folder: &Path,
    programs: &Path,
    tests: &[TestProgram],
    papers: &Papers<'_>,
) -> Result<PathBuf, Failure> {
    let top = folder.join("disk");
    for name in ["bin", "tests"] {
        let path = top.join(name);
        fs::create_dir_all(&path).map_err(at(&path))?;
    }
    for name in PROGRAMS {
        strip(&programs.join(name), &top.join("bin").join(name))?;
    }
    for test in tests {
        strip(&test.path, &top.join("tests").join(&test.name))?;
    }
    copy_folder(&root().join("tests/vm/guest"), &top.join("guest"))?;
    let papers = [
        ("plan", Some(papers.plan)),
        ("environment", Some(papers.environment)),
        ("shell", papers.shell),
    ];
    for (name, text) in papers {
        let path = top.join(name);
        text.map_or(Ok(()), |text| fs::write(&path, text).map_err(at(&path)))?;
    }
    let image = folder.join("lane.img");
    let mut make = Command::new("mkfs.ext4");
    make.args([
        "-q",
        "-L",
        "xioflow-lane",
        "-O",
        "^has_journal",
        "-E",
        "root_owner=0:0",
        "-d",
    ]);
    run(make.arg(&top).arg(&image).arg(DISK_SIZE))?;
    fs::remove_dir_all(&top).map_err(at(&top))?;
    Ok(image)
}

/// What the kit looks for. `tests/kit` has the same list.
const PROGRAMS: [&str; 5] = [
    "xioflow",
    "xioflow-reaper",
    "xioflow-fixture",
    "xioflow-false-helper",
    "xioflow-lacking-helper",
];

/// Without debug information a program has a tenth of its size, and an emulated processor reads that much less.
fn strip(from: &Path, to: &Path) -> Result<(), Failure> {
    let mut strip = Command::new("strip");
    read(strip.arg("-o").arg(to).arg(from)).map(drop)
}

fn copy_folder(from: &Path, to: &Path) -> Result<(), Failure> {
    fs::create_dir(to).map_err(at(to))?;
    for entry in fs::read_dir(from).map_err(at(from))? {
        let entry = entry.map_err(at(from))?;
        fs::copy(entry.path(), to.join(entry.file_name())).map_err(at(&entry.path()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_messages_about_programs_of_tests_name_one() {
        let message = |id: &str, test: bool| {
            format!(
                r#"{{"reason":"compiler-artifact","package_id":"{id}","target":{{"kind":["test"],"name":"command"}},
                "profile":{{"test":{test}}},"executable":"/t/debug/deps/command-1"}}"#
            )
        };
        let named = |id: &str| test_program(&message(id, true)).unwrap().in_guest();
        let expected = "/lane/tests/xioflow-suite.test.command";
        assert_eq!(
            named("path+file:///x/tests/suite#xioflow-suite@0.1.0"),
            expected
        );
        // Where folder and package have one name, cargo leaves it out.
        assert_eq!(
            named("path+file:///x/tests/suite#0.1.0"),
            "/lane/tests/0.1.0.test.command"
        );
        assert!(test_program(&message("path+file:///x#y@1", false)).is_none());
        assert!(test_program(r#"{"reason":"build-finished","success":true}"#).is_none());
    }

    #[test]
    fn the_programs_are_those_of_the_kit() {
        let kit = fs::read_to_string(root().join("tests/kit/src/stage.rs")).unwrap();
        let list = kit.split("pub const PROGRAMS").nth(1).unwrap();
        let names: Vec<&str> = list
            .split('"')
            .skip(1)
            .step_by(2)
            .take(PROGRAMS.len())
            .collect();
        assert_eq!(names, PROGRAMS);
    }
}
