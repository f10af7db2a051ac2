//! The verb `vm`: suites in a virtual machine, in the places that a host may not have.
//!
//! `asked` reads the words, `guest` makes images, `payload` builds what the guest runs, `machine` starts it, `report` reads
//! what it says. What happens in the guest is in `tests/vm/guest`; docs/testing.md says how it is used.

mod asked;
mod guest;
mod machine;
mod payload;
mod plan;
mod report;

use std::env;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use self::asked::{Asked, Work};
use self::guest::{Guest, Image, at};
use self::machine::Machine;
use self::payload::{Linking, Papers, TestProgram};
use self::plan::{Entry, Place, Suite};
use self::report::Report;
use crate::tool::{Failure, read, target_dir};

/// Seconds that a guest has for coming up and going down, beside its suites: many times what it takes.
const BOOT_SECONDS: u32 = 180;

/// How much longer tests wait where the processor is emulated.
const SLOW_EMULATED: u32 = 4;

/// Programs that are needed, and the packages of Debian that have them.
const NEEDED: [(&str, &str); 5] = [
    (machine::QEMU, "qemu-system-x86"),
    ("mmdebstrap", "mmdebstrap"),
    ("mkfs.ext4", "e2fsprogs"),
    ("setpriv", "util-linux"),
    ("strip", "binutils"),
];

/// Runs what is asked for in each guest. Where a guest cannot be had it says that it is skipped.
pub(crate) fn vm(words: &[String]) -> Result<String, Failure> {
    if words
        .iter()
        .take_while(|word| *word != "--")
        .any(|word| word == "--help" || word == "-h")
    {
        println!("{}", asked::HELP);
        return Ok("nothing was run".to_owned());
    }
    let asked = asked::asked(words).map_err(Failure::Usage)?;
    if let Some(lack) = lack() {
        println!("skipped vm: {lack}");
        return Ok(format!("skipped, {lack}"));
    }
    let cache = target_dir()?.join("vm");
    fs::create_dir_all(&cache).map_err(at(&cache))?;
    let (mut passed, mut failed) = (0, Vec::new());
    for guest in &asked.guests {
        let report = run_guest(guest, &asked, &cache)?;
        passed += report.passed();
        if report.failed() > 0 {
            failed.push(format!("{} in {}", report.failed(), guest.name));
        }
    }
    if failed.is_empty() {
        Ok(format!("{passed} tests passed in guests"))
    } else {
        Err(Failure::Suites(failed.join(", ")))
    }
}

/// What this host lacks, if anything.
fn lack() -> Option<String> {
    if env::consts::ARCH != "x86_64" {
        return Some(format!(
            "guests are for x86_64, and this host is {}",
            env::consts::ARCH
        ));
    }
    NEEDED.iter().find_map(|(program, package)| {
        let mut ask = Command::new(program);
        ask.arg(if *program == "mkfs.ext4" {
            "-V"
        } else {
            "--version"
        });
        let asked = ask.stdout(Stdio::null()).stderr(Stdio::null()).status();
        asked
            .is_err()
            .then(|| format!("no {program} (Debian: {package})"))
    })
}

fn run_guest(guest: &Guest, asked: &Asked, cache: &Path) -> Result<Report, Failure> {
    let image = guest.image(cache)?;
    let linking = linking(asked, &image)?;
    let programs = payload::build_programs(linking)?;
    let (entries, tests) = entries(asked, linking)?;
    let has_kvm = machine::has_kvm(asked.accel, &image, cache)?;
    let folder = guest::temporary_folder(cache)?;
    let slow = asked
        .slow
        .unwrap_or(if has_kvm { 1 } else { SLOW_EMULATED });
    let papers = Papers {
        plan: &plan::text(&entries).map_err(Failure::Usage)?,
        environment: &environment(slow),
        shell: (asked.work == Work::Shell).then(|| asked.places[0].name()),
    };
    let lane = payload::disk(folder.path(), &programs, &tests, &papers)?;
    let machine = Machine {
        image: &image,
        lane: &lane,
        console: &cache.join(format!("console-{}.log", guest.name)),
        folder: folder.path(),
        has_kvm,
        seconds: BOOT_SECONDS + entries.iter().map(|entry| entry.seconds).sum::<u32>(),
    };
    if asked.work == Work::Shell {
        machine.run_shell()?;
        return Ok(Report::default());
    }
    listen(guest, &machine)
}

