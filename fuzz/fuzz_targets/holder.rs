//! Hands inputs of libFuzzer to the simulated system in `tests/simulation`, as scripts.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| xioflow_fuzz::Target::Holder.check(input));
