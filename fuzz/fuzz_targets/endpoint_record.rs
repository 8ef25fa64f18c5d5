//! `cargo fuzz run endpoint_record`: see `mica_fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mica_fuzz::run("endpoint_record", bytes));
