//! Executing for somebody else: what the command takes from whoever asks for it, and what it does not.

use std::path::PathBuf;

use xioflow_kernel::journal::{Outcome, Query};
use xioflow_kernel::{
    Caller, Command, Domain, ExecuteError, InvalidCommand, OperationResult, Reuse, Stdin,
};
use xioflow_kit::Stage;

use crate::{open, shell};

/// `RLIMIT_NOFILE` and `RLIMIT_CORE`.
const NOFILE: u32 = 7;
const CORE: u32 = 4;

/// In the stage's folder, with variables that a shell needs.
fn caller(stage: &Stage) -> Caller {
    Caller::new(Some(stage.path("")), stage.environment())
}

/// A script that has nothing but what its caller has.
fn bare(script: &str) -> Command {
    Command::new("/bin/sh").args(["-c", script]).inherit_env()
}

fn run_for(domain: &Domain, command: Command, caller: Caller) -> OperationResult {
    let operation = domain.operation(command).expect("a builder");
    operation.caller(caller).run().expect("a result")
}

#[test]
fn a_command_finds_what_its_caller_has() {
    let stage = Stage::new();
    let domain = open(&stage);
    let below = stage.folder("below");
    let script = "pwd; umask; ulimit -n; ulimit -Hn; ulimit -c; nice; echo $OF_CALLER";
    let mut variables = stage.environment();
    variables.push(("OF_CALLER".into(), "yes".into()));
    let whole = Caller::new(Some(below.clone()), variables)
        .umask(0o037)
        .limit(NOFILE, Some(61), Some(62))
        .limit(CORE, Some(0), Some(0))
        .nice(9);
    let result = run_for(&domain, bare(script), whole);
    let expected = format!("{}\n0037\n61\n62\n0\n9\nyes\n", below.display());
    assert_eq!(result.stdout, expected, "{result:?}");
    // And one without any of it finds what this process has.
    let result = run_for(&domain, bare(script), caller(&stage));
    let here = Caller::here();
    let nofile = here.limits().iter().find(|limit| limit.resource == NOFILE);
    let soft = nofile.expect("it has one").soft.expect("it has an end");
    let lines: Vec<_> = result.stdout.lines().collect();
    assert_eq!(
        lines[1],
        format!("{:04o}", here.umask_value().expect("known"))
    );
    assert_eq!(lines[2], soft.to_string());
    assert_eq!(lines[5], here.nice_value().expect("known").to_string());
}

#[test]
fn a_mask_of_the_command_wins_over_the_callers() {
    let stage = Stage::new();
    let domain = open(&stage);
    let command = bare("umask").umask(0o002);
    let result = run_for(&domain, command, caller(&stage).umask(0o077));
    assert_eq!(result.stdout, "0002\n");
}

/// The limit is the command's, and not that of those who bring it to its gate. A program without a
/// loader is one that needs no more; this one says that it is misused.
#[test]
fn with_few_open_files_it_starts_all_the_same() {
    let stage = Stage::new();
    let domain = open(&stage);
    let few = caller(&stage).limit(NOFILE, Some(3), Some(3));
    let result = run_for(&domain, Command::new(stage.program("xioflow-reaper")), few);
    assert_eq!(result.exit_code, Some(100), "{result:?}");
}

#[test]
fn whoever_asks_for_the_same_in_the_same_folder_gets_the_same() {
    let stage = Stage::new();
    let domain = open(&stage);
    let submit = |caller: Option<Caller>| {
        let operation = domain.operation(bare("echo once")).expect("a builder");
        let operation = operation.id("once").lease("workspace:write:here");
        match caller {
            Some(caller) => operation.caller(caller).run(),
            None => operation.run(),
        }
    };
    let first = submit(None).expect("a result");
    assert_eq!(first.reused, Reuse::Executed);
    let again = submit(Some(Caller::here())).expect("a result");
    assert_eq!(again.reused, Reuse::ReplayedRecorded);
    let other = Caller::here().umask(0o777).nice(19).limit(CORE, None, None);
    let again = submit(Some(other)).expect("a result");
    assert_eq!(again.reused, Reuse::ReplayedRecorded);
    let elsewhere = submit(Some(caller(&stage))).expect_err("another folder");
    assert!(matches!(elsewhere, ExecuteError::IdConflict { .. }));
}

