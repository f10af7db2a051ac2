//! The resource limits and the nice value of the arbiter itself. Those of whoever happened to start it are that
//! client's, for its command: they must neither end nor slow what serves everybody.

use rustix::process::{
    Resource, Rlimit, getpriority_process, getrlimit, setpriority_process, setrlimit,
};
use xioflow_rpc::operation::Caller;

use crate::limits::OPEN_FILES_WANTED;

/// Every limit with its name in setrlimit(2), and whether it could end or cripple this process.
const LIMITS: &[(Resource, &str, bool)] = &[
    (Resource::Cpu, "RLIMIT_CPU", true),
    (Resource::Fsize, "RLIMIT_FSIZE", true),
    (Resource::Data, "RLIMIT_DATA", true),
    (Resource::Stack, "RLIMIT_STACK", false),
    (Resource::Core, "RLIMIT_CORE", false),
    (Resource::Rss, "RLIMIT_RSS", false),
    (Resource::Nproc, "RLIMIT_NPROC", true),
    (Resource::Nofile, "RLIMIT_NOFILE", true),
    (Resource::Memlock, "RLIMIT_MEMLOCK", false),
    (Resource::As, "RLIMIT_AS", true),
    (Resource::Locks, "RLIMIT_LOCKS", false),
    (Resource::Sigpending, "RLIMIT_SIGPENDING", false),
    (Resource::Msgqueue, "RLIMIT_MSGQUEUE", false),
    (Resource::Nice, "RLIMIT_NICE", false),
    (Resource::Rtprio, "RLIMIT_RTPRIO", false),
    (Resource::Rttime, "RLIMIT_RTTIME", false),
];

/// What this process was started with, and what it has made of it.
#[derive(Debug, Clone)]
pub(crate) struct OwnLimits {
    before: Vec<(Resource, Rlimit)>,
    nice: i32,
}

impl OwnLimits {
    /// Lifts them as far as this process may: the hard ones where it has the right (`CAP_SYS_RESOURCE`), so that
    /// a command can have more than whoever came first, and the soft ones of those that matter to this process
    /// itself. What the kernel refuses stays as it is.
    pub(crate) fn lift() -> Self {
        let before = LIMITS
            .iter()
            .map(|&(resource, _, cripples)| {
                let before = getrlimit(resource);
                lift(resource, cripples, &before);
                (resource, before)
            })
            .collect();
        let nice = getpriority_process(None).unwrap_or(0);
        if nice > 0 {
            setpriority_process(None, 0).ok();
        }
        let nice = getpriority_process(None).unwrap_or(nice);
        Self { before, nice }
    }

    /// Those that a command has whose client says none: the ones from before.
    pub(crate) fn before(&self) -> impl Iterator<Item = (u32, Rlimit)> {
        let numbered = |(resource, limit): &(Resource, Rlimit)| {
            let copy = Rlimit {
                current: limit.current,
                maximum: limit.maximum,
            };
            (*resource as u32, copy)
        };
        self.before.iter().map(numbered)
    }

    /// What of a client's own a command of his cannot have here, because this process has less and may not have
    /// more. Nothing is recorded of such a request: it is not the command that is wrong.
    pub(crate) fn withhold(&self, caller: &Caller) -> Option<&'static str> {
        if caller.nice.is_some_and(|nice| nice < self.nice) {
            return Some("nice value");
        }
        let mut named = LIMITS.iter();
        named.find_map(|&(resource, name, _)| {
            let ours = getrlimit(resource).maximum?;
            let asked = caller.limits.iter();
            let mut asked = asked.filter(|asked| asked.resource == resource as u32);
            asked
                .any(|asked| asked.hard.is_none_or(|hard| hard > ours))
                .then_some(name)
        })
    }
}

fn lift(resource: Resource, cripples: bool, before: &Rlimit) {
    let free = match resource {
        // No process can have more than the system allows one, so there is no unlimited.
        Resource::Nofile => at_least(before, OPEN_FILES_WANTED),
        _ => Rlimit {
            current: before.current.filter(|_| !cripples),
            maximum: None,
        },
    };
    if setrlimit(resource, free).is_err() && cripples {
        let most = before.maximum;
        let soft = match resource {
            Resource::Nofile => at_least(before, OPEN_FILES_WANTED).current,
            _ => None,
        };
        let within = Rlimit {
            current: soft.map_or(most, |soft| Some(most.map_or(soft, |most| most.min(soft)))),
            maximum: most,
        };
        setrlimit(resource, within).ok();
    }
}

/// A limit of at least so much.
fn at_least(before: &Rlimit, wanted: u64) -> Rlimit {
    let more = |limit: Option<u64>| limit.map(|limit| limit.max(wanted));
    Rlimit {
        current: more(before.current),
        maximum: more(before.maximum),
    }
}
