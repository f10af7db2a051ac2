//! The helper: found, started, and greeted.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use xioflow_protocol::{FEATURE_CAP_KILL, Hello, PROTOCOL_VERSION};

use super::holder_probe::{Holder, HolderError};
use super::report::{Finding, with_causes};

/// How long start and greeting may take; on an idle machine it is a millisecond.
const GREETING_LIMIT: Duration = Duration::from_secs(5);

/// Our own release, which the helper's should be.
const RELEASE: &str = env!("CARGO_PKG_VERSION");

/// What to do about a helper that is not there or not the right one.
const INSTALL: &str = "export XIOFLOW_REAPER_PATH=/path/to/xioflow-reaper";

/// Starts the helper and exchanges greetings. `helper` is where it was found, or why it was not.
pub(super) fn look(helper: Result<&Path, &String>) -> Finding {
    let path = match helper {
        Ok(path) => path,
        Err(why) => {
            return Finding::missing(why.as_str())
                .with_facts(facts(None, None))
                .with_remedy(Some(INSTALL.to_owned()));
        }
    };
    let greeted = greet(path);
    let facts = facts(Some(path), greeted.as_ref().ok());
    judge(path, greeted).with_facts(facts)
}

fn greet(path: &Path) -> Result<Hello, HolderError> {
    let mut holder = Holder::start(path, GREETING_LIMIT)?;
    let hello = holder.hello()?;
    holder.finish()?;
    Ok(hello)
}

fn judge(file: &Path, greeted: Result<Hello, HolderError>) -> Finding {
    let path = file.display();
    match greeted {
        Ok(hello) if hello.protocol != PROTOCOL_VERSION => Finding::missing(format!(
            "{path} speaks protocol version {}, this program speaks {PROTOCOL_VERSION}",
            hello.protocol
        ))
        .with_remedy(Some(INSTALL.to_owned())),
        Ok(hello) if hello.release != RELEASE => Finding::weaker(format!(
            "{path} is of release {}, this program of {RELEASE}; both speak protocol version \
             {PROTOCOL_VERSION}",
            hello.release
        )),
        Ok(hello) => Finding::ready(format!(
            "{path} {} answers, protocol version {PROTOCOL_VERSION}; {}",
            hello.release,
            rights(&hello, file)
        )),
        Err(error) => Finding::missing(with_causes(&error)).with_remedy(Some(INSTALL.to_owned())),
    }
}

/// What becomes of processes that are another user's.
fn rights(hello: &Hello, path: &Path) -> String {
    if rustix::process::geteuid().is_root() {
        "ends processes of every user".to_owned()
    } else if has_cap_kill(hello) {
        "ends processes of its trees that became another user's (cap_kill)".to_owned()
    } else {
        let path = crate::shell::path(path);
        format!(
            "cannot end processes that became another user's (sudo, su) without: sudo setcap \
             cap_kill+p {path}"
        )
    }
}

fn has_cap_kill(hello: &Hello) -> bool {
    hello.features.iter().any(|name| name == FEATURE_CAP_KILL)
}

fn facts(path: Option<&Path>, hello: Option<&Hello>) -> Value {
    json!({
        "path": path.map(Path::to_string_lossy),
        "release": hello.map(|hello| &hello.release),
        "protocol": hello.map(|hello| hello.protocol),
        "features": hello.map(|hello| &hello.features),
        "capKill": hello.map(has_cap_kill),
        "ourRelease": RELEASE,
        "ourProtocol": PROTOCOL_VERSION,
    })
}

#[cfg(test)]
mod tests {
    use xioflow_protocol::Reply;

    use super::*;
    use crate::doctor::report::{Check, Verdict};
    use crate::doctor::testing;

    fn hello(protocol: u32, release: &str) -> Hello {
        Hello {
            protocol,
            release: release.to_owned(),
            identity: None,
            features: Vec::new(),
        }
    }

    fn verdict(greeted: Result<Hello, HolderError>) -> Verdict {
        Check::new("helper", "helper", true, judge(Path::new("/h"), greeted)).verdict
    }

    #[test]
    fn version_decides_and_release_weakens() {
        assert_eq!(
            verdict(Ok(hello(PROTOCOL_VERSION, RELEASE))),
            Verdict::Ready
        );
        assert_eq!(
            verdict(Ok(hello(PROTOCOL_VERSION, "9.9.9"))),
            Verdict::Weaker
        );
        assert_eq!(
            verdict(Ok(hello(PROTOCOL_VERSION + 1, RELEASE))),
            Verdict::Missing
        );
        assert_eq!(verdict(Err(HolderError::Gone)), Verdict::Missing);
    }

    #[test]
    fn one_of_another_version_is_found_out_by_its_greeting() {
        let dir = tempfile::tempdir().expect("a folder");
        let other = Reply::Hello(hello(PROTOCOL_VERSION + 1, RELEASE));
        let path = testing::scripted_helper(dir.path(), &[other]);
        let check = Check::new("helper", "helper", true, look(Ok(&path)));
        assert_eq!(check.verdict, Verdict::Missing, "{}", check.detail);
        assert_eq!(check.facts["protocol"], PROTOCOL_VERSION + 1);
    }

    #[test]
    fn what_is_no_helper_is_found_out() {
        let check = Check::new("helper", "helper", true, look(Ok(Path::new("/bin/true"))));
        assert_eq!(check.verdict, Verdict::Missing, "{}", check.detail);
        assert_eq!(check.facts["release"], Value::Null);
    }
}
