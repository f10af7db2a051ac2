//! Hands inputs of libFuzzer to the harness in `tests/fuzz/src/rpc.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| xioflow_fuzz::Target::Rpc.check(input));
