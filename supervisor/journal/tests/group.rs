//! Many callers, few transactions: what is shared, what is not, and that all are answered.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use support::*;
use xioflow_journal::{CommitError, Journal, OperationFilter, Query, Rejected};

/// Longer than any of these tests takes where it passes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Keeps the database's write lock, as a foreign program might, so that commits queue up.
struct Blocker(Connection);

impl Blocker {
    fn new(journal: &Journal) -> Self {
        let connection = Connection::open(journal.dir().database()).unwrap();
        connection.execute_batch("BEGIN IMMEDIATE").unwrap();
        Self(connection)
    }

    fn release(self) {
        self.0.execute_batch("ROLLBACK").unwrap();
    }
}

fn until(journal: &Journal, what: impl Fn(&Journal) -> bool) {
    let begun = Instant::now();
    while !what(journal) {
        assert!(
            begun.elapsed() < PATIENCE,
            "it did not come about: {:?}",
            journal.stats()
        );
        thread::yield_now();
    }
}

#[test]
fn requests_that_wait_share_one_transaction() {
    const WAITING: usize = 20;
    let place = Place::new();
    let journal = place.open_with_run();
    let before = journal.stats();
    let blocker = Blocker::new(&journal);
    thread::scope(|scope| {
        scope.spawn(|| journal.commit(vec![register("first", &[])]).unwrap());
        until(&journal, |j| j.stats().requests == before.requests + 1);
        for n in 0..WAITING {
            let journal = &journal;
            scope.spawn(move || {
                journal
                    .commit(vec![register(&format!("o{n}"), &[])])
                    .unwrap()
            });
        }
        until(&journal, |j| j.stats().waiting == WAITING);
        blocker.release();
    });
    let after = journal.stats();
    assert_eq!(after.transactions - before.transactions, 2);
    assert_eq!(after.largest_batch, WAITING as u64);
    assert_eq!(after.waiting, 0);
    assert_eq!(journal.unfinished().unwrap().len(), WAITING + 1);
}

#[test]
fn a_refused_request_does_not_touch_its_batch() {
    let place = Place::new();
    let journal = place.open_with_run();
    journal.commit(vec![register("holder", &["x"])]).unwrap();
    let before = journal.stats();
    let blocker = Blocker::new(&journal);
    thread::scope(|scope| {
        let commit = |changes| {
            let journal = &journal;
            scope.spawn(move || journal.commit(changes))
        };
        let first = commit(vec![register("first", &[])]);
        until(&journal, |j| j.stats().requests == before.requests + 1);
        let good = commit(vec![register("good", &["y"])]);
        until(&journal, |j| j.stats().waiting == 1);
        // Half of it could be applied, and must not be.
        let bad = commit(vec![register("half", &["z"]), register("bad", &["x"])]);
        until(&journal, |j| j.stats().waiting == 2);
        let late = commit(vec![register("late", &["z"])]);
        until(&journal, |j| j.stats().waiting == 3);
        blocker.release();

        let seqs = |receipt: xioflow_journal::CommitReceipt| (receipt.first_seq, receipt.last_seq);
        assert_eq!(seqs(first.join().unwrap().unwrap()), (Some(2), Some(2)));
        assert_eq!(seqs(good.join().unwrap().unwrap()), (Some(3), Some(3)));
        assert!(matches!(
            bad.join().unwrap(),
            Err(CommitError::Rejected(Rejected::ResourceHeld { resource, holder }))
                if resource == "x" && holder == "holder"
        ));
        assert_eq!(seqs(late.join().unwrap().unwrap()), (Some(4), Some(4)));
    });
    assert_eq!(journal.stats().transactions - before.transactions, 2);
    assert_eq!(journal.operation("half").unwrap(), None);
}

#[test]
fn a_commit_waits_for_a_foreign_writer_and_then_says_so() {
    let place = Place::new();
    let journal = place.open_with_run();
    let blocker = Blocker::new(&journal);
    let error = journal.commit(vec![register("o", &[])]).unwrap_err();
    assert!(error.to_string().contains("another program"), "{error}");
    blocker.release();
    journal.commit(vec![register("o", &[])]).unwrap();
}

#[test]
fn everybody_is_answered_and_positions_are_never_shared() {
    const THREADS: usize = 16;
    const COMMITS: usize = 40;
    let place = Place::new();
    let journal = place.open_with_run();
    let mut seqs = thread::scope(|scope| {
        let callers: Vec<_> = (0..THREADS)
            .map(|t| {
                let journal = &journal;
                scope.spawn(move || {
                    let commit = |n| {
                        journal
                            .commit(vec![register(&format!("{t}-{n}"), &[])])
                            .unwrap()
                    };
                    (0..COMMITS)
                        .map(|n| commit(n).first_seq.unwrap())
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        callers
            .into_iter()
            .map(|c| c.join().unwrap())
            .collect::<Vec<_>>()
    });
    for mine in &mut seqs {
        assert!(mine.is_sorted(), "one caller's commits are in its order");
    }
    let all: BTreeSet<i64> = seqs.concat().into_iter().collect();
    assert_eq!(all.len(), THREADS * COMMITS);
    assert_eq!(
        journal.last_seq().unwrap(),
        i64::try_from(THREADS * COMMITS).unwrap()
    );
    let stats = journal.stats();
    assert!(
        stats.transactions < stats.requests / 2,
        "nothing was shared: {stats:?}"
    );
    assert_eq!(
        journal
            .operations(&OperationFilter::default())
            .unwrap()
            .len(),
        THREADS * COMMITS
    );
}

#[test]
fn questions_do_not_wait_for_a_commit() {
    let place = Place::new();
    let journal = place.open_with_run();
    let blocker = Blocker::new(&journal);
    thread::scope(|scope| {
        let before = journal.stats().requests;
        let commit = scope.spawn(|| journal.commit(vec![register("o", &[])]));
        until(&journal, |j| j.stats().requests == before + 1);
        assert!(journal.run("r").unwrap().is_some());
        assert_eq!(journal.operation("o").unwrap(), None);
        blocker.release();
        commit.join().unwrap().unwrap();
    });
}
