//! Files larger than the memory that the service may use for them.

use std::fs;

use e2e::{ServiceOptions, TestService, large};

/// The size of the file, unless `LARGE_FILE_BYTES` is set.
const FILE_BYTES: u64 = 256 * 1024 * 1024 + 17;
/// The maximum growth of the service's memory during the transfer.
const GROWTH_MAX_KIB: u64 = 16 * 1024;

/// Reads a field of the process's memory status, in KiB.
fn memory_kib(process: u32, figure: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("the process is there");
    let line = status.lines().find(|line| line.starts_with(figure)).expect("the figure");
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number")
}

#[test]
fn large_file_is_never_in_memory() {
    let bytes =
        std::env::var("LARGE_FILE_BYTES").map_or(FILE_BYTES, |text| text.parse().expect("a number of bytes"));
    let service = TestService::start(ServiceOptions::default());
    let api = service.api_for(&service.create_account());
    // The first transfer warms up caches and is not measured.
    large::check_large_file_round_trip(&api, 1 << 20);
    let before = memory_kib(service.process_id(), "VmRSS");
    // Resets the peak, so that it covers only this file.
    fs::write(format!("/proc/{}/clear_refs", service.process_id()), "5").expect("one's own process");
    large::check_large_file_round_trip(&api, bytes);
    let peak = memory_kib(service.process_id(), "VmHWM");
    println!("{bytes} bytes: {before} KiB before, {peak} KiB at most");
    assert!(peak < before + GROWTH_MAX_KIB, "from {before} to {peak} KiB for a file of {bytes} bytes");
}
