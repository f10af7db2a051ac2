//! What a helper takes from itself once its command is made: asked of a real one that holds a command at its gate.
//!
//! Neighbours: `subreaper` has the launch, `holder_probe` speaks with the helper.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use xioflow_protocol::{Armour, Containment, FEATURE_ARMOUR, Reply, Request};

use super::holder_probe::{Holder, HolderError, out_of_order};
use super::report::{Finding, with_causes};
use super::subreaper::launch;

/// How long the whole trial may take on a loaded machine; it is some milliseconds.
const TRIAL_LIMIT: Duration = Duration::from_secs(10);

/// Why the trial came to no outcome.
#[derive(Debug, thiserror::Error)]
enum TrialError {
    /// Something beside the helper failed.
    #[error("open files for a trial")]
    Setup(#[from] io::Error),
    /// The helper failed.
    #[error(transparent)]
    Holder(#[from] HolderError),
    /// It is of a release that says nothing of it.
    #[error("the helper says nothing of it; install it from the same release as this program")]
    Lacks,
}

/// Has a helper hold a command that is not let run, and hears what it has put on.
pub(super) fn look(helper: Result<&Path, &String>) -> Finding {
    let Ok(path) = helper else {
        return Finding::cannot_tell("there is no helper to ask").with_facts(facts(None));
    };
    match run(path) {
        Ok(armour) => judge(&armour).with_facts(facts(Some(&armour))),
        Err(error) => Finding::cannot_tell(with_causes(&error)).with_facts(facts(None)),
    }
}

fn judge(armour: &Armour) -> Finding {
    let landlock = match armour.landlock_abi {
        Some(abi) => format!("Landlock (ABI {abi}) keeps it from files"),
        None => "nothing keeps it from files (Landlock, Linux 5.13)".to_owned(),
    };
    let filter = match armour.filter {
        true => "a filter keeps it from system calls that it does not need",
        false => "nothing keeps it from system calls (seccomp)",
    };
    let detail = format!("{landlock}, and {filter}");
    match (armour.landlock_abi, armour.filter, armour.no_new_privs) {
        (Some(_), true, true) => Finding::ready(detail),
        (_, _, false) => Finding::weaker(format!("{detail}; it may gain privileges")),
        (None, ..) => Finding::weaker(detail).with_remedy(Some(
            "boot with \"lsm=landlock,…\" on the kernel command line, before those that are there"
                .to_owned(),
        )),
        (Some(_), false, true) => Finding::weaker(detail),
    }
}

fn facts(armour: Option<&Armour>) -> Value {
    json!({
        "noNewPrivs": armour.map(|it| it.no_new_privs),
        "landlockAbi": armour.and_then(|it| it.landlock_abi),
        "filter": armour.map(|it| it.filter),
        "capabilities": armour.and_then(|it| it.capabilities).map(|it| format!("{it:#x}")),
    })
}

fn run(helper: &Path) -> Result<Armour, TrialError> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    let holders = File::open("/")?;
    let mut holder = Holder::start(helper, TRIAL_LIMIT)?;
    let hello = holder.hello_with(&[FEATURE_ARMOUR])?;
    if !hello.features.iter().any(|it| it == FEATURE_ARMOUR) {
        return Err(TrialError::Lacks);
    }
    holder.launch(
        launch("exit 0", Containment::Subreaper),
        &[null.as_fd(), null.as_fd(), null.as_fd(), holders.as_fd()],
    )?;
    match holder.next_reply()? {
        Reply::Spawned { .. } => {}
        other => return Err(out_of_order("a command at its gate", &other).into()),
    }
    let armour = match holder.next_reply()? {
        Reply::Armour(armour) => armour,
        other => return Err(out_of_order("word of its armour", &other).into()),
    };
    holder.send(&Request::Discard)?;
    Ok(armour)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::report::{Check, Verdict};

    const WHOLE: Armour = Armour {
        no_new_privs: true,
        landlock_abi: Some(4),
        filter: true,
        capabilities: Some(0),
    };

    fn check(armour: Armour) -> Check {
        Check::new(
            "helper-armour",
            "the helper's armour",
            false,
            judge(&armour),
        )
    }

    #[test]
    fn one_that_lacks_a_part_is_weaker_and_the_part_is_named() {
        assert_eq!(check(WHOLE).verdict, Verdict::Ready);
        let lacking = [
            (
                Armour {
                    landlock_abi: None,
                    ..WHOLE
                },
                "Landlock",
            ),
            (
                Armour {
                    filter: false,
                    ..WHOLE
                },
                "seccomp",
            ),
            (
                Armour {
                    no_new_privs: false,
                    ..WHOLE
                },
                "privileges",
            ),
        ];
        for (armour, named) in lacking {
            let check = check(armour);
            assert_eq!(check.verdict, Verdict::Weaker);
            assert!(check.detail.contains(named), "{}", check.detail);
        }
    }
}
