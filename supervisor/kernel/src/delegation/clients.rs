//! Programs that hand work to somebody outside of their own tree: what they may leave, and how to look for it
//! and stop it. A table, and what can be read from the words behind a program's name. Pure.
//!
//! The words of a shell script are not read: a shell has functions, variables and files of its own, and whoever
//! guesses at them finds too much and too little. The same goes for programs that run others (`sudo`, `env`).

/// One of them.
#[derive(Debug)]
pub(super) struct Client {
    /// Its name, as its program has it.
    pub(super) name: &'static str,
    pub(super) may_leave: &'static str,
    pub(super) look: Option<&'static str>,
    pub(super) stop: Option<&'static str>,
    /// What its words say.
    judge: Judge,
}

/// Whether work is handed over by what a program is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Handed {
    /// It only looks, or does its work itself.
    No,
    /// That depends.
    Perhaps,
    /// To be gone on with when it has ended: that is what was asked for.
    ToGoOn,
}

/// What the words behind the name say.
#[derive(Debug)]
enum Judge {
    /// Whatever they are.
    Always(Handed),
    /// The first word says it; another one may.
    ByWord {
        /// With these it goes on.
        goes_on: &'static [&'static str],
        /// And with any word, where one of these is among them.
        goes_on_with: &'static [&'static str],
        /// With these it only looks.
        looks: &'static [&'static str],
        /// With any other.
        other: Handed,
    },
}

/// Finds a program by its name, without folders. `docker compose` and `docker-compose` are two.
pub(super) fn client(name: &[u8]) -> Option<&'static Client> {
    CLIENTS.iter().find(|client| client.name.as_bytes() == name)
}

/// Finds a program by the name that the kernel has for a process: cut to 15 bytes, and changed by some.
pub(super) fn client_of_process(command: &[u8]) -> Option<&'static Client> {
    const COMMAND_LEN_MAX: usize = 15;
    // A server of tmux that is in the tree is of the tree.
    let command = command.strip_suffix(b": client").unwrap_or(command);
    CLIENTS.iter().find(|client| {
        let name = client.name.as_bytes();
        let seen = &name[..name.len().min(COMMAND_LEN_MAX)];
        seen == command && client.handed(&[]) != Handed::No
    })
}

impl Client {
    /// What is known from its words, those behind its name.
    pub(super) fn handed(&self, words: &[&[u8]]) -> Handed {
        let (goes_on, goes_on_with, looks, other) = match &self.judge {
            Judge::Always(handed) => return *handed,
            Judge::ByWord {
                goes_on,
                goes_on_with,
                looks,
                other,
            } => (goes_on, goes_on_with, looks, other),
        };
        let is_in = |list: &[&str], word: &[u8]| list.iter().any(|it| it.as_bytes() == word);
        // Only the very first one: behind an option there may be that option's value.
        let first = words.first().copied().unwrap_or_default();
        match first {
            word if is_in(looks, word) => Handed::No,
            word if is_in(goes_on, word) => Handed::ToGoOn,
            _ if words.iter().any(|word| is_in(goes_on_with, word)) => Handed::ToGoOn,
            _ => *other,
        }
    }
}

use Handed::{No, Perhaps, ToGoOn};

const fn by_word(
    goes_on: &'static [&'static str],
    goes_on_with: &'static [&'static str],
    looks: &'static [&'static str],
) -> Judge {
    Judge::ByWord {
        goes_on,
        goes_on_with,
        looks,
        other: Perhaps,
    }
}

/// Of these, all but a few words are the program's own work.
const fn only_with(goes_on: &'static [&'static str]) -> Judge {
    Judge::ByWord {
        goes_on,
        goes_on_with: &[],
        looks: &[],
        other: No,
    }
}

/// What a client of a container engine is asked for when it only looks or has nothing started.
const ENGINE_LOOKS: &[&str] = &[
    "images",
    "info",
    "inspect",
    "kill",
    "logs",
    "ps",
    "rm",
    "rmi",
    "stats",
    "stop",
    "top",
    "version",
    "--version",
    "-v",
];

const fn engine(name: &'static str, look: &'static str, stop: &'static str) -> Client {
    Client {
        name,
        may_leave: "containers",
        look: Some(look),
        stop: Some(stop),
        judge: by_word(&["start", "restart"], &["-d", "--detach"], ENGINE_LOOKS),
    }
}

