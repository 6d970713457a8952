#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzing::turn_frames(data));
