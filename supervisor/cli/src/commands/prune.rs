//! `xioflow prune`: removes stored output by age and size, through the arbiter if one serves the domain.

use std::fmt::Write as _;
use std::path::Path;

use xioflow_kernel::{PruneOptions, Pruned, PrunedFile, Tally, prune_preview};

use super::owning;
use crate::args::{Cli, PruneArgs};
use crate::domain;
use crate::exit::Code;
use crate::failure::Failure;
use crate::output::{complain, print, print_json, printable};
use crate::size::format_size;

/// Files that are named of each kind. The document names more.
const NAMED_MAX: usize = 10;

pub(crate) fn run(cli: &Cli, args: &PruneArgs) -> Result<Code, Failure> {
    let folder = domain::locate(cli.domain())?;
    let pruned = prune(&folder, args)?;
    if args.json {
        print_json(&pruned)?;
    } else {
        print(&text(&pruned))?;
        if !args.dry_run && pruned.bytes_after > args.max_bytes.unwrap_or(u64::MAX) {
            complain(&above_the_limit(&pruned));
        }
    }
    Ok(Code::Ok)
}

fn prune(folder: &Path, args: &PruneArgs) -> Result<Pruned, Failure> {
    let options = PruneOptions {
        max_age: args.max_age,
        max_bytes: args.max_bytes,
        dry_run: args.dry_run,
    };
    if args.dry_run {
        return Ok(prune_preview(folder, &options)?);
    }
    Ok(owning::open(folder)?.prune(&options)?)
}

fn text(pruned: &Pruned) -> String {
    let (removed, now) = match pruned.dry_run {
        true => ("would remove", "would be"),
        false => ("removed", "is"),
    };
    let mut text = format!("{removed} {}\n", of(pruned.removed_total));
    for file in pruned.removed.iter().take(NAMED_MAX) {
        text += &format!("  {}\n", named(file));
    }
    text += &more(
        pruned.removed_total.files,
        pruned.removed.len().min(NAMED_MAX),
    );
    if pruned.leftovers.files > 0 {
        writeln!(
            text,
            "{removed} {} that nothing refers to any more",
            of(pruned.leftovers)
        )
        .ok();
    }
    let kept = [
        (pruned.kept.unfinished, "of operations that have not ended"),
        (
            pruned.kept.indeterminate,
            "of operations whose end is unknown; `xioflow adjudicate` decides about them",
        ),
        (pruned.kept.open_run, "of Runs that are open"),
    ];
    for (tally, why) in kept {
        if tally.files > 0 {
            writeln!(text, "kept {} {why}", of(tally)).ok();
        }
    }
    if pruned.missing_total > 0 {
        let files = count(pruned.missing_total);
        writeln!(
            text,
            "{files} missing: gone, and not by pruning; `xioflow doctor --domain` names them"
        )
        .ok();
    }
    strangers(pruned, &mut text);
    let (before, after) = (
        format_size(pruned.bytes_before),
        format_size(pruned.bytes_after),
    );
    writeln!(text, "stored output was {before} and {now} {after}").ok();
    text
}

/// What is not ours.
fn strangers(pruned: &Pruned, text: &mut String) {
    for obstacle in pruned.obstacles.iter().take(NAMED_MAX) {
        let name = printable(&obstacle.name);
        writeln!(
            text,
            "left alone: {name} should be stored output and is a {}",
            obstacle.what
        )
        .ok();
    }
    *text += &more(
        pruned.obstacles_total,
        pruned.obstacles.len().min(NAMED_MAX),
    );
    if pruned.unknown_total.files > 0 {
        writeln!(
            text,
            "left alone: {} that nothing in the record explains",
            of(pruned.unknown_total)
        )
        .ok();
    }
    for name in pruned.unknown.iter().take(NAMED_MAX) {
        writeln!(text, "  {}", printable(name)).ok();
    }
    *text += &more(
        pruned.unknown_total.files,
        pruned.unknown.len().min(NAMED_MAX),
    );
}

fn named(file: &PrunedFile) -> String {
    let (id, bytes) = (printable(&file.operation_id), format_size(file.bytes));
    format!("{} of {id}, {bytes}, {}", file.stream, file.reason)
}

fn more(total: u64, named: usize) -> String {
    match total.saturating_sub(named as u64) {
        0 => String::new(),
        left => format!("  and {left} more; --json names the first 256\n"),
    }
}

fn of(tally: Tally) -> String {
    format!("{}, {}", count(tally.files), format_size(tally.bytes))
}

fn count(files: u64) -> String {
    match files {
        1 => "1 file".to_owned(),
        _ => format!("{files} files"),
    }
}

fn above_the_limit(pruned: &Pruned) -> String {
    let left = format_size(pruned.bytes_after);
    format!("{left} are left, which is more than asked for: what is kept is needed")
}
