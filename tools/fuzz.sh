#!/bin/sh
# Fuzzes each target for some time, one after the other, and stops at the first fault. What it finds worth keeping goes
# to target/fuzz-corpus; inputs that show a fault to fuzz/artifacts. Arguments: seconds, then targets (all unless named).
set -eu
cd "$(dirname "$0")/.."
root=$PWD
seconds=${1:-600}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- $(for target in fuzz/fuzz_targets/*.rs; do basename "$target" .rs; done)

# No sanitizer: of what is fuzzed nothing is `unsafe`, and without one it runs several times as often.
for target in "$@"; do
    corpus="$root/target/fuzz-corpus/$target"
    mkdir -p "$corpus"
    echo "=== $target, for $seconds seconds"
    "${CARGO:-cargo}" +nightly fuzz run --sanitizer none --target-dir "$root/target/fuzz" "$target" \
        "$corpus" "$root/fuzz/seeds/$target" -- \
        -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -max_len=8192 -print_final_stats=1
done