/// Starts the machine and repeats what it says.
fn listen(guest: &Guest, machine: &Machine<'_>) -> Result<Report, Failure> {
    let mut report = Report::default();
    let ended = machine.run(|line| {
        if let Some(shown) = report.take(line) {
            println!("{shown}");
        }
    });
    for line in report.lines(guest.name) {
        println!("{line}");
    }
    ended?;
    if report.is_done() {
        Ok(report)
    } else {
        Err(machine.failure("the guest has ended before its work".to_owned()))
    }
}

/// How the tests are linked: this host's C library must not be newer than the guest's.
fn linking(asked: &Asked, image: &Image) -> Result<Linking, Failure> {
    let ours = read(Command::new("getconf").arg("GNU_LIBC_VERSION"))?;
    let theirs = image.libc()?;
    Ok(
        if asked.links_statically || version(&ours) > version(&theirs) {
            Linking::Static
        } else {
            Linking::Dynamic
        },
    )
}

/// The numbers of `glibc 2.36`.
fn version(said: &str) -> Vec<u32> {
    let last = said.split_whitespace().next_back().unwrap_or_default();
    last.split('.')
        .filter_map(|number| number.parse().ok())
        .collect()
}

/// What the guest goes through, and the programs of tests that this needs.
fn entries(asked: &Asked, linking: Linking) -> Result<(Vec<Entry>, Vec<TestProgram>), Failure> {
    let entry = |place, name: &str, words| Entry {
        place,
        name: name.to_owned(),
        seconds: asked.seconds,
        words,
    };
    let (mut entries, mut tests) = (Vec::new(), Vec::new());
    match &asked.work {
        Work::Shell => {}
        Work::Command(text) => {
            let words = ["/bin/bash", "-c", text].map(str::to_owned);
            let places = asked.places_or(&Place::ALL);
            entries.extend(
                places
                    .iter()
                    .map(|place| entry(*place, "command", words.to_vec())),
            );
        }
        Work::Suites(suites) => {
            for suite in suites {
                let programs = payload::build_suite(suite, linking)?;
                for place in asked.places_or(suite.places) {
                    let words = programs.iter().map(|program| words(program, suite, asked));
                    entries.extend(words.map(|words| entry(*place, &suite.name, words)));
                }
                tests.extend(programs);
            }
        }
    }
    Ok((entries, tests))
}

/// The command line of a test program in the guest.
fn words(program: &TestProgram, suite: &Suite, asked: &Asked) -> Vec<String> {
    let mut words = vec![program.in_guest(), "--show-output".to_owned()];
    if asked.arguments.is_empty() {
        words.extend(suite.arguments.iter().map(|word| (*word).to_owned()));
    }
    words.extend(asked.arguments.iter().cloned());
    words
}

/// Variables of tests that are of this host and mean nothing in a guest.
const OF_THIS_HOST: [&str; 2] = ["XIOFLOW_TEST_BIN_DIR", "XIOFLOW_TEST_TYPESCRIPT"];

/// The variables of the tests, as lines for the guest's shell.
fn environment(slow: u32) -> String {
    let ours = env::vars().filter(|(name, _)| {
        name.starts_with("XIOFLOW_TEST_") && !OF_THIS_HOST.contains(&name.as_str())
    });
    let slow = ("XIOFLOW_TEST_SLOW".to_owned(), slow.to_string());
    let quoted = |value: String| value.replace('\'', "'\\''");
    std::iter::once(slow)
        .chain(ours)
        .map(|(name, value)| format!("export {name}='{}'\n", quoted(value)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        assert!(version("glibc 2.36\n") < version("glibc 2.41"));
        assert!(version("glibc 2.9") < version("glibc 2.36"));
        assert_eq!(version("glibc 2.36"), [2, 36]);
    }
}
