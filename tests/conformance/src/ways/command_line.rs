//! The program `xioflow` without an arbiter: one process for each command, which owns the domain for as
//! long as that takes. What is recorded is read by its reading verbs.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use xioflow_kernel::HELPER_VARIABLE;
use xioflow_kit::{Finished, Stage, Started};

use super::arbiter::Serving;
use super::{
    Client, Ended, Event, HostRun, Lease, Record, Refusal, RefusalKind, Submitted, Terms, Way,
};
use crate::contract::Unsupported;
use crate::document::Document;
use crate::work::{Input, Limit, Work};

/// The program `xioflow`.
#[derive(Debug, Clone, Copy)]
pub struct CommandLine {
    alone: bool,
}

impl CommandLine {
    /// As it is used: an arbiter executes for all of its runs.
    pub const SHARED: Self = Self { alone: false };
    /// With `--no-arbiter`: each run owns the domain for as long as it takes.
    pub const ALONE: Self = Self { alone: true };
}

impl Way for CommandLine {
    fn name(&self) -> &'static str {
        match self.alone {
            true => "command-line-alone",
            false => "command-line",
        }
    }

    fn client<'a>(
        &'a self,
        stage: &'a Stage,
        terms: &Terms,
    ) -> Result<Box<dyn Client + 'a>, Unsupported> {
        let shared =
            terms.max_concurrent_operations.is_some() || terms.max_total_memory_bytes.is_some();
        if self.alone && shared {
            let why = "a command has the domain to itself, so there is nothing to share";
            return Err(Unsupported::because(why));
        }
        let sharing = (!self.alone).then(|| Serving::start(stage, terms));
        let helper = terms.helper.clone();
        Ok(Box::new(Shell {
            stage,
            helper,
            alone: self.alone,
            _sharing: sharing,
        }))
    }
}

/// Somebody at a prompt.
struct Shell<'a> {
    stage: &'a Stage,
    helper: Option<PathBuf>,
    alone: bool,
    /// The arbiter, for as long as somebody is at the first prompt.
    _sharing: Option<Serving<'a>>,
}

impl Client for Shell<'_> {
    fn submit(&self, work: &Work) -> Result<Box<dyn Submitted + '_>, Unsupported> {
        let mut run = self.stage.xioflow().arg("run");
        if self.alone {
            run = run.arg("--no-arbiter");
        }
        if let Some(helper) = self.helper.as_ref().filter(|_| self.alone) {
            run = run.env(HELPER_VARIABLE, helper);
        }
        let started = run.args(self.words(work)?).start();
        Ok(Box::new(Running {
            shell: self,
            id: work.id.clone(),
            live: work.live,
            started,
        }))
    }

    fn cancel(&self, id: &str) -> Result<Result<(), Refusal>, Unsupported> {
        if self.alone {
            let why = "a run that owns the domain itself takes no requests of others";
            return Err(Unsupported::because(why));
        }
        let finished = self.stage.xioflow().args(["cancel", "--json", id]).finish();
        Ok(answer(&finished).map(drop))
    }

    fn adjudicate(&self, id: &str, actor: &str) -> Result<Result<(), Refusal>, Unsupported> {
        let words = [
            "adjudicate",
            "--json",
            id,
            "confirmed_stopped",
            "--actor",
            actor,
        ];
        let finished = self.stage.xioflow().args(words).finish();
        Ok(answer(&finished).map(drop))
    }

    fn prune_all(&self) {
        let words = ["prune", "--max-bytes", "0"];
        self.stage.xioflow().args(words).finish().assert_code(0);
    }

    fn close(&self) -> Result<(), Unsupported> {
        let why = "each command closes the domain by ending; there is no other step";
        Err(Unsupported::because(why))
    }

    fn another(&self) -> Result<Box<dyn Client + '_>, Unsupported> {
        if self.alone {
            let why = "a run that owns the domain itself has it alone (a second one is refused with status 75)";
            return Err(Unsupported::because(why));
        }
        Ok(Box::new(Self {
            stage: self.stage,
            helper: None,
            alone: false,
            _sharing: None,
        }))
    }

    fn begin_run(&self) -> Result<Box<dyn HostRun + '_>, Unsupported> {
        let why = "each command has a Run of its own, and no verb opens one for several";
        Err(Unsupported::because(why))
    }

    fn can_be_killed(&self) -> Result<(), Unsupported> {
        if self.alone {
            let why = "a run that owns the domain itself is nobody's client";
            return Err(Unsupported::because(why));
        }
        Ok(())
    }

    fn works_beside_others(&self) -> bool {
        !self.alone
    }

    fn record(&self, id: &str) -> Option<Record> {
        let finished = self.stage.xioflow().args(["show", "--json", id]).finish();
        if finished.status.code() == Some(NO) || is_absent(&finished) {
            return None;
        }
        let shown = finished.assert_code(0).json();
        let text = |name: &str| shown[name].as_str().map(str::to_owned);
        let given = |name: &str| Some(shown[name].clone()).filter(|value| !value.is_null());
        Some(Record {
            status: text("status").expect("a status"),
            outcome: text("outcome"),
            run_id: text("runId").expect("a Run"),
            run_status: text("runStatus"),
            input_fingerprint: text("inputFingerprint").expect("a fingerprint"),
            required_resources: texts(&shown["requiredResources"]),
            process_identity: given("processIdentity"),
            result: given("result").map(Document),
        })
    }

    fn events(&self) -> Vec<Event> {
        let finished = self.stage.xioflow().args(["events", "--json"]).finish();
        if is_absent(&finished) {
            return Vec::new();
        }
        let listed = finished.assert_code(0).json();
        let events = listed["events"].as_array().expect("a list of events");
        events.iter().map(event).collect()
    }

    fn leases(&self) -> Vec<Lease> {
        let finished = self.stage.xioflow().args(["status", "--json"]).finish();
        if is_absent(&finished) {
            return Vec::new();
        }
        let status = finished.assert_code(0).json();
        let leases = status["leases"].as_array().expect("a list of leases");
        let lease = |lease: &Value| Lease {
            resource: lease["resource"].as_str().expect("a resource").to_owned(),
            operation_id: lease["operationId"].as_str().expect("an id").to_owned(),
        };
        leases.iter().map(lease).collect()
    }

    fn stored_output(&self, id: &str) -> Vec<u8> {
        let finished = self.stage.xioflow().args(["logs", id]).finish();
        finished.assert_code(0);
        finished.stdout
    }
}

