//! No `/proc` at all, or no more of it than processes: nothing could be identified, so nothing runs, and it is said
//! what to do.

use xioflow_kit::{Stage, each_user};

use crate::world::{MISSING, Proc, World, text};

#[test]
fn without_proc_nothing_runs_and_the_remedy_is_named() {
    each_user(|stage| {
        for proc in [Proc::Nothing, Proc::Processes] {
            let Some(world) = World::new(stage, proc) else {
                eprintln!("{MISSING}");
                return;
            };
            nothing_runs(stage, &world);
            // Of what can be told before an arbiter is started, no folder is left.
            assert!(proc == Proc::Processes || !stage.domain().exists());
        }
    });
}

fn nothing_runs(stage: &Stage, world: &World<'_>) {
    let (xioflow, mark) = (stage.program("xioflow"), stage.path("mark"));
    for owner in [&["run", "--no-arbiter"][..], &["run"]] {
        let words = [owner, &["--", "touch", text(&mark)]].concat();
        let refused = world.run(&xioflow, &words).finish();
        refused
            .assert_code(70)
            .assert_complains("/proc")
            .assert_complains("mount -t proc proc /proc");
        assert!(!mark.exists(), "{refused}");
    }
    let check = world.check("proc-children");
    assert_eq!(check["verdict"], "missing", "{check:#}");
    assert_eq!(check["remedy"], "mount -t proc proc /proc", "{check:#}");
}
