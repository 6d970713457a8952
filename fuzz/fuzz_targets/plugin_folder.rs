#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzing::plugin_folder(data));
