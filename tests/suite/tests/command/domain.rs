//! The domain as a folder: where it is, who may read it, and what must never be in it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use xioflow_kit::{Stage, each_user};

use crate::{run, shell, text};

#[test]
fn it_is_for_its_user_only() {
    each_user(|stage| {
        let script = "umask 000; exec \"$0\" run -- true";
        let xioflow = stage.program("xioflow");
        stage
            .run("/bin/sh")
            .args(["-c", script, text(&xioflow)])
            .finish()
            .assert_code(0);
        let mode = |path: &Path| {
            fs::metadata(path)
                .expect("in the domain")
                .permissions()
                .mode()
                & 0o777
        };
        let domain = stage.domain();
        assert_eq!(mode(&domain), 0o700);
        for entry in fs::read_dir(&domain).expect("the domain") {
            let entry = entry.expect("an entry");
            let kind = entry.file_type().expect("its type");
            let expected = if kind.is_dir() { 0o700 } else { 0o600 };
            assert_eq!(mode(&entry.path()), expected, "{}", entry.path().display());
        }
    });
}

#[test]
fn it_is_at_the_top_of_the_work_tree_and_git_does_not_see_it() {
    if std::process::Command::new("git")
        .arg("--version")
        .output()
        .is_err()
    {
        eprintln!("skipped: needs git");
        return;
    }
    let stage = Stage::new();
    let below = stage.folder("repository/a/b");
    let top = stage.path("repository");
    stage
        .run("git")
        .args(["init", "--quiet"])
        .cwd(&top)
        .finish()
        .assert_code(0);
    let run = run(&stage, &[], &["true"])
        .env_remove("XIOFLOW_DOMAIN")
        .cwd(&below)
        .finish();
    run.assert_code(0);
    assert!(top.join(".xioflow/domain.db").exists(), "{run}");
    let status = stage
        .run("git")
        .args(["status", "--porcelain"])
        .cwd(&top)
        .finish();
    status.assert_code(0).assert_stdout("");
}

#[test]
fn it_is_in_the_current_folder_outside_of_a_work_tree() {
    let stage = Stage::new();
    let folder = stage.folder("alone");
    let run = run(&stage, &[], &["true"])
        .env_remove("XIOFLOW_DOMAIN")
        .cwd(&folder)
        .finish();
    run.assert_code(0);
    assert!(folder.join(".xioflow/domain.db").exists(), "{run}");
}

#[test]
fn an_option_goes_before_the_variable() {
    let stage = Stage::new();
    let folder = stage.path("named");
    let words = ["--domain", text(&folder), "run", "--", "true"];
    stage.xioflow().args(words).finish().assert_code(0);
    assert!(folder.join("domain.db").exists());
    assert!(!stage.domain().exists());
}

/// Whether these bytes are anywhere in the folder's files.
fn is_in_folder(folder: &Path, bytes: &[u8]) -> bool {
    fs::read_dir(folder).expect("a folder").any(|entry| {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            return is_in_folder(&path, bytes);
        }
        let content = fs::read(&path).unwrap_or_default();
        content.windows(bytes.len()).any(|window| window == bytes)
    })
}

#[test]
fn secrets_given_to_a_command_are_not_in_it() {
    let stage = Stage::new();
    let input = stage.write("input", "hidden-input", 0o600);
    let options = [
        "--op",
        "secretive",
        "--env",
        "TOKEN=hidden-value",
        "--stdin",
        text(&input),
    ];
    let words = [
        &shell("cat > /dev/null; sleep 300 & exit 3")[..],
        &["hidden-argument"],
    ]
    .concat();
    run(&stage, &options, &words).finish().assert_code(3);
    run(&stage, &[], &["/nonexistent/program", "hidden-argument"])
        .finish()
        .assert_code(127);
    let domain = stage.domain();
    assert!(
        is_in_folder(&domain, b"secretive"),
        "the search finds what is there"
    );
    for secret in ["hidden-argument", "hidden-value", "hidden-input"] {
        assert!(
            !is_in_folder(&domain, secret.as_bytes()),
            "{secret} is in the domain"
        );
    }
}

#[test]
fn small_output_leaves_no_file() {
    let stage = Stage::new();
    run(&stage, &[], &["echo", "out"]).finish().assert_code(0);
    for folder in ["artifacts", "holders"] {
        let entries = fs::read_dir(stage.domain().join(folder)).expect("a folder of the domain");
        let names: Vec<_> = entries
            .map(|entry| entry.expect("an entry").file_name())
            .collect();
        assert!(names.is_empty(), "{names:?} in {folder}");
    }
}
