//! No `/proc` at all: nothing could be identified, so nothing runs, and it is said what to do.

use xioflow_kit::each_user;

use crate::world::{MISSING, Proc, World, text};

#[test]
fn without_proc_nothing_runs_and_the_remedy_is_named() {
    each_user(|stage| {
        let Some(world) = World::new(stage, Proc::Nothing) else {
            eprintln!("{MISSING}");
            return;
        };
        let (xioflow, mark) = (stage.program("xioflow"), stage.path("mark"));
        for owner in [&["run", "--no-arbiter"][..], &["run"]] {
            let words = [owner, &["--", "touch", text(&mark)]].concat();
            let refused = world.run(&xioflow, &words).finish();
            refused
                .assert_code(70)
                .assert_complains("/proc")
                .assert_complains("mount -t proc proc /proc");
            assert!(!mark.exists() && !stage.domain().exists(), "{refused}");
        }
        let check = world.check("proc-children");
        assert_eq!(check["verdict"], "missing", "{check:#}");
        assert_eq!(check["remedy"], "mount -t proc proc /proc", "{check:#}");
    });
}
