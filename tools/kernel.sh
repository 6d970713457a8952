#!/bin/sh
# Builds the kernel of machines, a User Mode Linux program without modules or libraries, from Debian's source package of Linux
# with the changes of deploy/kernel, and leaves it with its configuration, the changed files and the name of its source in the
# folder of the first argument. A source that is there already is used again (KERNEL_SOURCE names an unpacked one).
set -eu
cd "$(dirname "$0")/.."

folder="${1:?usage: kernel.sh FOLDER}"
config="deploy/kernel/config"
work="${CARGO_TARGET_DIR:-$PWD/target}/kernel-build"
# The suite has the newest kernels, of which the newest is taken: an exact version would be gone one day.
SUITE=sid
# Older kernels cannot boot on processors with AMX.
RELEASE_MIN=7.2

say() { echo "kernel: $*"; }

fetch_source() {
    say "fetching Debian's newest source of Linux (about 160 MB)"
    rm -rf "$work/apt" "$work/source" "$work/package"
    sh tools/apt-suite.sh "$SUITE" "$work/apt" linux-source
    package="$(find "$work/apt" -maxdepth 1 -name 'linux-source-*.deb')"
    mkdir -p "$work/source"
    dpkg -x "$package" "$work/package"
    tar --extract --file "$work"/package/usr/src/linux-source-*.tar.xz --directory "$work/source" --strip-components 1
    rm -rf "$work/package"
    {
        echo "package: $(basename "$package" .deb | tr _ ' ')"
        echo "sha256: $(sha256sum "$package" | cut -d ' ' -f 1)"
    } >"$work/source.name"
}

# Edits a file of the source unless it holds the text of the second argument, which it must hold afterwards.
edit() {
    file="$source/$1" mark="$2"
    shift 2
    grep -qF "$mark" "$file" || sed -i "$@" "$file"
    grep -qF "$mark" "$file" || { say "$file differs from what this script changes: see deploy/kernel" >&2; exit 1; }
}

change_source() {
    # The driver of the link asks the C library for hosts' names in modes that machines do not use, for which Linux refuses
    # a static program. The link is a descriptor, which has no name.
    sed -i '/^config UML_NET_VECTOR$/,/^config /{/select MAY_HAVE_RUNTIME_DEPS/d}' "$source/arch/um/drivers/Kconfig"
    # The map of pages, the largest part of an idle kernel, is made page by page as it is used: see lazy_memmap.c.
    cp -R deploy/kernel/arch "$source/"
    edit arch/um/kernel/Makefile 'lazy_memmap.o' 's/^obj-y += load_file.o$/& lazy_memmap.o/'
    for file in mm/mm_init.c mm/page_alloc.c; do
        edit "$file" '#include <asm/lazy_memmap.h>' '0,/^#include/s//#include <asm\/lazy_memmap.h>\n&/'
    done
    edit mm/mm_init.c 'memmap_alloc(size, PAGE_SIZE,' 's/memmap_alloc(size, SMP_CACHE_BYTES,/memmap_alloc(size, PAGE_SIZE,/'
    edit mm/mm_init.c 'memmap_make_lazy(map, size);' 's/^\tpgdat->node_mem_map = map + offset;$/&\n\tmemmap_make_lazy(map, size);/'
    edit mm/mm_init.c 'memmap_is_absent(page)' '/^void __meminit memmap_init_range/,/^}/s/^\t\t__init_single_page(/\t\tif (!memmap_is_absent(page))\n\t&/'
    edit mm/page_alloc.c 'memmap_begin_free();' '/^void __meminit __free_pages_core/,/^}/s/^\t} else {$/&\n\t\tmemmap_begin_free();/'
    edit mm/page_alloc.c 'memmap_is_absent(p)' \
        '/^void __meminit __free_pages_core/,/^}/s/^\t\t\t__ClearPageReserved(p);$/\t\t\tif (memmap_is_absent(p))\n\t\t\t\tcontinue;\n&/'
    edit mm/page_alloc.c 'memmap_is_absent(page + i)' \
        's/^\t\tfor (i = 1; i < (1 << order); i++) {$/&\n\t\t\tif (memmap_is_absent(page + i))\n\t\t\t\tcontinue;/'
    edit arch/um/os-Linux/signal.c 'int memmap_populate(' 's/^static void sig_handler_common/int memmap_populate(unsigned long address);\n\n&/'
    edit arch/um/os-Linux/signal.c 'memmap_populate(FAULT_ADDRESS' \
        '/^static void sig_handler_common/,/^}/s/^\t\tGET_FAULTINFO_FROM_MC(.*$/&\n\t\tif (memmap_populate(FAULT_ADDRESS(r.faultinfo)))\n\t\t\treturn;/'
}

configure() {
    make -s -C "$source" ARCH=um tinyconfig
    (cd "$source" && ARCH=um scripts/kconfig/merge_config.sh -m .config "$OLDPWD/$config" >/dev/null)
    make -s -C "$source" ARCH=um olddefconfig
    grep '^CONFIG_' "$config" | while read -r line; do
        grep -qxF "$line" "$source/.config" || { say "Linux did not take $line of $config" >&2; exit 1; }
    done
}

# What made the kernel that is there: the configuration, the changes, this script and the compiler.
changes="$(find deploy/kernel/arch -type f | sort)"
# shellcheck disable=SC2086 # names without spaces
stamp="$(cat "$config" $changes "$0" | sha256sum | cut -d ' ' -f 1) $(gcc -dumpfullversion)"
if [ -x "$folder/linux" ] && [ "$(cat "$folder/stamp" 2>/dev/null)" = "$stamp" ]; then
    say "$folder/linux is up to date"
    exit 0
fi
source="${KERNEL_SOURCE:-$work/source}"
[ -f "$source/Makefile" ] || fetch_source
release="$(make -s -C "$source" ARCH=um kernelversion)"
[ "$(printf '%s\n' "$RELEASE_MIN" "$release" | sort -V | head -n 1)" = "$RELEASE_MIN" ] ||
    { say "$source has Linux $release, but $RELEASE_MIN or later is needed: remove the folder and retry" >&2; exit 1; }
change_source
configure
say "building Linux $release for machines: some minutes"
# No times, users or hosts in the program, so that two builds of one source are equal.
make -s -C "$source" ARCH=um -j"$(nproc)" linux KBUILD_BUILD_TIMESTAMP=@0 KBUILD_BUILD_USER=causerie KBUILD_BUILD_HOST=causerie
rm -rf "$folder"
mkdir -p "$folder"
strip -o "$folder/linux.new" "$source/linux"
cp "$source/.config" "$folder/config"
cp -R deploy/kernel/arch "$folder/"
cp "$0" "$folder/kernel.sh"
cp "$source/COPYING" "$folder/COPYING"
cp "$source/LICENSES/preferred/GPL-2.0" "$folder/GPL-2.0"
sed -e "s|@RELEASE@|$release|" -e "s|@SOURCE@|$(sed 's/$/\\/; $s/\\$//' "$work/source.name" 2>/dev/null || echo "package: a source tree of your own")|" \
    deploy/kernel/SOURCE.in >"$folder/SOURCE"
mv "$folder/linux.new" "$folder/linux"
echo "$stamp" >"$folder/stamp"
say "$(du -h "$folder/linux" | cut -f 1) in $folder/linux"
