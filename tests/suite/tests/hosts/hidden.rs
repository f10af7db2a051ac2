//! A `/proc` that shows a user only whom that user may trace (`hidepid=2`).

use serde_json::json;
use xioflow_kit::each_user;

use crate::world::{MISSING, Proc, World, assert_fields};

/// The helper is not dumpable, and so is its child until its first step: neither is shown to the other.
#[test]
fn a_command_is_held_where_proc_hides_the_helper_from_itself() {
    each_user(|stage| {
        let Some(world) = World::new(stage, Proc::Hiding) else {
            eprintln!("{MISSING}");
            return;
        };
        let result = world.result(&[], &["sh", "-c", "setsid sleep 60 & exit 3"]);
        let expected = json!({
            "exitCode": 3, "scope": "subreaper_tree", "treeSettlement": "reaped", "survivorsTotal": 1,
        });
        assert_fields(&result, &expected);
        assert_eq!(result["survivors"][0]["command"], "sleep", "{result:#}");
        assert_eq!(world.check("subreaper")["verdict"], "ready");
        assert_eq!(world.check("proc-children")["verdict"], "weaker");
    });
}
