//! What was looked at, as rows: shares of processors from two looks, and units for people. Pure; time is a value.

use std::collections::HashMap;
use std::time::Instant;

use serde::Serialize;
use xioflow_kernel::{Load, ResourceLimits};

use crate::duration::format_ms;
use crate::output::printable;
use crate::size::format_size;

/// One operation with what it has used since the look before.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Watched {
    #[serde(flatten)]
    load: Load,
    /// Processors that it had since the look before, in thousandths of one; null at the first look.
    milli_cpus: Option<u64>,
}

/// Remembers the look before.
#[derive(Default)]
pub(super) struct Figures {
    before: HashMap<String, u64>,
    at: Option<Instant>,
}

impl Figures {
    /// Takes what was seen now; those that use the most come first.
    pub(super) fn note(&mut self, loads: Vec<Load>, now: Instant) -> Vec<Watched> {
        let elapsed_ms = self
            .at
            .map(|at| now.saturating_duration_since(at).as_millis());
        let elapsed_ms = elapsed_ms
            .and_then(|ms| u64::try_from(ms).ok())
            .filter(|ms| *ms > 0);
        let mut seen = HashMap::new();
        let mut watched: Vec<Watched> = Vec::with_capacity(loads.len());
        for load in loads {
            let before = self.before.get(&load.operation_id);
            let milli_cpus = before.zip(load.cpu_ms).zip(elapsed_ms);
            // Processes that ended unwaited for take their time along, so it may be less.
            let milli_cpus = milli_cpus
                .map(|((before, cpu), elapsed)| cpu.saturating_sub(*before) * 1000 / elapsed);
            if let Some(cpu_ms) = load.cpu_ms {
                seen.insert(load.operation_id.clone(), cpu_ms);
            }
            watched.push(Watched { load, milli_cpus });
        }
        (self.before, self.at) = (seen, Some(now));
        // Stable: those that use as much stay in the order of their ids.
        watched.sort_by_key(|it| std::cmp::Reverse((it.milli_cpus, it.load.memory_bytes)));
        watched
    }
}

const COLUMNS: usize = 10;

const HEAD: [&str; COLUMNS] = [
    "OPERATION",
    "STATE",
    "AGE",
    "CPU",
    "TIME",
    "TASKS",
    "MEMORY",
    "READ/WRITTEN",
    "LIMITS",
    "NAME",
];

/// The head and a line for each.
pub(super) fn lines(watched: &[Watched]) -> Vec<String> {
    let head = HEAD.map(str::to_owned);
    let rows: Vec<_> = std::iter::once(head)
        .chain(watched.iter().map(row))
        .collect();
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max();
    let widths: Vec<usize> = (0..COLUMNS).map(|at| width(at).unwrap_or(0)).collect();
    let line = |row: &[String; COLUMNS]| {
        let cells = row.iter().zip(&widths);
        let cells: Vec<String> = cells
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        cells.join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

fn row(watched: &Watched) -> [String; COLUMNS] {
    let Watched { load, milli_cpus } = watched;
    let dash = || "-".to_owned();
    let size = |bytes: Option<u64>| bytes.map_or_else(dash, format_size);
    let io = match (load.io_read_bytes, load.io_write_bytes) {
        (None, None) => dash(),
        (read, written) => format!("{}/{}", size(read), size(written)),
    };
    // What was not all seen is at least that.
    let more = if load.is_complete || load.tasks.is_none() {
        ""
    } else {
        "+"
    };
    [
        printable(&load.operation_id),
        load.state.as_str().to_owned(),
        load.age_ms.map_or_else(dash, format_ms),
        milli_cpus.map_or_else(dash, |milli| format!("{}.{}%", milli / 10, milli % 10)),
        load.cpu_ms.map_or_else(dash, format_ms),
        load.tasks
            .map_or_else(dash, |tasks| format!("{tasks}{more}")),
        size(load.memory_bytes),
        io,
        load.limits.as_ref().map_or_else(dash, limits),
        load.name.as_deref().map_or_else(dash, printable),
    ]
}

fn limits(limits: &ResourceLimits) -> String {
    let parts = [
        limits.memory_max_bytes.map(format_size),
        limits.pids_max.map(|max| format!("{max} tasks")),
        limits
            .milli_cpus
            .map(|milli| format!("{}.{:03} cpus", milli / 1000, milli % 1000)),
        limits.cpu_time.map(|time| {
            let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
            format!("{} of cpu", format_ms(ms))
        }),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    format!("{} ({})", parts.join(", "), limits.enforcement)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use xioflow_kernel::LoadState;

    fn load(id: &str, cpu_ms: u64) -> Load {
        Load {
            operation_id: id.to_owned(),
            name: Some("make".to_owned()),
            state: LoadState::Running,
            age_ms: Some(61_000),
            tasks: Some(3),
            memory_bytes: Some(3 << 20),
            cpu_ms: Some(cpu_ms),
            io_read_bytes: None,
            io_write_bytes: None,
            is_complete: true,
            limits: None,
        }
    }

    #[test]
    fn a_share_is_what_came_between_two_looks() {
        let (mut figures, begin) = (Figures::default(), Instant::now());
        let first = figures.note(vec![load("a", 500), load("b", 100)], begin);
        assert!(first.iter().all(|it| it.milli_cpus.is_none()));
        let now = begin + Duration::from_secs(2);
        let second = figures.note(vec![load("a", 600), load("b", 3100), load("c", 9)], now);
        let shares: Vec<_> = second
            .iter()
            .map(|it| (it.load.operation_id.as_str(), it.milli_cpus))
            .collect();
        assert_eq!(shares, [("b", Some(1500)), ("a", Some(50)), ("c", None)]);
        let less = figures.note(vec![load("a", 10)], now + Duration::from_secs(1));
        assert_eq!(less[0].milli_cpus, Some(0));
    }

    #[test]
    fn what_was_not_seen_is_a_dash_and_what_is_not_all_has_a_mark() {
        let mut figures = Figures::default();
        let partly = Load {
            is_complete: false,
            ..load("partly", 1)
        };
        let unseen = Load {
            tasks: None,
            memory_bytes: None,
            cpu_ms: None,
            is_complete: false,
            ..load("unseen", 0)
        };
        let lines = lines(&figures.note(vec![partly, unseen], Instant::now()));
        assert!(
            lines[1].contains("3+") && lines[1].contains("3.0 MiB"),
            "{lines:?}"
        );
        let cells: Vec<&str> = lines[2].split_whitespace().collect();
        let time = ["1", "m", "1", "s"];
        let expected = [&["unseen", "running"], &time[..], &["-"; 6], &["make"]].concat();
        assert_eq!(cells, expected);
    }
}
