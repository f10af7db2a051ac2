//! `xioflow recover`: has what an owner left settled, and says how each operation was decided, on what, and what waits
//! for a person. With `--dry-run` it reads only.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;
use xioflow_kernel::journal::{OwnerState, Query, Reader};
use xioflow_kernel::{
    Arbiter, Decision, DomainOptions, First, LeasesAre, SweptGroup, Verdict, preview_recovery,
};

use super::report;
use crate::args::{Cli, RecoverArgs};
use crate::exit::Code;
use crate::failure::Failure;
use crate::output::{print, print_json, printable};
use crate::size::format_size;
use crate::views::OwnerView;
use crate::{arbiter, domain};

/// Processes that are named in one line.
const NAMED_MAX: usize = 10;

/// Operations that wait and are named. The total counts all.
const WAITING_MAX: usize = 1000;

/// Where the decisions come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Source {
    /// They were made now.
    Recovered,
    /// They would be made.
    Preview,
    /// They were made when the present owner took the domain over.
    LastReport,
    /// The present owner has no report; it has settled what there was when it took the domain over.
    OwnedElsewhere,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Recovery {
    domain: String,
    source: Source,
    /// Who owns it beside this program.
    owner: OwnerView,
    decisions: Vec<Decision>,
    /// Control groups that belonged to no operation, and what became of them; told by who has swept them only.
    swept_groups: Vec<SweptGroup>,
    /// Operations that wait for a person, these and earlier ones; the first 1000.
    waiting: Vec<Waiting>,
    /// All of them. In a preview also those that would wait, which are among the decisions.
    waiting_total: u64,
}

/// An operation whose end is unknown, and about which nobody has decided.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Waiting {
    operation_id: String,
    leases: Vec<String>,
    reason: Value,
    guidance: Value,
}

pub(crate) fn run(cli: &Cli, args: &RecoverArgs) -> Result<Code, Failure> {
    let folder = domain::locate(cli.domain())?;
    // Nothing is made where there is no domain.
    let reader = Reader::open(&folder)?;
    let Settled {
        source,
        decisions,
        swept_groups,
    } = match args.dry_run {
        true => foresee(&folder, &reader)?,
        false => settle(&folder, args)?,
    };
    let (waiting, recorded) = waiting(&reader)?;
    let foreseen = match source {
        Source::Preview => decisions.iter().filter(|it| is_kept(it)).count() as u64,
        _ => 0,
    };
    let recovery = Recovery {
        domain: reader.dir().root().display().to_string(),
        source,
        owner: reader.owner_state().into(),
        decisions,
        swept_groups,
        waiting,
        waiting_total: recorded + foreseen,
    };
    if args.json {
        print_json(&recovery)?;
    } else {
        print(&text(&recovery))?;
    }
    Ok(match (recovery.waiting_total, recovery.source) {
        (0, Source::OwnedElsewhere) => Code::Busy,
        (0, _) => Code::Ok,
        _ => Code::Indeterminate,
    })
}

fn is_kept(decision: &Decision) -> bool {
    decision.leases == LeasesAre::Kept
}

/// What was decided, or would be.
struct Settled {
    source: Source,
    decisions: Vec<Decision>,
    swept_groups: Vec<SweptGroup>,
}

impl Settled {
    fn told(source: Source, decisions: Vec<Decision>) -> Self {
        Self {
            source,
            decisions,
            swept_groups: Vec::new(),
        }
    }
}

/// What would be decided. What an owner has in flight is no work of recovery.
fn foresee(folder: &Path, reader: &Reader) -> Result<Settled, Failure> {
    if let OwnerState::Held { .. } = reader.owner_state() {
        return reported(folder);
    }
    Ok(Settled::told(
        Source::Preview,
        preview_recovery(reader, folder)?,
    ))
}

/// Takes the domain for a moment: what there is to settle is settled by that.
fn settle(folder: &Path, args: &RecoverArgs) -> Result<Settled, Failure> {
    if let Some(domain) = arbiter::attached(folder)? {
        return Ok(Settled::told(Source::LastReport, domain.last_report()?));
    }
    let options = DomainOptions::default()
        .warm_helpers(0)
        .arbiter(Arbiter::Never)
        .wait(args.wait);
    match options.open(folder) {
        Ok(domain) => Ok(Settled {
            swept_groups: domain.swept_groups().to_vec(),
            ..Settled::told(Source::Recovered, domain.recovered().to_vec())
        }),
        Err(error) => {
            let failure = Failure::from(error);
            match failure.kind() {
                crate::failure::DOMAIN_LOCKED => reported(folder),
                _ => Err(failure),
            }
        }
    }
}

/// What the present owner says.
fn reported(folder: &Path) -> Result<Settled, Failure> {
    match arbiter::attached(folder)? {
        Some(domain) => Ok(Settled::told(Source::LastReport, domain.last_report()?)),
        None => Ok(Settled::told(Source::OwnedElsewhere, Vec::new())),
    }
}

