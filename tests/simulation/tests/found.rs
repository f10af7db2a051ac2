//! Scripts that have found something, and what that was. Each fails again where its mistake is made again.

use xioflow_simulation::{check, script_of};

const FOUND: [(u64, &str); 4] = [
    // Released, ended before it executed anything, and kept by a tracer from outside: no time was set for it.
    (139, "a helper without a supervisor waits for ever"),
    // Between the listing and the look at one that outlived the root, a stranger had taken its number.
    (1784, "an account names a stranger"),
    // A time that was set while many were killed stayed after the end, had passed, and was waited for.
    (24_395, "a helper that has told everything never rests"),
    // Without process descriptors: the first signal ends a process, and the second goes to who has its number then.
    (25_131, "a stranger is sent SIGCONT"),
];

#[test]
fn what_was_found_once_is_not_found_again() {
    for (number, _what) in FOUND {
        check(&script_of(number));
    }
}
