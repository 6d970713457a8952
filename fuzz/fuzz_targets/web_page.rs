#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzing::web_page(data));
