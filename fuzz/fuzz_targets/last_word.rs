//! Hands inputs of libFuzzer to the harness in `tests/fuzz/src/last_word.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| xioflow_fuzz::Target::LastWord.check(input));
