//! Walks every combination of recorded and observed facts, and holds the table to what it promises.

use std::collections::BTreeSet;

use super::*;

/// What the helper may have said, as far as it can differ in what follows.
fn words() -> Vec<Word> {
    let exits = [
        None,
        Some(Exit::Exited { code: 0 }),
        Some(Exit::Signaled {
            signal: 9,
            core: false,
        }),
    ];
    let mut fates = vec![Fate::NeverRan, Fate::NotExecuted];
    for exit in exits {
        for (stopped, signalled) in [(false, false), (false, true), (true, false), (true, true)] {
            fates.push(Fate::Ran {
                exit,
                stopped,
                signalled,
            });
        }
    }
    let said = fates
        .into_iter()
        .flat_map(|fate| [true, false].map(|empty| Word::Said(Said { fate, empty })));
    [Word::None, Word::Unusable]
        .into_iter()
        .chain(said)
        .collect()
}

/// What may be recorded. A kind that is judged without a look at anything has one record of each
/// provenance.
fn every_record() -> Vec<Recorded> {
    let known = [Known::No, Known::Illegible, Known::Yes];
    let mut all = Vec::new();
    for &kind in OperationKind::ALL {
        for &status in OperationStatus::ALL {
            for spawn_gated in [None, Some(false), Some(true)] {
                for root in known {
                    for holder in known {
                        for stop in [None, Some(TerminationReason::UserCancelled)] {
                            for provenance in Provenance::ALL {
                                all.push(Recorded {
                                    kind,
                                    status,
                                    spawn_gated,
                                    root,
                                    holder,
                                    stop,
                                    provenance,
                                });
                            }
                        }
                    }
                }
            }
        }
    }
    let mut kinds = BTreeSet::new();
    all.retain(|it| is_process(it) || kinds.insert((it.kind as u8, it.provenance as u8)));
    all
}

fn every_observation() -> Vec<Observed> {
    let mut all = Vec::new();
    for word in words() {
        for holder in Liveness::ALL {
            for (root, init, leaf) in looks().filter(|it| it.2 == Leaf::Untold || has_group(word)) {
                for waited in [false, true] {
                    for attempt in Attempt::ALL {
                        all.push(Observed {
                            word,
                            holder,
                            init,
                            leaf,
                            root,
                            waited,
                            attempt,
                        });
                    }
                }
            }
        }
    }
    all
}

/// What the helper says of the exit has nothing to do with its control group: with one fate in it all are told.
fn has_group(word: Word) -> bool {
    match word {
        Word::None | Word::Unusable => true,
        Word::Said(said) => said.fate == STOPPED,
    }
}

const STOPPED: Fate = Fate::Ran {
    exit: Some(Exit::Exited { code: 0 }),
    stopped: true,
    signalled: true,
};

fn looks() -> impl Iterator<Item = (Liveness, Init, Leaf)> {
    let with_leaf = |root, init| Leaf::ALL.map(|leaf| (root, init, leaf));
    let with_each = move |root| Init::ALL.map(|init| with_leaf(root, init));
    Liveness::ALL.into_iter().flat_map(with_each).flatten()
}

fn is_process(recorded: &Recorded) -> bool {
    matches!(
        recorded.kind,
        OperationKind::Process | OperationKind::Service
    )
}

/// One combination, and what follows from it.
#[derive(Debug)]
struct Row<'a> {
    recorded: &'a Recorded,
    observed: &'a Observed,
    ruling: Ruling,
}

/// Every combination there is. Each property is looked at for each of them.
#[test]
fn the_table_keeps_its_promises_in_every_combination() {
    let observations = every_observation();
    let mut rows = 0_u64;
    for recorded in every_record() {
        for observed in &observations {
            let row = Row {
                recorded: &recorded,
                observed,
                ruling: decide(&recorded, observed),
            };
            row.names_whom_it_acts_on();
            row.comes_to_an_end();
            if let Ruling::Conclude(concluded) = row.ruling {
                row.frees_by_proof_and_by_nothing_else(&concluded);
                row.ends_who_is_left_first(&concluded);
                row.invents_no_exit(&concluded);
                row.calls_success_what_was_seen_to_succeed(&concluded);
                row.has_a_fitting_verdict(&concluded);
            }
            rows += 1;
        }
    }
    assert!(rows > 1_000_000, "{rows}");
}

