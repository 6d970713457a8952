#!/bin/sh
# Prints the machine drivers that should run on this host by what is installed, as CAUSERIE_EXPECT_DRIVERS lists them:
# `sandbox` needs nothing; `uml` a kernel for machines; `linux.uml`, Debian's kernel, also for the test of project quotas;
# `qemu` the program and a kernel whose modules know 9P.
set -eu
cd "$(dirname "$0")/.."

drivers="sandbox"
# Versions of Debian's kernel before 7 end at once on processors with AMX.
debian=""
if command -v linux.uml >/dev/null 2>&1; then
    version="$(linux.uml --version 2>/dev/null | sed 's/[^0-9].*//')"
    if [ "${version:-0}" -ge 7 ] || ! grep -qw amx_tile /proc/cpuinfo; then
        debian=",linux.uml"
    fi
fi
if [ -n "$debian" ] || [ -e "${CAUSERIE_MACHINE_KERNEL:-${CARGO_TARGET_DIR:-target}/kernel/linux}" ]; then
    drivers="$drivers,uml"
fi
drivers="$drivers$debian"
if command -v qemu-system-x86_64 >/dev/null 2>&1; then
    for kernel in /boot/vmlinuz-*; do
        if ls "/lib/modules/${kernel#/boot/vmlinuz-}"/kernel/fs/9p/9p.ko* >/dev/null 2>&1; then
            drivers="$drivers,qemu"
            break
        fi
    done
fi
echo "$drivers"
