//! Clients as processes: this very test program, started again with a role and orders.
//!
//! What a client has to say it prints as lines of JSON; `said` finds the last one between those of the
//! test harness.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process;
use std::time::Duration;

use serde_json::{Value, json};
use xioflow_kernel::{Arbiter, Command, Domain, DomainOptions, Starter};
use xioflow_kit::{Finished, Stage, Started};

use crate::{crowd, first, hostile, lost_arbiter, lost_clients};

/// Tells a client what it is.
const ROLE_VARIABLE: &str = "XIOFLOW_TEST_ROLE";

/// What a client was told.
pub(crate) struct Orders(Value);

impl Orders {
    pub(crate) fn text(&self, name: &str) -> &str {
        self.0[name].as_str().expect("a text")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.text(name).into()
    }

    pub(crate) fn number(&self, name: &str) -> usize {
        let number = self.0[name].as_u64().expect("a number");
        usize::try_from(number).expect("a small one")
    }

    pub(crate) fn is(&self, name: &str) -> bool {
        self.0[name].as_bool().expect("yes or no")
    }

    /// The domain, through the arbiter that serves it.
    pub(crate) fn attach(&self) -> Domain {
        let domain = DomainOptions::default().open(self.path("domain"));
        let domain = domain.expect("an arbiter serves it");
        assert!(domain.arbiter().is_some(), "nobody else owns the domain");
        domain
    }

    /// How a domain is opened whose arbiter is started by whoever needs it.
    pub(crate) fn starting(&self) -> DomainOptions {
        let variables = std::env::vars_os().filter(|(name, _)| name != ROLE_VARIABLE);
        DomainOptions::default().arbiter(Arbiter::Start(Starter {
            program: self.path("program"),
            idle: Some(xioflow_kit::Deadline::USUAL),
            variables: variables.collect(),
        }))
    }
}

/// Starts a client in this role, which has so long to its end.
pub(crate) fn start<'a>(
    stage: &'a Stage,
    role: &str,
    orders: &Value,
    patience: Duration,
) -> Started<'a> {
    let mut all = json!({
        "role": role,
        "domain": stage.domain(),
        "program": stage.program("xioflow"),
    });
    for (name, value) in orders.as_object().expect("orders have names") {
        all[name] = value.clone();
    }
    stage
        .run(program(stage))
        .args(["--exact", "client::as_a_client", "--ignored", "--nocapture"])
        .env(ROLE_VARIABLE, all.to_string())
        .deadline(patience)
        .start()
}

/// This program where the stage's user can reach it. A copy is made by another process: a descriptor of this
/// one, open for writing, would be in every child that another test starts meanwhile (ETXTBSY).
fn program(stage: &Stage) -> PathBuf {
    let this = std::env::current_exe().expect("this program has a path");
    if stage.user_id().is_none() {
        return this;
    }
    let path = stage.root().join("bin/client");
    if !path.exists() && fs::hard_link(&this, &path).is_err() {
        let copied = process::Command::new("cp").arg(this).arg(&path).status();
        assert!(
            copied.expect("cp starts").success(),
            "this program in the stage"
        );
    }
    path
}

/// Says something to whoever has started this client.
pub(crate) fn say(what: &Value) {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{what}").expect("it is read");
    stdout.flush().expect("it is read");
}

/// The last that a client has said.
pub(crate) fn said(finished: &Finished) -> Value {
    finished.assert_code(0);
    let text = String::from_utf8_lossy(&finished.stdout);
    let said = text.lines().rev().find_map(|line| {
        serde_json::from_str::<Value>(line)
            .ok()
            .filter(Value::is_object)
    });
    said.unwrap_or_else(|| panic!("the client has said nothing\n{finished}"))
}

/// The sum of a number that each client has said.
pub(crate) fn total(reports: &[Value], name: &str) -> usize {
    let numbers = reports.iter().map(|report| report[name].as_u64());
    let sum: Option<u64> = numbers.sum();
    usize::try_from(sum.expect("each has said it")).expect("a small one")
}

/// A script of sh(1) in the client's folder and environment.
pub(crate) fn shell(script: &str) -> Command {
    Command::new("/bin/sh").args(["-c", script]).inherit_env()
}

/// A command that adds a line to the ledger and does nothing else.
pub(crate) fn entering(ledger: &Path, line: &str) -> Command {
    shell(&format!("echo {line} >>{}", ledger.display()))
}

#[test]
#[ignore = "the other half of tests, started by them as a client"]
fn as_a_client() {
    let orders = std::env::var(ROLE_VARIABLE).expect("a client has a role");
    let orders = Orders(serde_json::from_str(&orders).expect("orders are JSON"));
    match orders.text("role") {
        "crowd" => crowd::client(&orders),
        "first" => first::client(&orders),
        "victim" => lost_clients::client(&orders),
        "persistent" => lost_arbiter::client(&orders),
        "hostile" => hostile::client(&orders),
        other => panic!("no role {other:?}"),
    }
}