impl Row<'_> {
    fn holder(&self) -> Option<Liveness> {
        self.seen(self.recorded.holder, self.observed.holder)
    }

    fn root(&self) -> Option<Liveness> {
        self.seen(self.recorded.root, self.observed.root)
    }

    fn seen(&self, known: Known, liveness: Liveness) -> Option<Liveness> {
        let counts = known == Known::Yes && self.recorded.provenance != Provenance::Copied;
        counts.then_some(liveness)
    }

    /// The machine that this happened on was started since, and nothing says otherwise.
    fn nothing_survived(&self) -> bool {
        let looks = [self.holder(), self.root()];
        let says = |wanted: &[Liveness]| looks.iter().flatten().any(|it| wanted.contains(it));
        says(&[Liveness::OtherBoot])
            && !says(&[
                Liveness::Alive,
                Liveness::Unreaped,
                Liveness::Gone,
                Liveness::Elsewhere,
            ])
            && self.init() == Init::Untold
            && !self.leaf().is_there()
            && self.recorded.provenance != Provenance::OtherMachine
    }

    /// Whether what was recorded with the command was of this machine.
    fn is_of_here(&self) -> bool {
        let here = [Provenance::Here, Provenance::Renumbered].contains(&self.recorded.provenance);
        here && self.recorded.root == Known::Yes
    }

    /// What counts of the look at the init.
    fn init(&self) -> Init {
        match self.is_of_here() {
            true => self.observed.init,
            false => Init::Untold,
        }
    }

    /// What counts of the look at the control group.
    fn leaf(&self) -> Leaf {
        match self.is_of_here() {
            true => self.observed.leaf,
            false => Leaf::Untold,
        }
    }

    /// Nobody lives in the tree's control group, and nobody of the tree is known to live outside of it.
    fn group_is_empty(&self) -> bool {
        let otherwise = [Some(Liveness::OtherBoot), Some(Liveness::Elsewhere)];
        let is_elsewhere = [self.root(), self.holder()]
            .iter()
            .any(|it| otherwise.contains(it));
        let is_over = match self.leaf() {
            Leaf::Empty => true,
            Leaf::Removed => !is_elsewhere,
            Leaf::Untold | Leaf::Populated | Leaf::Stuck => false,
        };
        is_over && self.root() != Some(Liveness::Alive) && self.init() != Init::Lives
    }

    /// The kernel has ended everybody in the tree's namespace, and nothing says otherwise.
    fn namespace_is_gone(&self) -> bool {
        let lives = [Liveness::Alive, Liveness::Unreaped, Liveness::OtherBoot];
        self.init() == Init::Gone
            && self.root().is_none_or(|root| !lives.contains(&root))
            && self.holder() != Some(Liveness::OtherBoot)
    }

    /// The owner that recorded it may be at work, and what lives is its business.
    fn may_be_watched_over(&self) -> bool {
        matches!(
            self.recorded.provenance,
            Provenance::Copied | Provenance::Renumbered
        )
    }

    /// The gate cannot have been opened: the identity was to be durable first, and there is none.
    fn was_never_let_run(&self) -> bool {
        !self.may_be_watched_over()
            && self.recorded.root == Known::No
            && self.recorded.status == OperationStatus::IntentRegistered
            && self.recorded.spawn_gated == Some(true)
    }

    /// Whether nothing of the operation can act any more.
    fn is_proof(&self) -> bool {
        if !is_process(self.recorded) {
            return self.recorded.kind == OperationKind::Snapshot && !self.may_be_watched_over();
        }
        match self.observed.word {
            Word::Said(said) if said.empty => {
                self.namespace_is_gone()
                    || self.root() != Some(Liveness::Alive)
                        && self.init() != Init::Lives
                        && !self.leaf().has_somebody()
            }
            Word::Said(_) => {
                self.nothing_survived() || self.namespace_is_gone() || self.group_is_empty()
            }
            Word::None | Word::Unusable => {
                let is_held = self.holder() == Some(Liveness::Alive);
                let is_somewhere = is_held || self.leaf().has_somebody();
                let is_held_elsewhere = self.may_be_watched_over() && is_somewhere;
                let is_zombie = self.root() == Some(Liveness::Unreaped);
                let may_be_waited_for = self.may_be_watched_over() && is_zombie;
                self.was_never_let_run()
                    || self.nothing_survived()
                    || self.namespace_is_gone() && !is_held_elsewhere
                    || self.group_is_empty() && !is_held && !may_be_waited_for
            }
        }
    }

    fn frees_by_proof_and_by_nothing_else(&self, concluded: &Conclusion) {
        assert_eq!(concluded.frees_leases(), self.is_proof(), "{self:?}");
    }

    fn invents_no_exit(&self, concluded: &Conclusion) {
        let told = match self.observed.word {
            Word::Said(Said {
                fate: Fate::Ran { exit, .. },
                ..
            }) => exit,
            _ => None,
        };
        let tells = concluded.frees_leases() && is_process(self.recorded);
        assert_eq!(concluded.exit, told.filter(|_| tells), "{self:?}");
    }

    fn calls_success_what_was_seen_to_succeed(&self, concluded: &Conclusion) {
        if concluded.status != Outcome::Succeeded {
            return;
        }
        let Word::Said(Said {
            fate:
                Fate::Ran {
                    exit: Some(Exit::Exited { code: 0 }),
                    stopped: false,
                    signalled,
                },
            empty: true,
        }) = self.observed.word
        else {
            panic!("{self:?}");
        };
        assert!(self.recorded.stop.is_none() || !signalled, "{self:?}");
    }

    /// Nobody is waited for or signalled who is not known, and nobody whose helper does it.
    fn names_whom_it_acts_on(&self) {
        let acts = matches!(self.ruling, Ruling::Wait | Ruling::Stop);
        assert!(!acts || !self.may_be_watched_over(), "{self:?}");
        match self.ruling {
            Ruling::Wait => {
                let holds = self.holder() == Some(Liveness::Alive);
                assert!(holds || self.init() == Init::Lives, "{self:?}");
                assert!(!self.observed.waited, "{self:?}");
            }
            Ruling::Stop => {
                let ours = [Some(Liveness::Alive), Some(Liveness::Unreaped)];
                let in_group = self.leaf() == Leaf::Populated;
                let is_there =
                    ours.contains(&self.root()) || self.init() == Init::Lives || in_group;
                assert!(is_there, "{self:?}");
                assert_ne!(self.holder(), Some(Liveness::Alive), "{self:?}");
                assert_eq!(self.observed.attempt, Attempt::NotTried, "{self:?}");
                let told = matches!(self.observed.word, Word::Said(_));
                assert!(!told || in_group, "{self:?}");
                assert!(is_process(self.recorded), "{self:?}");
            }
            Ruling::Conclude(_) => {}
        }
    }

    /// Nothing is concluded beside somebody who could still be ended.
    fn ends_who_is_left_first(&self, concluded: &Conclusion) {
        let is_held = self.holder() == Some(Liveness::Alive);
        let is_left = self.leaf() == Leaf::Populated && self.observed.attempt == Attempt::NotTried;
        if is_left && !is_held && is_process(self.recorded) && !self.may_be_watched_over() {
            panic!("{self:?} {concluded:?}");
        }
    }

    fn comes_to_an_end(&self) {
        if self.observed.waited && self.observed.attempt != Attempt::NotTried {
            assert!(matches!(self.ruling, Ruling::Conclude(_)), "{self:?}");
        }
    }

    fn has_a_fitting_verdict(&self, concluded: &Conclusion) {
        let unclear = concluded.status == Outcome::Indeterminate;
        match concluded.verdict {
            Verdict::Isolated => assert!(unclear, "{self:?}"),
            Verdict::StoppedAliveProcess => {
                assert!(
                    unclear && self.observed.attempt == Attempt::Confirmed,
                    "{self:?}"
                );
            }
            Verdict::MarkedDead => {
                let unseen = Some(TerminationReason::ExitUnobserved);
                assert_eq!(
                    (concluded.reason, concluded.exit),
                    (unseen, None),
                    "{self:?}"
                );
            }
            Verdict::SettledByLastWord => {
                let told = matches!(self.observed.word, Word::Said(_));
                assert!(told && !unclear && concluded.reason.is_some(), "{self:?}");
            }
            Verdict::CleanedUnspawned => {
                let nothing_ran = match self.observed.word {
                    Word::Said(said) => !matches!(said.fate, Fate::Ran { .. }),
                    Word::None | Word::Unusable => self.was_never_let_run(),
                };
                let snapshot = self.recorded.kind == OperationKind::Snapshot;
                assert!(nothing_ran || snapshot, "{self:?}");
                assert_eq!((concluded.status, concluded.exit), (Outcome::Failed, None));
            }
        }
    }
}

