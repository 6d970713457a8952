//! Files that are larger than what the service may hold of them.

use std::fs;

use conformance::{Options, Service, large};

/// The size of the file, unless `LARGE_FILE_BYTES` is set.
const FILE_BYTES: u64 = 256 * 1024 * 1024 + 17;
/// How much the service may grow while it comes and goes.
const GROWTH_MAX_KIB: u64 = 16 * 1024;

/// A figure of a process's memory in KiB.
fn memory_kib(process: u32, figure: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("the process is there");
    let line = status.lines().find(|line| line.starts_with(figure)).expect("the figure");
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number")
}

#[test]
fn a_large_file_is_never_in_memory() {
    let bytes =
        std::env::var("LARGE_FILE_BYTES").map_or(FILE_BYTES, |text| text.parse().expect("a number of bytes"));
    let service = Service::start(Options::default());
    let api = service.api(&service.account());
    // What the first file of all costs once is not what is measured.
    large::there_and_back(&api, 1 << 20);
    let before = memory_kib(service.process(), "VmRSS");
    // From now on the peak is that of this file.
    fs::write(format!("/proc/{}/clear_refs", service.process()), "5").expect("one's own process");
    large::there_and_back(&api, bytes);
    let peak = memory_kib(service.process(), "VmHWM");
    println!("{bytes} bytes: {before} KiB before, {peak} KiB at most");
    assert!(peak < before + GROWTH_MAX_KIB, "from {before} to {peak} KiB for a file of {bytes} bytes");
}
