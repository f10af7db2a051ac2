//! Hands inputs of libFuzzer to the harness in `tests/fuzz/src/frames.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| xioflow_fuzz::Target::Frames.check(input));
