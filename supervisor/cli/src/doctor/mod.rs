//! `xioflow doctor`: what this host can do for a supervised command, proven by doing it.
//!
//! [`examine`] runs every check of one table, in its order, and returns values; `render` writes
//! them for people. A check starts the smallest real thing, looks at what became of it, and leaves
//! nothing behind. It never reads another program's words to decide.
//!
//! `domain` examines a domain instead of the host.
//!
//! Neighbours: the command line passes the helper's path and a writer; each check has a file.

mod armour;
mod bubblewrap;
mod cgroup;
mod domain;
mod domain_filesystem;
mod escapee;
mod file_system;
mod git;
mod group_trial;
mod helper;
mod holder_probe;
mod landlock;
mod ofd_lock;
mod pid_namespace;
mod pidfd;
mod proc_children;
mod process_stat;
mod render;
mod report;
mod subreaper;
#[cfg(test)]
mod testing;
mod waiting_child;

use std::path::PathBuf;

pub(crate) use domain::{Progress, examine_domain};
pub(crate) use render::{render, render_json};
pub(crate) use report::Report;

use report::{Check, Finding, Subject};

/// What to examine.
#[derive(Debug, Clone)]
pub(crate) struct DoctorOptions {
    /// The helper's program, or the sentence that says why it was not found.
    pub(crate) helper: Result<PathBuf, String>,
    /// The folder of the domain. It need not exist.
    pub(crate) domain: PathBuf,
    /// The folder that commands would run in.
    pub(crate) work_dir: PathBuf,
}

/// One row of the table.
struct Examination {
    id: &'static str,
    title: &'static str,
    /// Whether `xioflow run` without limits and confinement needs it.
    required: bool,
    look: fn(&DoctorOptions) -> Finding,
}

/// From what everything needs to what only some commands ask for.
const EXAMINATIONS: [Examination; 11] = [
    Examination {
        id: "helper",
        title: "helper program",
        required: true,
        look: |options| helper::look(options.helper.as_deref()),
    },
    Examination {
        id: "subreaper",
        title: "escaping processes",
        required: true,
        look: |options| subreaper::look(options.helper.as_deref()),
    },
    Examination {
        id: "pid-namespace",
        title: "pid namespaces",
        required: false,
        look: |options| pid_namespace::look(options.helper.as_deref()),
    },
    Examination {
        id: "helper-armour",
        title: "armour of the helper",
        required: false,
        look: |options| armour::look(options.helper.as_deref()),
    },
    Examination {
        id: "pidfd",
        title: "process descriptors",
        required: false,
        look: |_| pidfd::look(),
    },
    Examination {
        id: "proc-children",
        title: "descendants in /proc",
        required: false,
        look: |_| proc_children::look(),
    },
    Examination {
        id: "domain-filesystem",
        title: "file system of the domain",
        required: true,
        look: |options| domain_filesystem::look(&options.domain),
    },
    Examination {
        id: "cgroup",
        title: "control groups",
        required: false,
        look: |options| cgroup::look(options.helper.as_deref()),
    },
    Examination {
        id: "landlock",
        title: "Landlock",
        required: false,
        look: |_| landlock::look(),
    },
    Examination {
        id: "bubblewrap",
        title: "bubblewrap",
        required: false,
        look: |_| bubblewrap::look(),
    },
    Examination {
        id: "git",
        title: "git",
        required: false,
        look: |options| git::look(&options.work_dir),
    },
];

/// Runs every check.
///
/// It takes well under a second on an idle machine; each thing that is started has a time limit.
/// On return nothing that it started or made is left, save what a check names.
pub(crate) fn examine(options: &DoctorOptions) -> Report {
    let checks = EXAMINATIONS.iter().map(|row| {
        let finding = (row.look)(options);
        Check::new(row.id, row.title, row.required, finding)
    });
    Report::new(Subject::Host, checks.collect())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::report::Verdict;
    use super::*;

    #[test]
    fn names_are_stable_looking_and_unique() {
        let ids: HashSet<_> = EXAMINATIONS.iter().map(|row| row.id).collect();
        assert_eq!(ids.len(), EXAMINATIONS.len());
        for id in ids {
            assert!(
                id.chars().all(|c| c.is_ascii_lowercase() || c == '-'),
                "{id} is kebab-case"
            );
        }
    }

    #[test]
    fn without_a_helper_the_host_is_not_ready_and_says_why() {
        let dir = tempfile::tempdir().expect("a folder");
        let options = DoctorOptions {
            helper: Err("not found beside the program".to_owned()),
            domain: dir.path().join("domain"),
            work_dir: dir.path().to_owned(),
        };
        let report = examine(&options);
        assert!(!report.ready);
        let helper = report
            .checks
            .iter()
            .find(|check| check.id == "helper")
            .expect("its check");
        assert_eq!(helper.verdict, Verdict::Missing);
        assert!(
            helper.detail.contains("not found beside the program"),
            "{}",
            helper.detail
        );
        assert_eq!(
            std::fs::read_dir(dir.path())
                .expect("it is a folder")
                .count(),
            0
        );
    }
}
