//! Sockets behind which somebody takes work, by their paths. A table, pure.

/// What is known of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Server {
    /// Work is handed over there, to the server that this client of the table belongs to.
    Takes(&'static str),
    /// It answers questions, shows windows, or writes a log.
    TakesNothing,
    /// Nothing.
    Unknown,
}

/// What is known of the socket with this path; that of an abstract one begins with `@`.
pub(super) fn server(path: &[u8]) -> Server {
    let known = |(form, server): &(Form, Server)| form.fits(path).then_some(*server);
    SERVERS.iter().find_map(known).unwrap_or(Server::Unknown)
}

enum Form {
    /// The path ends like this.
    Ends(&'static str),
    /// The path has this in it.
    Has(&'static str),
}

impl Form {
    fn fits(&self, path: &[u8]) -> bool {
        match self {
            Self::Ends(end) => path.ends_with(end.as_bytes()),
            Self::Has(part) => path.windows(part.len()).any(|at| at == part.as_bytes()),
        }
    }
}

use Form::{Ends, Has};
use Server::{Takes, TakesNothing};

static SERVERS: &[(Form, Server)] = &[
    (Ends("/docker.sock"), Takes("docker")),
    (Ends("/podman.sock"), Takes("podman")),
    (Ends("/containerd.sock"), Takes("ctr")),
    (Ends("/crio.sock"), Takes("crictl")),
    (Ends("/buildkitd.sock"), Takes("buildctl")),
    (Has("/tmux-"), Takes("tmux")),
    (Has("/screen/S-"), Takes("screen")),
    (Has("/screens/S-"), Takes("screen")),
    (Ends("/systemd/private"), Takes("systemctl")),
    (Ends("/system_bus_socket"), Takes("dbus-send")),
    (Has("/tmp/dbus-"), Takes("dbus-send")),
    // Of a session, /run/user/UID/bus.
    (Ends("/bus"), Takes("dbus-send")),
    (Has("/watchman"), Takes("watchman")),
    (Ends("/kernel.sock"), Takes("xioflow")),
    (Has("/systemd/journal/"), TakesNothing),
    (Has("/systemd/userdb/"), TakesNothing),
    (Has("/systemd/resolve/"), TakesNothing),
    (Ends("/nscd/socket"), TakesNothing),
    (Ends("/dev/log"), TakesNothing),
    (Has("/.X11-unix/"), TakesNothing),
    (Has("/wayland-"), TakesNothing),
    (Has("/pulse/"), TakesNothing),
    (Has("/pipewire-"), TakesNothing),
];

#[cfg(test)]
mod tests {
    use super::super::clients::client;
    use super::*;

    #[test]
    fn a_socket_is_known_by_its_path() {
        for (path, expected) in [
            ("/run/docker.sock", Takes("docker")),
            ("/run/user/1000/podman/podman.sock", Takes("podman")),
            ("/tmp/tmux-0/default", Takes("tmux")),
            ("/run/user/1000/bus", Takes("dbus-send")),
            ("@/tmp/.X11-unix/X0", TakesNothing),
            ("/run/systemd/journal/stdout", TakesNothing),
            ("/srv/build/server.sock", Server::Unknown),
            ("", Server::Unknown),
        ] {
            assert_eq!(server(path.as_bytes()), expected, "{path}");
        }
    }

    #[test]
    fn whoever_takes_work_is_in_the_table_of_clients() {
        for (_, server) in SERVERS {
            if let Takes(name) = server {
                assert!(client(name.as_bytes()).is_some(), "{name}");
            }
        }
    }
}
