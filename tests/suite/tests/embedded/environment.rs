//! A command of the library has the environment that it was given, and nothing of its host's.

use xioflow_kernel::{Command, Domain, ExecuteError, InvalidCommand};
use xioflow_kit::Stage;

use crate::{open, text};

fn env(domain: &Domain, command: Command) -> String {
    let result = domain.run(command.cwd("/")).expect("a result");
    assert_eq!(result.exit_code, Some(0), "{result:?}");
    result.stdout
}

fn printed() -> Command {
    Command::new("/usr/bin/env").arg("-0")
}

#[test]
fn it_is_empty_unless_something_was_given() {
    let stage = Stage::new();
    let domain = open(&stage);
    assert_eq!(env(&domain, printed()), "");
    assert_eq!(
        env(&domain, printed().env("A", "1").env("B", "")),
        "A=1\0B=\0"
    );
}

#[test]
fn one_variable_of_the_host_can_be_passed_on() {
    let stage = Stage::new();
    let domain = open(&stage);
    let path = std::env::var("PATH").expect("the host has a PATH");
    assert_eq!(
        env(&domain, printed().pass_env("PATH")),
        format!("PATH={path}\0")
    );
}

#[test]
fn one_that_the_host_has_not_is_an_error_with_its_name_and_no_record() {
    let stage = Stage::new();
    let domain = open(&stage);
    let trace = stage.path("trace");
    let command = Command::new("touch")
        .arg(text(&trace))
        .pass_env("XIOFLOW_ABSENT");
    let refused = domain.operation(command).expect("a builder").id("op").run();
    let name = "XIOFLOW_ABSENT".into();
    match refused {
        Err(ExecuteError::Invalid(invalid)) => {
            assert_eq!(invalid, InvalidCommand::EnvAbsent { name });
        }
        other => panic!("{other:?}"),
    }
    assert!(crate::events(&domain, "op").is_empty() && !trace.exists());
}
