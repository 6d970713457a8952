"""Profiles the service while a scenario of the bench loads it, and prints its processor time by part.

Usage: profile.py SERVICE BENCH SCENARIO... - the built programs, with symbols and frame pointers, and names of scenarios.
A sample belongs to the innermost function that a part names; allocations without a caller are a part of their own.
"""

import collections
import os
import re
import subprocess
import sys
import tempfile
import time

PARTS = [
    ("sending (kernel)", r"tcp_sendmsg|sock_sendmsg|sock_write_iter|do_writev|ksys_write"),
    ("receiving (kernel)", r"tcp_recvmsg|sock_recvmsg|sock_read_iter"),
    ("waiting and waking (kernel)", r"epoll|futex"),
    ("sanitizing", r"ammonia|html5ever|known_form|sanitize"),
    ("rendering", r"^<?render::|comrak::"),
    ("citation marks", r"domain::citation"),
    ("escaping and encoding JSON", r"json_escape|encode_answer|encode_segments|to_segments|SegmentWriter"),
    ("framing events", r"SseEvent"),
    ("snapshots", r"live::(snapshot|rope)|LiveAnswer::snapshot"),
    ("folding", r"fold_change|domain::answer"),
    ("writing events", r"http_common::(events|raw_sse|flow_control)|EventWriter"),
    ("decoding the vendor", r"models::(decoder|sse|chat_completions|anthropic|gemini|responses|surrogates)"),
    ("HTTP of the vendor", r"models::"),
    ("HTTP of clients", r"hyper::|(server|causerie)::http"),
    ("turns", r"engine::|domain::turn"),
    ("store", r"sqlite|^<?store::"),
    ("scheduling", r"tokio"),
    ("allocating", r"malloc|^_?_?(int_)?(free|realloc)|cfree|unlink_chunk"),
]
SAMPLES_PER_SECOND = "997"
TOP_FUNCTIONS = 25
START_SECONDS = 60


def find_service(service):
    """Returns the process id of the service once it has started."""
    for _ in range(START_SECONDS * 20):
        found = subprocess.run(["pgrep", "-f", f"^{service} serve"], capture_output=True, text=True).stdout.split()
        if found:
            return found[0]
        time.sleep(0.05)
    sys.exit(f"profile: {service} did not start")


def record_samples(service, bench, scenario, data):
    environment = dict(os.environ, CAUSERIE_BIN=service)
    load = subprocess.Popen([bench, scenario], env=environment)
    recorder = subprocess.Popen(
        ["perf", "record", "-q", "-F", SAMPLES_PER_SECOND, "-g", "-e", "cpu-clock", "-p", find_service(service), "-o", data]
    )
    status = load.wait()
    recorder.wait()
    if status != 0:
        sys.exit(f"profile: the scenario {scenario} failed")


def read_stacks(data):
    """Yields the functions of each sample, innermost first."""
    script = subprocess.run(["perf", "script", "-i", data, "-F", "comm,ip,sym"], capture_output=True, text=True)
    for sample in script.stdout.split("\n\n"):
        lines = [line.strip() for line in sample.split("\n")[1:] if line.strip()]
        if lines:
            yield [line.split(" ", 1)[-1] for line in lines]


def part_of_stack(stack):
    for function in stack:
        for name, pattern in PARTS:
            if re.search(pattern, function):
                return name
    return "other"


def print_shares(counts, total, most):
    for name, count in counts.most_common(most):
        print(f"{100 * count / total:6.1f} %  {name}")


def main():
    service, bench, *scenarios = sys.argv[1:]
    for scenario in scenarios:
        with tempfile.NamedTemporaryFile(suffix=".perf") as data:
            record_samples(os.path.abspath(service), os.path.abspath(bench), scenario, data.name)
            stacks = list(read_stacks(data.name))
        if not stacks:
            sys.exit("profile: perf recorded no samples")
        print(f"\n{scenario}: {len(stacks)} samples by part, then by function")
        print_shares(collections.Counter(map(part_of_stack, stacks)), len(stacks), None)
        print()
        print_shares(collections.Counter(stack[0] for stack in stacks), len(stacks), TOP_FUNCTIONS)


main()
