//! The hash that says whether two submissions are the same operation.
//!
//! Everything that decides what the command does is part of it; what only decides how much of it
//! is kept or how it is called is not. It is a hash and nothing readable, because arguments and
//! environment values never enter the journal.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::command::Command;
use crate::driver::Driver;
use crate::environment::{Environment, Source};
use crate::limits::ResourceLimits;
use crate::output::hex;
use crate::stdin::Stdin;

/// Begins every fingerprint, so that a later recipe can be told apart.
const RECIPE: &str = "xf1:";

/// What is hashed beside the command.
pub(crate) struct Inputs<'a> {
    pub(crate) command: &'a Command,
    pub(crate) cwd: &'a Path,
    /// Whether its standard input is written while it runs, whatever the command says of it.
    pub(crate) streams_stdin: bool,
    pub(crate) resources: &'a [String],
    pub(crate) timeout_ms: Option<u64>,
    pub(crate) limits: Option<&'a ResourceLimits>,
}

/// The fingerprint of a submission.
///
/// Domains of earlier releases hold fingerprints of this recipe, and their operations must still
/// be known. So the order of fields stays, and an input that a release adds is hashed only where
/// it was used, behind all others.
pub(crate) fn fingerprint(inputs: &Inputs<'_>) -> String {
    let mut hash = Fields::default();
    hash.field("program", inputs.command.program.as_bytes());
    hash.list(
        "argument",
        inputs.command.args.iter().map(|arg| arg.as_bytes()),
    );
    hash.field("cwd", inputs.cwd.as_os_str().as_bytes());
    let (given, passed) = variables(&inputs.command.environment);
    hash.list("variable", given.into_iter());
    let mut resources: Vec<&[u8]> = inputs.resources.iter().map(String::as_bytes).collect();
    resources.sort_unstable();
    hash.list("resource", resources.into_iter());
    hash.field("inherits", &[u8::from(inputs.command.environment.inherits)]);
    hash.field("timeout", format!("{:?}", inputs.timeout_ms).as_bytes());
    hash.field("umask", format!("{:?}", inputs.command.umask).as_bytes());
    hash.field("privileges", &[u8::from(inputs.command.no_new_privs)]);
    match inputs.streams_stdin {
        // What will be written is not known before it is written.
        true => hash.field("stdin", b"stream"),
        false => hash.stdin(&inputs.command.stdin),
    }
    if !passed.is_empty() {
        hash.list("passed", passed.into_iter());
    }
    if inputs.command.merges_stderr {
        hash.field("merges", &[1]);
    }
    if inputs.command.driver == Driver::PidNamespace {
        // It sees other process ids and other users; between the other drivers it sees no difference.
        hash.field("driver", b"pidns");
    }
    if let Some(action) = &inputs.command.stop_action {
        hash.list("stop action", action.strings().map(|word| word.as_bytes()));
        let when = format!("{:?} {}", action.when, action.timeout_ms());
        hash.field("stop action when", when.as_bytes());
    }
    if let Some(limits) = inputs.limits {
        hash.field("limits", limits.as_input().as_bytes());
    }
    format!("{RECIPE}{}", hex(&hash.0.finalize()))
}

/// The variables that are given, as names and values in turn, and the names of those that are passed
/// on, both in one order. Not the values that the caller has: they differ from shell to shell, and
/// an id must work in all of them.
fn variables(environment: &Environment) -> (Vec<&[u8]>, Vec<&[u8]>) {
    let mut given: Vec<[&[u8]; 2]> = Vec::new();
    let mut passed: Vec<&[u8]> = Vec::new();
    for (name, source) in &environment.named {
        match source {
            Source::Given(value) => given.push([name.as_bytes(), value.as_bytes()]),
            Source::Caller => passed.push(name.as_bytes()),
        }
    }
    given.sort_unstable();
    passed.sort_unstable();
    (given.concat(), passed)
}

/// A hash over named fields with their lengths, so that no two lists of fields look the same.
#[derive(Default)]
struct Fields(Sha256);

impl Fields {
    fn field(&mut self, name: &str, value: &[u8]) {
        for part in [name.as_bytes(), value] {
            self.0.update((part.len() as u64).to_le_bytes());
            self.0.update(part);
        }
    }

