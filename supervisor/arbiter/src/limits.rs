//! Every bound of the arbiter, by name and with its reason. What a client does beyond one of them is
//! refused, waits, or ends its own connection; nobody else notices.

use std::time::Duration;

use xioflow_rpc::REPLY_MAX_BYTES;

/// Connections at once. Each has a buffer of up to one line and one of its answers.
pub(crate) const CONNECTIONS_MAX: usize = 1024;

/// Connections that are accepted in one turn of the loop, so that a flood of them leaves the others their turn.
pub(crate) const ACCEPTED_PER_TURN: usize = 16;

/// Requests of one connection that are not over: submitted and without a result, or asked and without an
/// answer. With so many of them, no more are read.
pub(crate) const UNFINISHED_MAX: usize = 256;

/// Operations in execution and waiting, of all connections. Each has a thread, and when it runs, a helper.
pub(crate) const OPERATIONS_MAX: usize = 4096;

/// Bytes that may wait for a client to read them: the longest message fits when nothing else waits.
/// A client for which a result or an answer does not fit is disconnected.
pub(crate) const OUTGOING_MAX_BYTES: usize = REPLY_MAX_BYTES;

/// With so many bytes waiting, no requests of this client are read, and output of commands is left out
/// and named.
pub(crate) const OUTGOING_FULL_BYTES: usize = 1024 * 1024;

/// Descriptors that came and were not yet named by a request.
pub(crate) const DESCRIPTORS_WAITING_MAX: usize = 8;

/// How long a connection may take to greet. A silent one takes a place that others may need.
pub(crate) const GREETING_PATIENCE: Duration = Duration::from_secs(5);

/// What is read of a connection at once.
pub(crate) const READ_LEN: usize = 64 * 1024;

/// A line up to this length is looked at by the loop itself; a longer one takes long enough to be noticed by
/// others, so that is done beside it.
pub(crate) const LINE_HERE_MAX_BYTES: usize = 64 * 1024;

/// How long a line beyond [`LINE_HERE_MAX_BYTES`] may take to come to its end. Until then it takes memory.
/// Half a short line may stay as it is.
pub(crate) const LONG_LINE_PATIENCE: Duration = Duration::from_secs(10);

/// What unfinished lines of all connections may take together.
pub(crate) const UNFINISHED_LINES_MAX_BYTES: usize = 256 * 1024 * 1024;

/// Lines of one connection that are looked at in one turn of the loop.
pub(crate) const LINES_PER_TURN: usize = 64;

/// Longest name of an operation, in bytes. It stands in every list.
pub(crate) const NAME_MAX_BYTES: usize = 4096;

/// Resources of one operation, and the longest name of one in bytes. They stand in the journal's events.
pub(crate) const LEASES_MAX: usize = 1024;
pub(crate) const LEASE_MAX_BYTES: usize = 4096;

/// Variables of a command and of its caller, each. The system takes at most 6 MiB of them (execve(2)).
pub(crate) const VARIABLES_MAX: usize = 16 * 1024;

/// Resource limits of a caller. Linux has sixteen.
pub(crate) const RESOURCE_LIMITS_MAX: usize = 64;

/// What submissions that are not over take together: their requests, and input in memory. One request can
/// have 16 MiB, and hundreds of them wait for a resource as easily as one.
pub(crate) const SUBMISSIONS_MAX_BYTES: u64 = 512 * 1024 * 1024;

/// How much of a file in memory can be standard input, in bytes. It is copied, to be hashed.
pub(crate) const MEMORY_STDIN_MAX_BYTES: u64 = 256 * 1024 * 1024;

/// Stack of every thread here. The deepest thing on it is SQLite's, of some ten KiB; the usual 2 MiB would
/// count against limits on address space, a thousand times.
pub(crate) const STACK_BYTES: usize = 256 * 1024;

/// How long a client that is disconnected in order has to read its last messages, when the arbiter ends.
pub(crate) const FAREWELL_PATIENCE: Duration = Duration::from_secs(2);

/// How long a tree may take to end by itself once its client is lost, or the arbiter was told to stop it.
pub(crate) const STOP_GRACE: Duration = xioflow_kernel::DEFAULT_CANCEL_GRACE;

/// Open files that the arbiter asks for: an operation needs up to sixteen. More than this is of no use with
/// the other bounds.
pub(crate) const OPEN_FILES_WANTED: u64 = 64 * 1024;

/// Entries of one answer at most.
pub(crate) const PAGE_MAX: usize = 1000;

/// Operations of a list where nothing is said.
pub(crate) const LIST_DEFAULT: usize = 20;

/// Length of one answer with events, about: what comes after that is asked for again. An event can be a
/// whole result, without its output.
pub(crate) const EVENTS_PAGE_BYTES: usize = 4 * 1024 * 1024;
