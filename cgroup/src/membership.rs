//! Reads `/proc/self/cgroup`: in which group of each hierarchy a process is. Pure.
//!
//! Neighbour: `hierarchy` puts it together with the mounts.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// The groups of one process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Membership {
    /// Its group in version 2, from the root of its control group namespace. It begins with
    /// `/..` when the group lies outside that namespace.
    pub(crate) unified: Option<PathBuf>,
    /// Controllers that version 1 holds, `name=…` hierarchies left out.
    pub(crate) legacy_controllers: Vec<String>,
}

/// A line is not what proc(5) describes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the control group list is not understood")]
pub(crate) struct MembershipError {
    /// Number of the line, from 1.
    pub(crate) line: usize,
}

/// Reads the content of `/proc/<pid>/cgroup`.
pub(crate) fn parse(content: &[u8]) -> Result<Membership, MembershipError> {
    let mut membership = Membership::default();
    for (index, line) in content.split(|byte| *byte == b'\n').enumerate() {
        if !line.is_empty() {
            add_line(&mut membership, line).ok_or(MembershipError { line: index + 1 })?;
        }
    }
    Ok(membership)
}

/// `hierarchy:controllers:path`; the path may have colons, and version 2 is hierarchy 0 without
/// controllers.
fn add_line(membership: &mut Membership, line: &[u8]) -> Option<()> {
    let mut fields = line.splitn(3, |byte| *byte == b':');
    let hierarchy: u32 = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let controllers = std::str::from_utf8(fields.next()?).ok()?;
    let path = fields.next().filter(|path| path.starts_with(b"/"))?;
    if hierarchy == 0 && controllers.is_empty() {
        membership.unified = Some(PathBuf::from(OsStr::from_bytes(path)));
    } else {
        let names = controllers
            .split(',')
            .filter(|name| !name.starts_with("name="));
        membership
            .legacy_controllers
            .extend(names.map(str::to_owned));
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Membership {
        parse(text.as_bytes()).expect("a well-formed list")
    }

    #[test]
    fn a_unified_host() {
        let membership =
            read("0::/user.slice/user-1000.slice/user@1000.service/app.slice/x.scope\n");
        let group = "/user.slice/user-1000.slice/user@1000.service/app.slice/x.scope";
        assert_eq!(membership.unified.as_deref(), Some(Path::new(group)));
        assert!(membership.legacy_controllers.is_empty());
    }

    #[test]
    fn a_hybrid_host() {
        let text = "12:pids:/user.slice/user-0.slice/session-1.scope\n\
                    11:cpu,cpuacct:/user.slice\n\
                    1:name=systemd:/user.slice/user-0.slice/session-1.scope\n\
                    0::/user.slice/user-0.slice/session-1.scope\n";
        let membership = read(text);
        assert_eq!(membership.legacy_controllers, ["pids", "cpu", "cpuacct"]);
        assert!(membership.unified.is_some());
    }

    #[test]
    fn a_host_with_version_1_only() {
        let membership = read("3:memory:/docker/4f5a\n2:cpu,cpuacct:/docker/4f5a\n");
        assert_eq!(membership.unified, None);
        assert_eq!(membership.legacy_controllers, ["memory", "cpu", "cpuacct"]);
    }

    #[test]
    fn a_group_outside_the_namespace() {
        let membership = read("0::/../../system.slice/cron.service\n");
        let group = Path::new("/../../system.slice/cron.service");
        assert_eq!(membership.unified.as_deref(), Some(group));
    }

    #[test]
    fn paths_keep_colons_and_spaces() {
        let membership = read("0::/a:b c/d\n");
        assert_eq!(membership.unified.as_deref(), Some(Path::new("/a:b c/d")));
    }

    #[test]
    fn damage_is_named_by_its_line() {
        for text in [
            "0::/ok\nnonsense\n",
            "0::/ok\n0::relative\n",
            "0::/ok\nx:memory:/\n",
        ] {
            assert_eq!(
                parse(text.as_bytes()),
                Err(MembershipError { line: 2 }),
                "{text:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(content in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Err(error) = parse(&content) {
                let lines = content.split(|byte| *byte == b'\n').count();
                prop_assert!((1..=lines).contains(&error.line));
            }
        }

        #[test]
        fn any_path_without_a_newline_survives(rest in "[^\n]{0,40}") {
            let membership = read(&format!("0::/{rest}\n"));
            prop_assert_eq!(membership.unified, Some(PathBuf::from(format!("/{rest}"))));
        }
    }
}
