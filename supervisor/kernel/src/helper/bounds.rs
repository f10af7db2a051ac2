//! What a reply may contain. The codec bounds how long a message is; what is in it ends up in
//! records and in sentences for people, and is bounded here. Pure.

use xioflow_protocol::{
    Exit, LastWord, LaunchFailure, PROCESS_NOTES_MAX, ProcessNote, Reply, Survivor, SurvivorEnd,
    TreeEnd,
};

/// Longest name of a program that is taken from a helper, in bytes; the kernel's own have 15.
const COMMAND_LEN_MAX: usize = 64;

/// Longest subject of a launch failure, in bytes: a path and some words around it.
const SUBJECT_LEN_MAX: usize = 8 * 1024;

/// Longest text of a helper's own that is shown, in characters.
const TEXT_CHARS_MAX: usize = 512;

/// The largest signal number of Linux.
const SIGNAL_MAX: i32 = 64;

/// Says what of a reply is more than any helper may send.
pub(super) fn check(reply: &Reply) -> Result<(), &'static str> {
    match reply {
        Reply::LaunchFailed(failure) => check_failure(failure),
        Reply::RootExited { exit } => check_exit(*exit),
        Reply::Survivors { processes, total } => {
            check_count(processes.len(), *total)?;
            processes.iter().try_for_each(check_note)
        }
        Reply::Signalled { signal, .. } => check_signal(*signal),
        Reply::TreeEmpty(end) => check_end(end).and_then(|()| check_empty(end)),
        Reply::TreeRemains(end) => check_end(end),
        Reply::Hello(_)
        | Reply::Spawned { .. }
        | Reply::Running
        | Reply::Armour(_)
        | Reply::Refused(_)
        | Reply::Panicked { .. } => Ok(()),
    }
}

/// The same of a last word, which says at once what replies say one after the other.
pub(crate) fn check_word(word: &LastWord) -> Result<(), &'static str> {
    if let Some(failure) = &word.launch_failure {
        check_failure(failure)?;
    }
    check_end(&word.end)?;
    if word.empty {
        check_empty(&word.end)?;
    }
    Ok(())
}

/// Nothing is left of a tree in which nobody is.
fn check_empty(end: &TreeEnd) -> Result<(), &'static str> {
    let lives = |survivor: &Survivor| matches!(survivor.end, SurvivorEnd::Alive(_));
    if end.survivors.iter().any(lives) {
        return Err("a tree that is empty and has somebody in it");
    }
    Ok(())
}

fn check_end(end: &TreeEnd) -> Result<(), &'static str> {
    end.exit.map_or(Ok(()), check_exit)?;
    end.last_signal.map_or(Ok(()), check_signal)?;
    check_count(end.survivors.len(), end.survivors_total)?;
    for survivor in &end.survivors {
        check_note(&survivor.process)?;
        if let SurvivorEnd::Ended(exit) = survivor.end {
            check_exit(exit)?;
        }
    }
    Ok(())
}

fn check_count(listed: usize, total: u32) -> Result<(), &'static str> {
    let total = usize::try_from(total).unwrap_or(usize::MAX);
    if listed > PROCESS_NOTES_MAX || listed > total {
        return Err("a list of more processes than it may have");
    }
    Ok(())
}

fn check_note(note: &ProcessNote) -> Result<(), &'static str> {
    if note.command.len() > COMMAND_LEN_MAX {
        return Err("a program's name that is too long for one");
    }
    Ok(())
}

fn check_exit(exit: Exit) -> Result<(), &'static str> {
    let possible = match exit {
        Exit::Exited { code } => (0..=255).contains(&code),
        Exit::Signaled { signal, .. } => (1..=SIGNAL_MAX).contains(&signal),
    };
    possible
        .then_some(())
        .ok_or("an exit that no process can have")
}

fn check_signal(signal: i32) -> Result<(), &'static str> {
    (1..=SIGNAL_MAX)
        .contains(&signal)
        .then_some(())
        .ok_or("a signal that there is not")
}

fn check_failure(failure: &LaunchFailure) -> Result<(), &'static str> {
    if failure.subject.len() > SUBJECT_LEN_MAX {
        return Err("a launch failure with an endless subject");
    }
    Ok(())
}

/// A text of the helper's for people: on one line and no longer than a few of them.
pub(super) fn brief(text: &str) -> String {
    let shown = text.chars().take(TEXT_CHARS_MAX);
    let mut brief: String = shown
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .collect();
    if text.chars().nth(TEXT_CHARS_MAX).is_some() {
        brief.push_str(" ...");
    }
    brief
}

