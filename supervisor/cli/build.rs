//! Links the helper as a freestanding program: no C start-up code, no shared
//! library (docs/decisions/0001).

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        for argument in ["-nostartfiles", "-nostdlib", "-static", "-no-pie"] {
            println!("cargo::rustc-link-arg-bin=xioflow-reaper={argument}");
        }
    }
}