fn waiting(reader: &Reader) -> Result<(Vec<Waiting>, u64), Failure> {
    let mut leases: HashMap<String, Vec<String>> = HashMap::new();
    for lease in reader.leases()? {
        let of = leases.entry(lease.operation_id).or_default();
        of.push(lease.resource_id);
    }
    let operations = reader.unadjudicated(Some(WAITING_MAX))?;
    let waiting = operations.into_iter().map(|operation| {
        let field = |name: &str| {
            let result = operation.result.as_ref();
            result
                .and_then(|it| it.get(name))
                .cloned()
                .unwrap_or_default()
        };
        Waiting {
            leases: leases.remove(&operation.id).unwrap_or_default(),
            reason: field("reason"),
            guidance: field("recoveryGuidance"),
            operation_id: operation.id,
        }
    });
    Ok((waiting.collect(), reader.counts()?.unadjudicated))
}

fn text(recovery: &Recovery) -> String {
    let mut text = heading(recovery);
    for decision in &recovery.decisions {
        text += &block(decision, recovery.source == Source::Preview);
    }
    for group in &recovery.swept_groups {
        writeln!(text, "\n{}", report::swept_as(group)).ok();
    }
    for waiting in &recovery.waiting {
        text += &waits(waiting);
    }
    let more = recovery
        .waiting_total
        .saturating_sub(recovery.waiting.len() as u64);
    if recovery.source != Source::Preview && more > 0 {
        writeln!(text, "{more} more wait for a decision").ok();
    }
    text
}

fn heading(recovery: &Recovery) -> String {
    let count = recovery.decisions.len();
    let operations = match count {
        1 => "1 operation".to_owned(),
        _ => format!("{count} operations"),
    };
    match (recovery.source, count) {
        (Source::Recovered, 0) => "nothing to recover\n".to_owned(),
        (Source::Preview, 0) => "nothing would have to be recovered\n".to_owned(),
        (Source::Recovered, _) => format!("{operations} of an earlier owner settled\n"),
        (Source::Preview, _) => format!("{operations} of an earlier owner would be settled\n"),
        (Source::LastReport, 0) => {
            format!(
                "{} found nothing to recover when it took the domain over\n",
                owner(recovery)
            )
        }
        (Source::LastReport, _) => {
            format!(
                "{} settled {operations} when it took the domain over\n",
                owner(recovery)
            )
        }
        (Source::OwnedElsewhere, _) => format!(
            "{} owns the domain and has settled what there was when it took it over; it shows no report\n",
            owner(recovery)
        ),
    }
}

fn owner(recovery: &Recovery) -> String {
    match &recovery.owner.note {
        Some(note) => format!("process {}", note.owner_pid),
        None => "its owner".to_owned(),
    }
}

/// What was decided about one operation, on what, and what follows.
fn block(decision: &Decision, is_preview: bool) -> String {
    let id = printable(&decision.operation_id);
    let what = match (decision.verdict, is_preview) {
        (Verdict::StoppedAliveProcess, true) => "would be ended",
        (verdict, _) => report::what(verdict),
    };
    let mut text = format!("\noperation {id} {what} (case {})\n", decision.case);
    let mut line = |name: &str, said: String| {
        writeln!(text, "  {:<10}{said}", format!("{name}:")).ok();
    };
    line("evidence", printable(&decision.evidence));
    match decision.first {
        Some(First::WaitForHelper) => {
            line("first", "its helper is at work and would be waited for; this is what follows if it says nothing".to_owned());
        }
        Some(First::StopProcesses) => {
            line(
                "first",
                "its processes would be ended; this is what follows if all of them can be"
                    .to_owned(),
            );
        }
        None => {}
    }
    if let Some(guidance) = &decision.guidance {
        line("by hand", printable(guidance));
    }
    let leases = match decision.leases {
        LeasesAre::Freed => "freed",
        LeasesAre::Kept => "kept",
    };
    line(
        "follows",
        format!("{}, its leases are {leases}", decision.status),
    );
    if !decision.signalled.is_empty() {
        line("ended", pids(&decision.signalled));
    }
    if let Some(output) = output(decision) {
        line("output", output);
    }
    if decision.leases == LeasesAre::Kept && is_preview {
        line("to do", "`xioflow recover` first, then decide".to_owned());
    }
    text
}

fn pids(pids: &[u32]) -> String {
    let named: Vec<String> = pids.iter().take(NAMED_MAX).map(u32::to_string).collect();
    let more = match pids.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("processes {}{more}", named.join(", "))
}

/// How much of the output had reached the disk.
fn output(decision: &Decision) -> Option<String> {
    let streams = [
        ("stdout", decision.stdout_bytes),
        ("stderr", decision.stderr_bytes),
    ];
    let said: Vec<String> = streams
        .into_iter()
        .filter_map(|(stream, bytes)| Some(format!("{} of {stream}", format_size(bytes?))))
        .collect();
    (!said.is_empty()).then(|| format!("{} had been stored", said.join(", ")))
}

/// An operation that somebody has to decide about, with the advice that its result gives.
fn waits(waiting: &Waiting) -> String {
    let mut text = format!(
        "\noperation {} waits for a decision\n",
        printable(&waiting.operation_id)
    );
    let said = |value: &Value| value.as_str().map(printable);
    if let Some(reason) = said(&waiting.reason) {
        writeln!(text, "  because:  {reason}").ok();
    }
    if !waiting.leases.is_empty() {
        writeln!(
            text,
            "  keeps:    {}",
            printable(&waiting.leases.join(", "))
        )
        .ok();
    }
    if let Some(guidance) = said(&waiting.guidance) {
        writeln!(text, "  to do:    {guidance}").ok();
    }
    text
}
