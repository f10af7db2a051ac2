//! Files that may be the last word of a helper, and what recovery makes of them.

use xioflow_journal::{OperationKind, OperationStatus, Outcome};
use xioflow_kernel::ProcessIdentity;
use xioflow_kernel::rules::{
    Attempt, Conclusion, Init, Known, Leaf, Liveness, Observed, Provenance, Recorded, Ruling,
    decide, word_of,
};
use xioflow_protocol::{Exit, Identity, LastWord, LastWordError, SurvivorEnd};

use crate::memory::bounded;

/// Checks the product's reader, and what recovery decides by what it reads.
pub fn check(file: &[u8]) {
    check_with(LastWord::from_bytes, file);
    if let Ok(word) = LastWord::from_bytes(file) {
        check_decisions(&word);
    }
}

/// Whatever recovery finds beside this word of the recorded helper, it says no more than the word proves.
///
/// # Panics
/// Where it says more.
pub fn check_decisions(word: &LastWord) {
    let (holder, root) = (
        recorded_as(&word.holder),
        word.root.as_ref().map(recorded_as),
    );
    let said = word_of(
        word.clone(),
        &word.operation_id,
        Some(&holder),
        root.as_ref(),
    );
    let recorded = Recorded {
        kind: OperationKind::Process,
        status: OperationStatus::Active,
        spawn_gated: Some(true),
        root: Known::Yes,
        holder: Known::Yes,
        stop: None,
        provenance: Provenance::Here,
    };
    for holder in Liveness::ALL {
        let with_leaf = |root, init| Leaf::ALL.map(|leaf| (root, init, leaf));
        let with_each = move |root| Init::ALL.map(|init| with_leaf(root, init));
        for (root, init, leaf) in Liveness::ALL.into_iter().flat_map(with_each).flatten() {
            let observed = Observed {
                word: said,
                holder,
                init,
                leaf,
                root,
                waited: true,
                attempt: Attempt::NothingFound,
            };
            if let Ruling::Conclude(conclusion) = decide(&recorded, &observed) {
                let boots = [holder, root].contains(&Liveness::OtherBoot);
                let nobody_outlived = boots || init == Init::Gone || leaf.is_over();
                check_conclusion(word, &conclusion, nobody_outlived);
            }
        }
    }
}

fn check_conclusion(word: &LastWord, conclusion: &Conclusion, nobody_outlived: bool) {
    if let Some(exit) = conclusion.exit {
        assert_eq!(word.end.exit, Some(exit), "an exit that nobody saw");
        assert!(
            is_possible(exit),
            "{exit:?} is none that a process can have"
        );
    }
    if conclusion.status == Outcome::Succeeded {
        let by_itself = word.released && word.launch_failure.is_none() && !word.stopped;
        let clean = conclusion.exit == Some(Exit::Exited { code: 0 });
        assert!(
            by_itself && clean && word.empty,
            "a success that nobody saw"
        );
    }
    if conclusion.frees_leases() && !nobody_outlived {
        let lives = |end: &SurvivorEnd| matches!(end, SurvivorEnd::Alive(_));
        let somebody = word
            .end
            .survivors
            .iter()
            .any(|survivor| lives(&survivor.end));
        assert!(
            word.empty && !somebody,
            "a lease is freed while somebody lives"
        );
    }
}

fn is_possible(exit: Exit) -> bool {
    match exit {
        Exit::Exited { code } => (0..=255).contains(&code),
        Exit::Signaled { signal, .. } => (1..=64).contains(&signal),
    }
}

fn recorded_as(identity: &Identity) -> ProcessIdentity {
    ProcessIdentity {
        pid: identity.pid,
        pgid: None,
        start_ticks: identity.start_ticks,
        boot_id: identity
            .boot_id
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect(),
        pidfd_inode: identity.pidfd_inode,
        os_start_time: None,
        command_fingerprint: None,
        namespaces: None,
        pid_namespace: None,
        cgroup_path: None,
        cgroup_id: None,
        cgroup_namespace: None,
    }
}

/// Checks a reader: it never panics, takes memory for what the file has and not for what it claims, and what it reads
/// is the one thing that the file can mean.
///
/// # Panics
/// Where one of these does not hold.
pub fn check_with(read: impl Fn(&[u8]) -> Result<LastWord, LastWordError>, file: &[u8]) {
    let Ok(word) = bounded(file.len(), || read(file)) else {
        return;
    };
    let written = word.to_bytes().expect("what was in a file fits one");
    assert_eq!(
        read(&written).as_ref(),
        Ok(&word),
        "what was read cannot be written"
    );
    // The file is one item: half of it, or more than it, is damage.
    let half = &written[..written.len() - 1];
    assert!(
        read(half).is_err(),
        "a file that was cut is read as if it were whole"
    );
    let more = [written.as_slice(), &[0]].concat();
    assert!(
        read(&more).is_err(),
        "what follows the last word is not noticed"
    );
}
