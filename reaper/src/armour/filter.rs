//! Makes a filter of a list of calls. Pure.
//!
//! The numbers are searched as in a binary tree: the kernel walks through a filter for each call that
//! there is when it is put on, and at each call that looks at arguments.

use alloc::vec::Vec;

use xioflow_sys::{AUDIT_ARCH, Errno, FilterStep, FilterTest, FilterWord};

use super::calls::{Allowed, Unless};

/// The answer to what is not allowed.
pub(super) const REFUSED: FilterStep = FilterStep::Refuse(Errno::ENOSYS);

/// A filter that allows these calls and refuses all others, those of other architectures too.
pub(super) fn program(allowed: &[Allowed]) -> Vec<FilterStep> {
    let mut steps = Vec::with_capacity(8 * allowed.len());
    steps.push(FilterStep::Load(FilterWord::Architecture));
    steps.push(skip(FilterTest::Equal(AUDIT_ARCH), 1, 0));
    steps.push(REFUSED);
    steps.push(FilterStep::Load(FilterWord::Call));
    steps.extend(search(&spans(allowed)));
    steps
}

/// Calls whose numbers follow each other, and which are answered the same way.
#[derive(Debug, Clone, Copy)]
struct Span {
    first: u32,
    last: u32,
    unless: &'static [Unless],
}

fn spans(allowed: &[Allowed]) -> Vec<Span> {
    let mut calls: Vec<_> = allowed
        .iter()
        .map(|allowed| (allowed.call as u32, allowed.unless))
        .collect();
    calls.sort_unstable_by_key(|&(number, _)| number);
    let mut spans: Vec<Span> = Vec::with_capacity(calls.len());
    for (number, unless) in calls {
        match spans.last_mut() {
            Some(span)
                if span.last + 1 == number && span.unless.is_empty() && unless.is_empty() =>
            {
                span.last = number;
            }
            Some(_) | None => spans.push(Span {
                first: number,
                last: number,
                unless,
            }),
        }
    }
    spans
}

/// Goes to the half that a number would be in, until one span is left.
fn search(spans: &[Span]) -> Vec<FilterStep> {
    match spans {
        [] => alloc::vec![REFUSED],
        [span] => answer(*span),
        _ => {
            let (lower, upper) = spans.split_at(spans.len() / 2);
            let (below, above) = (search(lower), search(upper));
            let mut steps = Vec::with_capacity(1 + below.len() + above.len());
            steps.push(skip(FilterTest::AtLeast(upper[0].first), below.len(), 0));
            steps.extend(below);
            steps.extend(above);
            steps
        }
    }
}

fn answer(span: Span) -> Vec<FilterStep> {
    let checks = checks(span.unless);
    let mut steps = Vec::with_capacity(3 + checks.len());
    steps.push(skip(FilterTest::AtLeast(span.first), 1, 0));
    steps.push(REFUSED);
    steps.push(skip(FilterTest::Above(span.last), 0, 1));
    steps.push(REFUSED);
    steps.extend(checks);
    steps.push(FilterStep::Allow);
    steps
}

fn checks(unless: &[Unless]) -> Vec<FilterStep> {
    let mut steps = Vec::new();
    for &Unless { argument, test } in unless {
        steps.push(FilterStep::Load(FilterWord::Argument(argument)));
        steps.push(skip(test, 0, 1));
        steps.push(REFUSED);
    }
    steps
}

fn skip(test: FilterTest, holds: usize, fails: u8) -> FilterStep {
    FilterStep::Jump {
        test,
        // A list so long that it does not fit is found by the test of every call.
        holds: u8::try_from(holds).unwrap_or(u8::MAX),
        fails,
    }
}
