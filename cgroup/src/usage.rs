//! What a leaf has used: peaks, processor time, bytes, pressure. Parsing is pure.
//!
//! Neighbours: `leaf` asks at the end of an operation and while it runs.

use crate::directory::Directory;
use crate::flat;

/// What the processes of a leaf, and of the groups below it, used since it was made.
///
/// Each is null where the kernel has no such file, which is so without the controller, and where
/// the file could not be read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// The most memory at one moment (`memory.peak`, since Linux 5.19).
    pub memory_peak_bytes: Option<u64>,
    /// The most processes and threads at one moment (`pids.peak`).
    pub pids_peak: Option<u64>,
    /// Processor time in user space (`cpu.stat`, which needs no controller).
    pub cpu_user_us: Option<u64>,
    /// Processor time in the kernel.
    pub cpu_system_us: Option<u64>,
    /// Bytes read from disks (`io.stat`); what the page cache gave is not among them.
    pub io_read_bytes: Option<u64>,
    /// Bytes written to disks.
    pub io_write_bytes: Option<u64>,
    /// Time lost for want of something.
    pub pressure: Pressures,
}

/// Time lost for want of each resource.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pressures {
    /// `cpu.pressure`.
    pub cpu: Pressure,
    /// `memory.pressure`.
    pub memory: Pressure,
    /// `io.pressure`.
    pub io: Pressure,
}

/// Time lost for want of one resource, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pressure {
    /// Some processes stood still.
    pub some_us: Option<u64>,
    /// All of them did.
    pub full_us: Option<u64>,
}

impl Pressure {
    /// Reads `some avg10=… avg60=… avg300=… total=…` and the same with `full`.
    pub(crate) fn parse(text: &str) -> Self {
        let total = |kind: &str| {
            let mut lines = text.lines();
            lines.find_map(|line| flat::field(line.strip_prefix(kind)?, "total"))
        };
        Self {
            some_us: total("some "),
            full_us: total("full "),
        }
    }
}

impl Usage {
    pub(crate) fn observe(directory: &Directory) -> Self {
        let read = |file: &str| directory.read(file).ok();
        let cpu = read("cpu.stat").unwrap_or_default();
        let io = read("io.stat");
        let pressure = |file: &str| read(file).map(|text| Pressure::parse(&text));
        Self {
            memory_peak_bytes: read("memory.peak").and_then(|text| flat::single(&text)),
            pids_peak: read("pids.peak").and_then(|text| flat::single(&text)),
            cpu_user_us: flat::number(&cpu, "user_usec"),
            cpu_system_us: flat::number(&cpu, "system_usec"),
            io_read_bytes: io.as_deref().map(|text| sum(text, "rbytes")),
            io_write_bytes: io.as_deref().map(|text| sum(text, "wbytes")),
            pressure: Pressures {
                cpu: pressure("cpu.pressure").unwrap_or_default(),
                memory: pressure("memory.pressure").unwrap_or_default(),
                io: pressure("io.pressure").unwrap_or_default(),
            },
        }
    }
}

/// Of all disks. A leaf that touched none has an empty file, which is a clear zero.
fn sum(io_stat: &str, name: &str) -> u64 {
    let disks = io_stat.lines().filter_map(|line| flat::field(line, name));
    disks.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_there_is_is_read_and_the_rest_is_null() {
        let dir = tempfile::tempdir().expect("a folder");
        let files = [
            ("memory.peak", "4096\n"),
            (
                "cpu.stat",
                "usage_usec 30\nuser_usec 10\nsystem_usec 20\nnr_periods 0\n",
            ),
            (
                "io.stat",
                "8:0 rbytes=10 wbytes=1 rios=1\n8:16 rbytes=5 wbytes=2 rios=1\n",
            ),
            (
                "cpu.pressure",
                "some avg10=0.00 avg60=0.00 avg300=0.00 total=77\n",
            ),
            (
                "io.pressure",
                "some avg10=1.00 total=9\nfull avg10=0.50 total=4\n",
            ),
        ];
        for (name, content) in files {
            fs::write(dir.path().join(name), content).expect("a fake control file");
        }
        let directory = Directory::open_plain(dir.path()).expect("a fake group");
        let usage = Usage::observe(&directory);
        assert_eq!(usage.memory_peak_bytes, Some(4096));
        assert_eq!(usage.pids_peak, None);
        assert_eq!(
            (usage.cpu_user_us, usage.cpu_system_us),
            (Some(10), Some(20))
        );
        assert_eq!(
            (usage.io_read_bytes, usage.io_write_bytes),
            (Some(15), Some(3))
        );
        let cpu = Pressure {
            some_us: Some(77),
            full_us: None,
        };
        assert_eq!(usage.pressure.cpu, cpu);
        assert_eq!(usage.pressure.io.full_us, Some(4));
        assert_eq!(usage.pressure.memory, Pressure::default());
    }

    #[test]
    fn a_group_without_files_has_used_nothing_that_is_known() {
        let dir = tempfile::tempdir().expect("a folder");
        let directory = Directory::open_plain(dir.path()).expect("a fake group");
        assert_eq!(Usage::observe(&directory), Usage::default());
    }

    #[test]
    fn no_disk_touched_is_zero() {
        assert_eq!(sum("", "rbytes"), 0);
        assert_eq!(sum("8:0 \n", "rbytes"), 0);
    }
}