/// The answer to a question after what is not there.
const NO: i32 = 1;
/// The exit status where there is no domain yet.
const CANNOT_OPEN: i32 = 73;

fn is_absent(finished: &Finished) -> bool {
    finished.status.code() == Some(CANNOT_OPEN)
        && String::from_utf8_lossy(&finished.stderr).contains("there is no domain")
}

impl Shell<'_> {
    /// The words after `xioflow run`.
    fn words(&self, work: &Work) -> Result<Vec<OsString>, Unsupported> {
        refuse_what_has_no_option(work)?;
        let mut words = Words::default();
        words.pair("--op", &work.id);
        words.pair("--cwd", &work.cwd);
        words.environment(work);
        match &work.stdin {
            Input::Empty => {}
            Input::Closed => words.pair("--stdin", "closed"),
            Input::Bytes(bytes) => words.pair("--stdin", self.input_file(bytes)),
        }
        words.flag("--merge-stderr", work.merge_stderr);
        if work.enclosed {
            words.pair("--driver", "pidns");
        }
        if let Some(script) = &work.stop_action {
            words.pair("--stop-action", script);
        }
        for lease in &work.leases {
            words.pair("--lease", lease);
        }
        words.limits(work);
        words.flag("--json", !work.live);
        words.0.push("--".into());
        words.0.push(work.program.clone());
        words.0.extend(work.args.iter().cloned());
        Ok(words.0)
    }

    /// A file with these bytes. Its name is theirs, so that the same input is the same file.
    fn input_file(&self, bytes: &[u8]) -> PathBuf {
        let name = format!("input-{}", crate::world::sha256(bytes));
        let path = self.stage.path(&name);
        if !path.exists() {
            fs::write(&path, bytes).expect("a file of the stage");
        }
        path
    }
}

fn refuse_what_has_no_option(work: &Work) -> Result<(), Unsupported> {
    for (asked, what) in [
        (work.umask.is_some(), "a file mode creation mask"),
        (work.no_new_privs, "a ban on new privileges"),
        (work.name.is_some(), "the name of an operation"),
    ] {
        if asked {
            return Err(Unsupported::because(format!("no option sets {what}")));
        }
    }
    Ok(())
}

#[derive(Default)]
struct Words(Vec<OsString>);

impl Words {
    fn environment(&mut self, work: &Work) {
        self.flag("--clear-env", !work.inherit_env);
        for (name, value) in &work.env {
            let mut assignment = name.clone();
            assignment.push("=");
            assignment.push(value);
            self.pair("--env", assignment);
        }
        // After those with a value: the last of a name counts.
        for name in &work.pass_env {
            self.pair("--env", name);
        }
    }

    fn limits(&mut self, work: &Work) {
        let ms = |time: Duration| format!("{}ms", time.as_millis());
        self.pair("--wait", ms(work.wait));
        for (option, time) in [("--timeout", work.timeout), ("--grace", work.grace)] {
            if let Some(time) = time {
                self.pair(option, ms(time));
            }
        }
        if let Some(limit) = work.max_output_bytes {
            self.pair("--max-output", limit.to_string());
        }
        if let Some(limit) = work.max_stored_bytes {
            self.pair("--max-stored", limit.to_string());
        }
        if work.descendants_may_stay {
            self.pair("--descendants", "wait");
        }
        if let Some(bytes) = work.watched_memory_bytes {
            self.pair("--memory", bytes.to_string());
            self.pair("--limits", "soft");
        }
        match work.hard_limit {
            None => {}
            Some(Limit::Memory) => self.pair("--memory", "64MiB"),
            Some(Limit::Pids) => self.pair("--pids", "16"),
            Some(Limit::CpuTime) => self.pair("--cpu-time", "10s"),
        }
    }