/// A build tool that keeps a server. One that the tree has started itself is of the tree, and ends with it.
const fn build_server(name: &'static str, look: &'static str, stop: &'static str) -> Client {
    Client {
        name,
        may_leave: "work of its build server, if that ran before",
        look: Some(look),
        stop: Some(stop),
        judge: Judge::Always(Perhaps),
    }
}

const fn other(
    name: &'static str,
    may_leave: &'static str,
    look: &'static str,
    stop: &'static str,
    judge: Judge,
) -> Client {
    Client {
        name,
        may_leave,
        look: Some(look),
        stop: Some(stop),
        judge,
    }
}

/// One that may reach anybody.
const fn bus(name: &'static str) -> Client {
    Client {
        name,
        may_leave: "whatever the service does that it called",
        look: None,
        stop: None,
        judge: Judge::Always(Perhaps),
    }
}

static CLIENTS: &[Client] = &[
    engine("docker", "docker ps --all", "docker rm --force NAME"),
    engine("docker-compose", "docker-compose ps", "docker-compose down"),
    engine("podman", "podman ps --all", "podman rm --force NAME"),
    engine("podman-compose", "podman ps --all", "podman-compose down"),
    engine("nerdctl", "nerdctl ps --all", "nerdctl rm --force NAME"),
    engine("ctr", "ctr tasks list", "ctr tasks kill NAME"),
    engine("crictl", "crictl ps --all", "crictl rm --force ID"),
    engine("buildah", "buildah containers", "buildah rm NAME"),
    engine("lxc", "lxc list", "lxc stop NAME"),
    engine("incus", "incus list", "incus stop NAME"),
    engine("machinectl", "machinectl list", "machinectl stop NAME"),
    engine("virsh", "virsh list", "virsh destroy NAME"),
    build_server("buildctl", "buildctl debug workers", "buildctl prune"),
    build_server("gradle", "gradle --status", "gradle --stop"),
    build_server("gradlew", "./gradlew --status", "./gradlew --stop"),
    build_server("mvnd", "mvnd --status", "mvnd --stop"),
    build_server("bazel", "bazel info server_pid", "bazel shutdown"),
    build_server("bazelisk", "bazelisk info server_pid", "bazelisk shutdown"),
    build_server("buck2", "buck2 status", "buck2 kill"),
    build_server("sccache", "sccache --show-stats", "sccache --stop-server"),
    build_server(
        "watchman",
        "watchman watch-list",
        "watchman shutdown-server",
    ),
    other(
        "systemd-run",
        "a unit of systemd",
        "systemctl list-units 'run-*'",
        "systemctl stop UNIT",
        SYSTEMD_RUN,
    ),
    other(
        "systemctl",
        "units of systemd",
        "systemctl list-units",
        "systemctl stop UNIT",
        by_word(
            &["start", "restart", "reload-or-restart", "isolate"],
            &["--now"],
            &[
                "cat",
                "is-active",
                "is-enabled",
                "is-failed",
                "kill",
                "list-jobs",
                "list-timers",
                "list-unit-files",
                "list-units",
                "show",
                "status",
                "stop",
                "--version",
            ],
        ),
    ),
    other("at", "a job for later", "atq", "atrm JOB", LATER),
    other("batch", "a job for later", "atq", "atrm JOB", LATER),
    other(
        "crontab",
        "jobs that recur",
        "crontab -l",
        "crontab -e",
        by_word(&["-"], &[], &["-l", "-V"]),
    ),
    other(
        "tmux",
        "windows of a tmux server, if that ran before",
        "tmux list-sessions",
        "tmux kill-session -t NAME",
        by_word(
            &["new-window", "neww", "split-window", "splitw"],
            &["-d"],
            &[
                "has-session",
                "has",
                "kill-server",
                "kill-session",
                "list-sessions",
                "ls",
                "-V",
            ],
        ),
    ),
    other(
        "screen",
        "windows of screen, if that ran before",
        "screen -ls",
        "screen -S NAME -X quit",
        by_word(&[], &["-dm", "-dmS", "-d"], &["-ls", "-list", "-v"]),
    ),
    other(
        "kubectl",
        "objects of a cluster",
        "kubectl get all",
        "kubectl delete TYPE NAME",
        by_word(
            &["apply", "create", "replace", "rollout", "run", "scale"],
            &[],
            &[
                "api-resources",
                "config",
                "delete",
                "describe",
                "diff",
                "explain",
                "get",
                "logs",
                "top",
                "version",
            ],
        ),
    ),
    other(
        "helm",
        "objects of a cluster",
        "helm list",
        "helm uninstall NAME",
        by_word(
            &["install", "upgrade"],
            &[],
            &[
                "get",
                "history",
                "lint",
                "list",
                "search",
                "status",
                "template",
                "uninstall",
                "version",
            ],
        ),
    ),
    Client {
        name: "ssh",
        may_leave: "processes on another host",
        look: None,
        stop: None,
        judge: by_word(&[], &["-f"], &["-V"]),
    },
    other(
        "pm2",
        "processes of the pm2 daemon, if that ran before",
        "pm2 list",
        "pm2 delete NAME",
        by_word(
            &["start", "restart"],
            &[],
            &["delete", "list", "logs", "ls", "show", "stop"],
        ),
    ),
    other(
        "launchctl",
        "jobs of launchd",
        "launchctl list",
        "launchctl bootout TARGET",
        by_word(
            &["bootstrap", "kickstart", "load", "start", "submit"],
            &[],
            &["list", "print"],
        ),
    ),
    other(
        "git",
        "jobs that recur, or a daemon that watches files",
        "git config --get-all --global maintenance.repo",
        "git maintenance unregister",
        // The rest of git is its own work: what it leaves in the background is of the tree.
        only_with(&["maintenance", "fsmonitor--daemon"]),
    ),
    other(
        "xioflow",
        "operations of another domain, or of this one",
        "xioflow list",
        "xioflow cancel OP",
        by_word(&[], &["--detach"], &XIOFLOW_LOOKS),
    ),
    bus("dbus-send"),
    bus("gdbus"),
    bus("busctl"),
];