    fn list<'a>(&mut self, name: &str, values: impl Iterator<Item = &'a [u8]>) {
        let values: Vec<&[u8]> = values.collect();
        self.field(name, &(values.len() as u64).to_le_bytes());
        for value in values {
            self.field(name, value);
        }
    }

    fn stdin(&mut self, stdin: &Stdin) {
        match stdin {
            Stdin::Null => self.field("stdin", b"null"),
            Stdin::Closed => self.field("stdin", b"closed"),
            Stdin::Bytes(bytes) => self.field("stdin bytes", &Sha256::digest(bytes)),
            Stdin::File(path) => self.field("stdin file", path.as_os_str().as_bytes()),
            // What will be read is not known before it is read.
            Stdin::Descriptor(_) => self.field("stdin", b"descriptor"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::limits::Enforcement;
    use crate::stop_action::{StopAction, StopActionWhen};

    fn of(command: &Command) -> String {
        fingerprint(&inputs(command))
    }

    fn inputs(command: &Command) -> Inputs<'_> {
        Inputs {
            command,
            cwd: Path::new("/"),
            streams_stdin: false,
            resources: &[],
            timeout_ms: None,
            limits: None,
        }
    }

    #[test]
    fn a_stream_is_an_input_of_its_own() {
        let command = Command::new("x");
        let streamed = Inputs {
            streams_stdin: true,
            ..inputs(&command)
        };
        assert_ne!(fingerprint(&streamed), of(&command));
        let replaced = command.clone().stdin(Stdin::Closed);
        let same = Inputs {
            streams_stdin: true,
            ..inputs(&replaced)
        };
        assert_eq!(fingerprint(&streamed), fingerprint(&same));
    }

    /// As the release hashed them that had the first version of the schema.
    #[test]
    fn operations_of_earlier_domains_are_still_known() {
        let plain = Command::new("x").arg("a");
        assert_eq!(
            of(&plain),
            "xf1:4acd5e8dfde023c86c065d27b43952c3dc16762415ee6882389c8b4731a0832f"
        );
        let full = Command::new("x")
            .args(["a", ""])
            .env("B", "2")
            .env("A", "1")
            .inherit_env()
            .umask(0o22)
            .stdin(Stdin::text("in"));
        let all = Inputs {
            cwd: Path::new("/w"),
            resources: &["r2".to_owned(), "r1".to_owned()],
            timeout_ms: Some(1500),
            ..inputs(&full)
        };
        assert_eq!(
            fingerprint(&all),
            "xf1:65cc66df6fc40d6617bcd3a746202361cc52d4303754cd243b038870f993826e"
        );
    }

    #[test]
    fn the_order_of_variables_does_not_matter() {
        let one = Command::new("x").env("A", "1").env("B", "2");
        let other = Command::new("x").env("B", "2").env("A", "1");
        assert_eq!(of(&one), of(&other));
    }

    #[test]
    fn every_input_matters() {
        let base = Command::new("x").arg("a");
        let others = [
            Command::new("y").arg("a"),
            Command::new("x").arg("b"),
            Command::new("x").arg("a").arg(""),
            Command::new("x").arg("a").env("A", "1"),
            Command::new("x").arg("a").env("A", ""),
            Command::new("x").arg("a").pass_env("A"),
            Command::new("x").arg("a").inherit_env(),
            Command::new("x").arg("a").umask(0o22),
            Command::new("x").arg("a").merge_stderr(true),
            Command::new("x").arg("a").driver(Driver::PidNamespace),
            Command::new("x").arg("a").stop_action(StopAction::new("y")),
            Command::new("x")
                .arg("a")
                .stop_action(StopAction::new("y").arg("z")),
            Command::new("x")
                .arg("a")
                .stop_action(StopAction::new("y").when(StopActionWhen::Always)),
            Command::new("x").arg("a").stdin(Stdin::text("in")),
            Command::new("x").arg("a").stdin(Stdin::bytes("")),
            Command::new("x").arg("a").stdin(Stdin::File("/in".into())),
            Command::new("x").arg("a").stdin(Stdin::Closed),
        ];
        for other in &others {
            assert_ne!(of(&base), of(other), "{other:?}");
        }
    }

    #[test]
    fn every_limit_matters() {
        let command = Command::new("x");
        let none = ResourceLimits::default();
        let all = [
            none.memory_bytes(1 << 20),
            none.memory_bytes(1 << 21),
            none.pids(1 << 20),
            none.milli_cpus(1 << 20),
            none.cpu_time(Duration::from_millis(1 << 20)),
            none.memory_bytes(1 << 20).enforcement(Enforcement::Soft),
            none.memory_bytes(1 << 20).enforcement(Enforcement::Observe),
        ];
        let mut of_all: Vec<String> = all
            .iter()
            .map(|limits| {
                fingerprint(&Inputs {
                    limits: Some(limits),
                    ..inputs(&command)
                })
            })
            .collect();
        of_all.push(of(&command));
        of_all.sort();
        of_all.dedup();
        assert_eq!(of_all.len(), all.len() + 1);
    }

    #[test]
    fn what_no_command_can_see_is_no_input() {
        let base = Command::new("x").arg("a");
        assert_eq!(of(&base), of(&base.clone().driver(Driver::Reaper)));
    }

    #[test]
    fn joined_arguments_are_not_one_argument() {
        assert_ne!(
            of(&Command::new("x").args(["ab"])),
            of(&Command::new("x").args(["a", "b"]))
        );
    }
}