    /// With an equals sign, so that no value is taken for an option.
    fn pair(&mut self, option: &str, value: impl AsRef<OsStr>) {
        let mut word = OsString::from(option);
        word.push("=");
        word.push(value);
        self.0.push(word);
    }

    fn flag(&mut self, option: &str, on: bool) {
        if on {
            self.0.push(option.into());
        }
    }
}

/// A command that was started.
struct Running<'a> {
    shell: &'a Shell<'a>,
    id: String,
    live: bool,
    started: Started<'a>,
}

impl Submitted for Running<'_> {
    fn cancel(&self) -> Result<Result<(), Refusal>, Unsupported> {
        // A process that has ended and was not waited for takes signals, too.
        self.started.signal(Signal::TERM);
        Ok(Ok(()))
    }

    fn kill_client(self: Box<Self>) {
        self.started.signal(Signal::KILL);
        self.started.finish();
    }

    fn wait_for_output(&mut self, part: &[u8]) {
        assert!(self.live, "only live work is looked at");
        self.started.wait_for_output(part);
    }

    fn wait(self: Box<Self>) -> Ended {
        let finished = self.started.finish();
        if !self.live {
            return answer(&finished);
        }
        live_answer(self.shell.record(&self.id), &finished)
    }
}

/// What somebody at a prompt knows afterwards: what is recorded, and what was said beside the output.
fn live_answer(record: Option<Record>, finished: &Finished) -> Ended {
    let said = String::from_utf8_lossy(&finished.stderr);
    if said.contains(", which goes on") {
        let (kind, text) = (RefusalKind::JoinAbandoned, said.into_owned());
        return Err(Refusal { kind, text });
    }
    let result = record.and_then(|record| record.result);
    let Some(Document(mut result)) = result else {
        panic!("no result is recorded\n{finished}");
    };
    let reused = if said.contains("and was joined") {
        Some("joined_in_flight")
    } else if said.contains("was not executed again") {
        Some("replayed_recorded")
    } else {
        None
    };
    result["replayed"] = reused.is_some().into();
    result["reused"] = reused.unwrap_or("executed").into();
    Ok(Document(result))
}

/// Reads the one document on standard output, which an error is too.
fn answer(finished: &Finished) -> Ended {
    let document = finished.json();
    let Some(error) = document.get("error") else {
        return Ok(Document(document));
    };
    let code = finished.status.code();
    assert!(
        error["exitCode"].as_i64() == code.map(i64::from),
        "the document has another exit status\n{finished}"
    );
    let kind = match (error["kind"].as_str().unwrap_or_default(), code) {
        ("resource_conflict", Some(75)) => RefusalKind::ResourceConflict,
        ("budget_exceeded", Some(69)) | ("memory_unlimited", Some(64)) => RefusalKind::OverBudget,
        ("domain_locked", Some(75)) => RefusalKind::DomainLocked,
        ("operation_id_conflict", Some(76)) => RefusalKind::IdConflict,
        ("recovery_required", _) => RefusalKind::RecoveryRequired,
        ("run_closed", _) => RefusalKind::RunClosed,
        ("join_abandoned", _) => RefusalKind::JoinAbandoned,
        ("not_found", Some(1)) => RefusalKind::NotFound,
        ("already_completed", Some(1)) => RefusalKind::AlreadyCompleted,
        ("still_alive", Some(79)) => RefusalKind::StillAlive,
        ("already_adjudicated", Some(1)) => RefusalKind::AlreadyAdjudicated,
        ("arbiter_lost", _) => RefusalKind::ArbiterGone,
        ("domain_closed" | "shutting_down", _) => RefusalKind::DomainClosed,
        ("driver_refused" | "limits_refused" | "group_refused", Some(69)) => {
            RefusalKind::NotEnforceable
        }
        ("fenced", Some(75)) => RefusalKind::Fenced,
        ("not_recorded", Some(70)) => RefusalKind::NotRecorded,
        _ => RefusalKind::Other,
    };
    let texts = [&error["message"], &error["causes"]].map(Value::to_string);
    Err(Refusal {
        kind,
        text: texts.join(" "),
    })
}

fn event(event: &Value) -> Event {
    let text = |name: &str| event[name].as_str().map(str::to_owned);
    Event {
        seq: event["seq"].as_i64().expect("a position"),
        kind: text("type").expect("a name"),
        run_id: text("runId"),
        operation_id: text("operationId"),
        payload: event["payload"].clone(),
    }
}

fn texts(list: &Value) -> Vec<String> {
    let list = list.as_array().expect("a list");
    list.iter()
        .map(|text| text.as_str().expect("text").to_owned())
        .collect()
}
