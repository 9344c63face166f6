#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mooring_fuzz::run("manifest", data));
