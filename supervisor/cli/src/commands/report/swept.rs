//! What became of control groups that nothing recorded led to, in one sentence each. Neighbour: `recover` says all of
//! them, `report` those that somebody should hear of.

use xioflow_kernel::SweptGroup;

use crate::output;

/// What became of one of them.
pub(in crate::commands) fn swept_as(group: &SweptGroup) -> String {
    let processes = match group.ended.len() {
        0 => "nobody was in it".to_owned(),
        1 => "1 process in it was ended".to_owned(),
        count => format!("{count} processes in it were ended"),
    };
    let fate = match group.removed {
        true => "it was removed",
        false => "it cannot be removed",
    };
    let directory = output::printable(&group.directory.to_string_lossy());
    format!("control group {directory} belonged to no operation: {processes}, and {fate}")
}
