//! Twins of the contract and the kernel.

use std::time::Duration;

use xioflow_journal::Stream;
use xioflow_kernel::{DescendantPolicy, StopActionWhen, StopManner};
use xioflow_rpc::operation::{self, Descendants, Manner};

pub(crate) fn stream_out(stream: Stream) -> operation::Stream {
    match stream {
        Stream::Stdout => operation::Stream::Stdout,
        Stream::Stderr => operation::Stream::Stderr,
    }
}

pub(crate) fn stream_in(stream: operation::Stream) -> Stream {
    match stream {
        operation::Stream::Stdout => Stream::Stdout,
        operation::Stream::Stderr => Stream::Stderr,
    }
}

/// Where a stream stands in a pair of something for each.
pub(crate) fn index(stream: Stream) -> usize {
    match stream {
        Stream::Stdout => 0,
        Stream::Stderr => 1,
    }
}

pub(crate) fn manner(manner: Manner) -> StopManner {
    match manner {
        Manner::Interrupt => StopManner::Interrupt,
        Manner::Terminate => StopManner::Terminate,
        Manner::Kill => StopManner::Kill,
    }
}

pub(crate) fn descendants(policy: Descendants) -> DescendantPolicy {
    match policy {
        Descendants::Stop => DescendantPolicy::Stop,
        Descendants::Wait => DescendantPolicy::Wait,
    }
}

pub(crate) fn stop_action_when(when: operation::StopActionWhen) -> StopActionWhen {
    match when {
        operation::StopActionWhen::Stopped => StopActionWhen::Stopped,
        operation::StopActionWhen::Always => StopActionWhen::Always,
    }
}

/// A length of time, or that which holds without one.
pub(crate) fn millis_or(ms: Option<u64>, default: Duration) -> Duration {
    ms.map_or(default, Duration::from_millis)
}
