//! Twins of the contract and the kernel.

use std::time::Duration;

use xioflow_journal::Stream;
use xioflow_kernel::{
    BudgetInUse, DescendantPolicy, Enforcement, ResourceLimits, StopActionWhen, StopManner,
};
use xioflow_rpc::domain;
use xioflow_rpc::limits;
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

pub(crate) fn limits(asked: &limits::Limits) -> ResourceLimits {
    ResourceLimits {
        memory_max_bytes: asked.max_memory_bytes,
        pids_max: asked.max_pids,
        milli_cpus: asked.max_milli_cpus,
        cpu_time: asked.max_cpu_time_ms.map(Duration::from_millis),
        enforcement: match asked.enforcement {
            limits::Enforcement::Hard => Enforcement::Hard,
            limits::Enforcement::Soft => Enforcement::Soft,
            limits::Enforcement::Observe => Enforcement::Observe,
        },
    }
}

/// A length of time, or that which holds without one.
pub(crate) fn millis_or(ms: Option<u64>, default: Duration) -> Duration {
    ms.map_or(default, Duration::from_millis)
}

/// What operations have of the domain's budget.
pub(crate) fn budget_out(budget: BudgetInUse) -> domain::Budget {
    domain::Budget {
        max_operations: budget.max.concurrent_max.map(|max| max as u64),
        max_memory_bytes: budget.max.memory_max_bytes,
        max_output_bytes: budget.max.output_max_bytes,
        operations: budget.operations as u64,
        memory_bytes: budget.taken.memory_bytes,
        output_bytes: budget.taken.output_bytes,
        waiting: budget.waiting as u64,
    }
}