#[cfg(test)]
mod tests {
    use super::*;
    use xioflow_protocol::{Stage, Usage, WhyAlive};

    fn note(command_len: usize) -> ProcessNote {
        ProcessNote::new(7, 1, vec![b'x'; command_len], None)
    }

    fn end(exit: Option<Exit>, survivors: Vec<Survivor>, survivors_total: u32) -> TreeEnd {
        TreeEnd {
            exit,
            survivors,
            survivors_total,
            usage: Usage::default(),
            last_signal: None,
            group_empty: None,
        }
    }

    #[test]
    fn each_bound_holds_at_its_edge_and_not_beyond() {
        let survivors = |count: usize, total| Reply::Survivors {
            processes: vec![note(15); count],
            total,
        };
        let most = u32::try_from(PROCESS_NOTES_MAX).unwrap();
        assert_eq!(check(&survivors(PROCESS_NOTES_MAX, most)), Ok(()));
        assert_eq!(check(&survivors(PROCESS_NOTES_MAX, u32::MAX)), Ok(()));
        assert!(check(&survivors(PROCESS_NOTES_MAX + 1, u32::MAX)).is_err());
        assert!(check(&survivors(2, 1)).is_err());
        let named = |len| Reply::Survivors {
            processes: vec![note(len)],
            total: 1,
        };
        assert_eq!(check(&named(COMMAND_LEN_MAX)), Ok(()));
        assert!(check(&named(COMMAND_LEN_MAX + 1)).is_err());
        let failed = |len| {
            Reply::LaunchFailed(LaunchFailure {
                stage: Stage::Exec,
                errno: 2,
                subject: vec![b'/'; len].into(),
            })
        };
        assert_eq!(check(&failed(SUBJECT_LEN_MAX)), Ok(()));
        assert!(check(&failed(SUBJECT_LEN_MAX + 1)).is_err());
    }

    #[test]
    fn an_exit_is_one_that_wait_can_say_wherever_it_stands() {
        let core = false;
        for (exit, possible) in [
            (Exit::Exited { code: 0 }, true),
            (Exit::Exited { code: 255 }, true),
            (Exit::Exited { code: 256 }, false),
            (Exit::Exited { code: -1 }, false),
            (Exit::Signaled { signal: 64, core }, true),
            (Exit::Signaled { signal: 0, core }, false),
            (Exit::Signaled { signal: 65, core }, false),
        ] {
            let survivor = Survivor {
                process: note(1),
                end: SurvivorEnd::Ended(exit),
            };
            for reply in [
                Reply::RootExited { exit },
                Reply::TreeEmpty(end(Some(exit), Vec::new(), 0)),
                Reply::TreeRemains(end(None, vec![survivor], 1)),
            ] {
                assert_eq!(check(&reply).is_ok(), possible, "{reply:?}");
            }
        }
    }

    /// Found by fuzzing last words: each half of such a sentence was believed.
    #[test]
    fn nobody_lives_in_an_empty_tree() {
        let with = |end_of| {
            let survivor = Survivor {
                process: note(1),
                end: end_of,
            };
            end(None, vec![survivor], 1)
        };
        let lives = with(SurvivorEnd::Alive(WhyAlive::Unknown));
        assert!(check(&Reply::TreeEmpty(lives.clone())).is_err());
        assert_eq!(check(&Reply::TreeRemains(lives)), Ok(()));
        for gone in [SurvivorEnd::GoneUnobserved, SurvivorEnd::Unreaped] {
            assert_eq!(check(&Reply::TreeEmpty(with(gone))), Ok(()));
        }
    }

    #[test]
    fn a_signal_is_one_that_there_is() {
        for (signal, possible) in [(0, false), (1, true), (64, true), (65, false), (-9, false)] {
            let ended = TreeEnd {
                last_signal: Some(signal),
                ..end(None, Vec::new(), 0)
            };
            for reply in [
                Reply::Signalled { signal, targets: 1 },
                Reply::TreeRemains(ended),
            ] {
                assert_eq!(check(&reply).is_ok(), possible, "{reply:?}");
            }
        }
    }

    #[test]
    fn a_text_is_one_line_of_bounded_length() {
        assert_eq!(brief("a\nb\u{1b}[31m"), "a b [31m");
        let long = brief(&"ä".repeat(TEXT_CHARS_MAX + 1));
        assert_eq!(long.chars().count(), TEXT_CHARS_MAX + 4);
        assert_eq!(
            brief(&"ä".repeat(TEXT_CHARS_MAX)).chars().count(),
            TEXT_CHARS_MAX
        );
    }
}
