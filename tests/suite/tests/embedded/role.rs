//! Others are told for whom a domain is owned.

use serde_json::json;
use xioflow_kernel::DomainOptions;
use xioflow_kernel::journal::OwnerRole;
use xioflow_kit::Stage;

use crate::open_with;

#[test]
fn status_says_for_whom_a_domain_is_owned() {
    let stage = Stage::new();
    let options = DomainOptions::default;
    for (options, role) in [
        (options(), "embedded"),
        (options().role(OwnerRole::Arbiter), "arbiter"),
        (options().role(OwnerRole::Embedded), "embedded"),
    ] {
        let domain = open_with(&stage, options);
        let status = stage.xioflow().args(["status", "--json"]).finish();
        let note = &status.assert_code(0).json()["owner"]["note"];
        assert_eq!(note["role"], json!(role), "{note}");
        assert_eq!(note["ownerPid"], json!(std::process::id()));
        let text = stage.xioflow().args(["status"]).finish();
        let line = format!("process {} ({role}) on ", std::process::id());
        let printed = String::from_utf8_lossy(&text.stdout);
        assert!(printed.contains(&line), "{text}");
        drop(domain);
    }
}
