//! `cargo fuzz run network`: see `mica_fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mica_fuzz::run("network", bytes));