/// A scope holds the caller's own process; with the others it waits for its unit.
const SYSTEMD_RUN: Judge = Judge::ByWord {
    goes_on: &[],
    goes_on_with: &[],
    looks: &["--scope", "--version"],
    other: ToGoOn,
};

const LATER: Judge = Judge::ByWord {
    goes_on: &[],
    goes_on_with: &[],
    looks: &["-l", "-d", "-r", "-c", "-V"],
    other: ToGoOn,
};

const XIOFLOW_LOOKS: [&str; 9] = [
    "list",
    "show",
    "logs",
    "events",
    "status",
    "cancel",
    "doctor",
    "prune",
    "--version",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn handed(name: &str, words: &[&str]) -> Option<Handed> {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        client(name.as_bytes()).map(|client| client.handed(&words))
    }

    #[test]
    fn words_say_what_is_handed_over() {
        for (name, words, expected) in [
            ("docker", &["run", "-d", "nginx"][..], Some(ToGoOn)),
            ("docker", &["run", "--rm", "alpine"], Some(Perhaps)),
            ("docker", &["ps"], Some(No)),
            // The value of an option may look like a word of its own.
            (
                "docker",
                &["--context", "ps", "run", "alpine"],
                Some(Perhaps),
            ),
            ("tmux", &["new-session", "-d", "-s", "x"], Some(ToGoOn)),
            ("tmux", &["ls"], Some(No)),
            ("systemd-run", &["--user", "make"], Some(ToGoOn)),
            ("systemd-run", &["--scope", "make"], Some(No)),
            ("at", &["now"], Some(ToGoOn)),
            ("at", &["-l"], Some(No)),
            ("git", &["commit"], Some(No)),
            ("git", &["maintenance", "start"], Some(ToGoOn)),
            ("ssh", &["host", "make"], Some(Perhaps)),
            ("sh", &["-c", "docker run -d nginx"], None),
            ("make", &[], None),
        ] {
            assert_eq!(handed(name, words), expected, "{name} {words:?}");
        }
    }

    #[test]
    fn a_process_is_known_by_what_the_kernel_calls_it() {
        let name = |command: &[u8]| client_of_process(command).map(|client| client.name);
        assert_eq!(name(b"docker"), Some("docker"));
        assert_eq!(name(b"tmux: client"), Some("tmux"));
        assert_eq!(name(b"tmux: server"), None, "it is of the tree");
        // What it does is not known from its name, and mostly that is its own work.
        assert_eq!(name(b"git"), None);
        assert_eq!(name(b"dockerd"), None);
    }

    #[test]
    fn names_are_there_once_and_short_enough_to_be_told_apart() {
        for (at, client) in CLIENTS.iter().enumerate() {
            let cut = |name: &'static str| &name[..name.len().min(15)];
            let same = |other: &&Client| cut(other.name) == cut(client.name);
            assert_eq!(
                CLIENTS.iter().filter(same).count(),
                1,
                "{at}: {}",
                client.name
            );
        }
    }
}
