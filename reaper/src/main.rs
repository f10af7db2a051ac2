//! The helper's program: without a C library, so that it starts in a tenth of the time and no
//! variable of a loader can reach it. All that it does is in the library beside this file.

#![cfg_attr(target_os = "linux", no_std, no_main)]

#[cfg(target_os = "linux")]
xioflow_sys::freestanding! {
    main = xioflow_reaper::main,
    panic = xioflow_reaper::report_panic,
    panic_status = xioflow_protocol::HELPER_EXIT_PANIC,
}

#[cfg(not(target_os = "linux"))]
fn main() {
    // The loop for kqueue is not written; a supervisor must not take this for a helper.
    std::process::exit(xioflow_protocol::HELPER_EXIT_SYSTEM);
}