#[test]
fn relative_paths_start_where_the_caller_is() {
    let stage = Stage::new();
    let domain = open(&stage);
    let below = stage.folder("below");
    stage.write("below/say", "#!/bin/sh\npwd; cat\n", 0o755);
    stage.write("input", "of the caller", 0o600);
    let command = Command::new("./say")
        .cwd("below")
        .inherit_env()
        .stdin(Stdin::File("input".into()));
    let operation = domain.operation(command).expect("a builder");
    let operation = operation
        .id("relative")
        .lease("workspace:write:below/it")
        .caller(caller(&stage));
    let result = operation.run().expect("a result");
    let below = below.canonicalize().expect("it is there");
    assert_eq!(
        result.stdout,
        format!("{}\nof the caller", below.display()),
        "{result:?}"
    );
    let recorded = domain.journal().operation("relative").expect("readable");
    assert_eq!(
        recorded.expect("on record").required_resources,
        [format!("workspace:write:{}/it", below.display())]
    );
}

#[test]
fn without_a_folder_every_path_has_to_be_absolute() {
    let stage = Stage::new();
    let domain = open(&stage);
    let nowhere = || Caller::new(None, stage.environment());
    let absolute = bare("pwd").cwd(stage.path(""));
    let before = domain.journal().counts().expect("readable");
    let refused = |command: Command, lease: &str| {
        let operation = domain.operation(command).expect("a builder");
        let error = operation.lease(lease).caller(nowhere()).run();
        match error.expect_err("nothing to start from") {
            ExecuteError::Invalid(InvalidCommand::NoFolder { what, .. }) => what,
            other => panic!("{other:?}"),
        }
    };
    let input = absolute.clone().stdin(Stdin::File("input".into()));
    assert_eq!(refused(bare("pwd"), "x"), "working directory");
    assert_eq!(refused(bare("pwd").cwd("below"), "x"), "working directory");
    assert_eq!(refused(input, "x"), "standard input");
    assert_eq!(
        refused(absolute.clone(), "workspace:write:below"),
        "leased folder"
    );
    assert_eq!(domain.journal().counts().expect("readable"), before);
    let result = run_for(&domain, absolute, nowhere());
    assert_eq!(result.status, Outcome::Succeeded);
}

/// Beyond the most that any process may have, so that a privileged one cannot set it either.
#[test]
fn a_limit_that_cannot_be_set_says_which_and_what_to_do() {
    let stage = Stage::new();
    let domain = open(&stage);
    let much = caller(&stage).limit(NOFILE, Some(64), Some(1 << 40));
    let result = run_for(&domain, bare("echo ran"), much);
    assert_eq!(
        (result.status, result.stdout.as_str()),
        (Outcome::Failed, "")
    );
    let failure = result.spawn_failure.expect("it could not start");
    assert_eq!(
        (failure.stage.as_str(), failure.code.as_str()),
        ("limits", "EPERM")
    );
    assert!(failure.message.contains("RLIMIT_NOFILE"), "{failure:?}");
    assert!(failure.hint.is_some_and(|hint| hint.contains("ulimit")));
}

#[test]
fn a_folder_that_is_gone_is_not_entered_by_its_name() {
    let stage = Stage::new();
    let domain = open(&stage);
    // Somebody has made another one by the same name.
    stage.write("input", "of another", 0o600);
    let gone = || caller(&stage).folder_is_gone(2);
    let result = run_for(&domain, bare("echo ran"), gone());
    let stage_of = |result: &OperationResult| {
        let failure = result.spawn_failure.as_ref().expect("it could not start");
        (failure.stage.clone(), failure.code.clone())
    };
    assert_eq!(stage_of(&result), ("cwd".to_owned(), "ENOENT".to_owned()));
    let reads = bare("cat").cwd("/").stdin(Stdin::File("input".into()));
    let result = run_for(&domain, reads, gone());
    assert_eq!(stage_of(&result), ("stdin".to_owned(), "ENOENT".to_owned()));
    let elsewhere = run_for(&domain, bare("pwd").cwd("/"), gone());
    assert_eq!(elsewhere.stdout, "/\n");
}

#[test]
fn variables_are_the_callers_and_not_ours() {
    let stage = Stage::new();
    let domain = open(&stage);
    let variables = || {
        vec![
            ("OF_CALLER".into(), "yes".into()),
            ("SECRET".into(), "s".into()),
        ]
    };
    let caller = || Caller::new(Some(PathBuf::from("/")), variables());
    let command = shell(&stage, "echo $OF_CALLER").pass_env("OF_CALLER");
    let result = run_for(&domain, command, caller());
    assert_eq!(result.stdout, "yes\n");
    let names = result.environment.expect("known");
    assert_eq!(names.passed, ["OF_CALLER"]);
    assert_eq!(names.withheld, Some(vec!["SECRET".to_owned()]));
    let absent = Command::new("/bin/true").cwd("/").pass_env("PATH");
    let absent = domain
        .operation(absent)
        .expect("a builder")
        .caller(caller());
    let error = absent.run().expect_err("the caller has no PATH");
    assert!(matches!(
        error,
        ExecuteError::Invalid(InvalidCommand::EnvAbsent { .. })
    ));
}