/// Each row of the table, by one example, so that a row that moves is seen.
#[test]
fn each_case_by_an_example() {
    let recorded = Recorded {
        kind: OperationKind::Process,
        status: OperationStatus::Active,
        spawn_gated: Some(true),
        root: Known::Yes,
        holder: Known::Yes,
        stop: None,
        provenance: Provenance::Here,
    };
    let observed = Observed {
        word: Word::None,
        holder: Liveness::Gone,
        init: Init::Untold,
        leaf: Leaf::Untold,
        root: Liveness::Gone,
        waited: true,
        attempt: Attempt::NotTried,
    };
    let ran = Fate::Ran {
        exit: Some(Exit::Exited { code: 0 }),
        stopped: false,
        signalled: false,
    };
    let said = |fate, empty| Word::Said(Said { fate, empty });
    let with = |word| Observed { word, ..observed };
    let seen = |holder, root| Observed {
        holder,
        root,
        ..observed
    };
    let tried = |attempt| Observed {
        root: Liveness::Alive,
        attempt,
        ..observed
    };
    let gone = |observed| Observed {
        init: Init::Gone,
        ..observed
    };
    let in_leaf = |leaf, observed| Observed { leaf, ..observed };
    let of = |kind| Recorded { kind, ..recorded };
    let unnamed = |status, spawn_gated| Recorded {
        status,
        spawn_gated,
        root: Known::No,
        ..recorded
    };
    let from = |provenance| Recorded {
        provenance,
        ..recorded
    };
    let (copied, renumbered) = (from(Provenance::Copied), from(Provenance::Renumbered));
    let boot = Liveness::OtherBoot;
    let cases = [
        ('A', recorded, with(said(ran, true))),
        ('B', recorded, with(said(ran, false))),
        ('C', recorded, with(Word::Unusable)),
        ('D', recorded, seen(boot, boot)),
        ('E', recorded, seen(Liveness::Alive, Liveness::Alive)),
        ('F', recorded, tried(Attempt::Unconfirmed)),
        ('G', recorded, observed),
        ('G', recorded, tried(Attempt::NothingFound)),
        ('H', recorded, seen(Liveness::CannotTell, Liveness::Gone)),
        (
            'H',
            recorded,
            seen(Liveness::Elsewhere, Liveness::Elsewhere),
        ),
        ('I', of(OperationKind::Rollback), observed),
        ('J', recorded, with(said(Fate::NeverRan, true))),
        ('K', recorded, with(said(Fate::NotExecuted, true))),
        (
            'L',
            unnamed(OperationStatus::IntentRegistered, Some(true)),
            observed,
        ),
        (
            'M',
            unnamed(OperationStatus::IntentRegistered, None),
            observed,
        ),
        ('M', unnamed(OperationStatus::Active, Some(true)), observed),
        ('N', recorded, tried(Attempt::Confirmed)),
        (
            'O',
            recorded,
            Observed {
                word: said(ran, true),
                root: Liveness::Alive,
                ..observed
            },
        ),
        (
            'P',
            recorded,
            Observed {
                word: said(ran, false),
                ..seen(boot, boot)
            },
        ),
        ('Q', from(Provenance::OtherMachine), seen(boot, boot)),
        ('Q', copied, seen(boot, boot)),
        ('A', copied, with(said(ran, true))),
        ('Q', renumbered, seen(Liveness::Alive, Liveness::Gone)),
        ('Q', renumbered, tried(Attempt::NotTried)),
        ('G', renumbered, observed),
        ('D', renumbered, seen(boot, boot)),
        ('R', of(OperationKind::Snapshot), observed),
        ('S', recorded, gone(observed)),
        ('S', recorded, gone(with(Word::Unusable))),
        ('S', recorded, gone(seen(Liveness::Alive, Liveness::Gone))),
        ('S', renumbered, gone(observed)),
        ('Q', renumbered, gone(seen(Liveness::Alive, Liveness::Gone))),
        ('Q', copied, gone(observed)),
        ('Q', from(Provenance::OtherMachine), gone(observed)),
        ('A', recorded, gone(with(said(ran, true)))),
        ('T', recorded, gone(with(said(ran, false)))),
        ('U', recorded, in_leaf(Leaf::Empty, observed)),
        ('U', recorded, in_leaf(Leaf::Removed, observed)),
        ('U', renumbered, in_leaf(Leaf::Empty, with(Word::Unusable))),
        ('Q', renumbered, in_leaf(Leaf::Populated, observed)),
        (
            'Q',
            from(Provenance::OtherMachine),
            in_leaf(Leaf::Empty, observed),
        ),
        // The command itself has left it.
        (
            'N',
            recorded,
            in_leaf(Leaf::Empty, tried(Attempt::Confirmed)),
        ),
        ('F', recorded, in_leaf(Leaf::Stuck, observed)),
        // The helper may hold somebody who has left it.
        (
            'E',
            recorded,
            in_leaf(Leaf::Empty, seen(Liveness::Alive, Liveness::Gone)),
        ),
        // Nothing at its place, where the place is another one.
        (
            'H',
            recorded,
            in_leaf(
                Leaf::Removed,
                seen(Liveness::Elsewhere, Liveness::Elsewhere),
            ),
        ),
        ('D', recorded, in_leaf(Leaf::Removed, seen(boot, boot))),
        // The stronger proof decides.
        ('S', recorded, gone(in_leaf(Leaf::Stuck, observed))),
        ('O', recorded, in_leaf(Leaf::Stuck, with(said(ran, true)))),
        ('B', recorded, in_leaf(Leaf::Stuck, with(said(ran, false)))),
        ('V', recorded, in_leaf(Leaf::Empty, with(said(ran, false)))),
    ];
    for (letter, recorded, observed) in cases {
        let Ruling::Conclude(concluded) = decide(&recorded, &observed) else {
            panic!("{letter}: {recorded:?} {observed:?}");
        };
        assert_eq!(concluded.case.letter(), letter);
    }
    let letters: BTreeSet<char> = cases.iter().map(|case| case.0).collect();
    let all: BTreeSet<char> = Case::ALL.iter().map(|case| case.letter()).collect();
    assert_eq!(
        letters, all,
        "every row has its example, and no letter twice"
    );
    assert_eq!(all.len(), Case::ALL.len());
}

#[test]
fn every_case_is_documented() {
    let page = include_str!("../../../../docs/recovery.md");
    for case in Case::ALL {
        let row = format!("\n| {} |", case.letter());
        assert!(page.contains(&row), "docs/recovery.md lacks{row}");
    }
}
