//! The options of `run` that limit what a command may use.

use std::time::Duration;

use clap::{Args, ValueEnum};
use xioflow_kernel::{Enforcement, ResourceLimits};

use crate::count::parse_count;
use crate::duration::parse_duration;
use crate::exit::Code;
use crate::failure::Failure;
use crate::size::parse_size;

/// Above them.
const HEADING: &str = "Limits on everything that it starts, together (docs/limits.md)";

#[derive(Debug, Args)]
#[command(next_help_heading = HEADING)]
pub(crate) struct LimitArgs {
    /// Memory: 512MiB, 2GiB. Beyond it the kernel ends all of it (exit status 137); swap is not used
    #[arg(long, value_name = "SIZE", value_parser = parse_memory)]
    pub(crate) memory: Option<u64>,

    /// Processes and threads at one time. The first that is too many is not made, and the rest is stopped
    #[arg(long, value_name = "N", value_parser = parse_pids)]
    pub(crate) pids: Option<u64>,

    /// Processors at one time: 2, 0.5. It is slowed, and not ended
    #[arg(long, value_name = "N", value_parser = parse_cpus)]
    pub(crate) cpus: Option<u32>,

    /// Processor time in all (60s, 1h30m). What has used it up is stopped
    #[arg(long, value_name = "TIME", value_parser = parse_cpu_time)]
    pub(crate) cpu_time: Option<Duration>,

    /// How limits are enforced [default: hard]
    #[arg(long, value_enum)]
    pub(crate) limits: Option<Limits>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Limits {
    /// By the kernel, in a control group of its own; exit status 69 where that cannot be had
    Hard,
    /// By watching and stopping, with or without a control group
    Soft,
    /// Not at all; what was used is recorded
    Observe,
}

impl LimitArgs {
    /// The limits that are asked for; none without one of these options.
    pub(crate) fn asked(&self) -> Result<Option<ResourceLimits>, Failure> {
        let limits = ResourceLimits {
            memory_max_bytes: self.memory,
            pids_max: self.pids,
            milli_cpus: self.cpus,
            cpu_time: self.cpu_time,
            enforcement: match self.limits {
                None | Some(Limits::Hard) => Enforcement::Hard,
                Some(Limits::Soft) => Enforcement::Soft,
                Some(Limits::Observe) => Enforcement::Observe,
            },
        };
        match (limits.validate(), self.limits) {
            (Ok(()), _) => Ok(Some(limits)),
            (Err(xioflow_kernel::InvalidLimits::None), None) => Ok(None),
            (Err(error), _) => Err(Failure::of("usage", Code::Usage, &error)
                .hint("add one of --memory 512MiB, --pids 256, --cpus 1.5, --cpu-time 60s")),
        }
    }
}

/// Says what is wrong with one limit where it stands.
fn checked(limits: ResourceLimits) -> Result<(), String> {
    limits.validate().map_err(|error| error.to_string())
}

fn parse_memory(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text)?;
    checked(ResourceLimits::default().memory_bytes(bytes))?;
    Ok(bytes)
}

fn parse_pids(text: &str) -> Result<u64, String> {
    let pids = parse_count(text)?;
    checked(ResourceLimits::default().pids(pids))?;
    Ok(pids)
}

/// Parses `2` and `1.5` into thousandths.
fn parse_cpus(text: &str) -> Result<u32, String> {
    let milli_cpus = milli(text).ok_or("write a number of processors, such as 2 or 1.5")?;
    checked(ResourceLimits::default().milli_cpus(milli_cpus))?;
    Ok(milli_cpus)
}

/// A number with up to three digits behind its point, times a thousand; one that is too large is the greatest.
fn milli(text: &str) -> Option<u32> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() && part.is_empty() || !digits(whole) || !digits(part) || part.len() > 3 {
        return None;
    }
    let whole = match whole.is_empty() {
        true => 0,
        false => whole.parse().unwrap_or(u32::MAX),
    };
    let part: u32 = format!("{part:0<3}").parse().ok()?;
    Some(whole.saturating_mul(1000).saturating_add(part))
}

fn parse_cpu_time(text: &str) -> Result<Duration, String> {
    let time = parse_duration(text)?;
    checked(ResourceLimits::default().cpu_time(time))?;
    Ok(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_counted_in_thousandths() {
        for (text, milli_cpus) in [
            ("2", 2000),
            ("1.5", 1500),
            ("0.01", 10),
            (".5", 500),
            ("1.255", 1255),
        ] {
            assert_eq!(parse_cpus(text), Ok(milli_cpus), "{text}");
        }
        for bad in [
            "",
            ".",
            "0",
            "0.009",
            "-1",
            "1.2345",
            "nan",
            "inf",
            "1e3",
            "99999999999",
            "1,5",
        ] {
            assert!(parse_cpus(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_limit_that_cannot_be_meant_says_why_where_it_stands() {
        assert!(parse_memory("512").unwrap_err().contains("1 MiB"));
        assert!(parse_memory("0").is_err());
        assert!(parse_memory("99999999TiB").is_err());
        assert!(parse_memory("2 parsecs").unwrap_err().contains("512MiB"));
        assert!(parse_pids("0").is_err());
        assert!(parse_pids("99999999").unwrap_err().contains("at most"));
        assert!(parse_cpu_time("0").is_err());
        assert!(parse_cpu_time("60").unwrap_err().contains("60s"));
        assert_eq!(parse_cpu_time("60s"), Ok(Duration::from_secs(60)));
    }
}
