//! Large trees: counted to the last one, and none of them alive when they are called gone.

use xioflow_kit::each_user;
use xioflow_protocol::{Exit, PROCESS_NOTES_MAX};

use crate::held::{Held, kill};
use crate::{alone, number};

/// How many processes the flat tree has, without [`PROCESSES_VARIABLE`]. The one with escapees has half of them,
/// the chain is as deep as a fifth.
const PROCESSES: u64 = 1500;
/// Has more, or fewer. The promise is about 10000.
const PROCESSES_VARIABLE: &str = "XIOFLOW_TEST_PROCESSES";

/// The parts of each tree, and how many processes that is beside the root.
fn trees() -> [(String, u32); 3] {
    let all = number(PROCESSES_VARIABLE, PROCESSES);
    let (escapees, depth) = (all / 10, all / 5);
    let beside = all / 2 - escapees;
    let size = |members: u64| u32::try_from(members).expect("a tree that fits on a machine");
    [
        (format!("flat {all}"), size(all)),
        (format!("flat {beside} daemons {escapees}"), size(all / 2)),
        (format!("chain {depth}"), size(depth)),
    ]
}

#[test]
fn what_is_left_of_a_large_tree_is_counted_and_ended() {
    let _one = alone();
    each_user(|stage| {
        for (parts, members) in trees() {
            let words: Vec<_> = ["--exit", "3", "shapes"]
                .into_iter()
                .chain(parts.split(' '))
                .collect();
            let ended = Held::launch(stage, &words).ended();
            assert_eq!(ended.exit, Exit::Exited { code: 3 }, "{parts}");
            assert_eq!(ended.announced, members, "{parts}");
            assert_eq!(ended.end.survivors_total, members, "{parts}");
            let named = ended.end.survivors.len();
            assert_eq!(named, PROCESS_NOTES_MAX, "as many as there is room for");
            eprintln!("{parts}: counted and ended in {:?}", ended.took);
        }
    });
}

#[test]
fn a_large_tree_that_is_stopped_is_gone() {
    let _one = alone();
    each_user(|stage| {
        for (parts, members) in trees() {
            let words: Vec<_> = std::iter::once("shapes").chain(parts.split(' ')).collect();
            let held = Held::launch(stage, &words);
            let pids = held.stand();
            assert_eq!(u32::try_from(pids.len()), Ok(members + 1), "{parts}");
            let ended = held.stop(kill());
            eprintln!("{parts}: stopped in {:?}", ended.took);
        }
    });
}
