#!/bin/sh
# Builds the kernel of machines, a User Mode Linux program without modules or libraries, from Debian's source package of Linux,
# and leaves it with its configuration and the name of its source in the folder of the first argument. A source that is
# there already is used again (KERNEL_SOURCE names an unpacked one).
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

configure() {
    # The driver of the link asks the C library for hosts' names in modes that machines do not use, for which Linux refuses
    # a static program. The link is a descriptor, which has no name.
    sed -i '/^config UML_NET_VECTOR$/,/^config /{/select MAY_HAVE_RUNTIME_DEPS/d}' "$source/arch/um/drivers/Kconfig"
    make -s -C "$source" ARCH=um tinyconfig
    (cd "$source" && ARCH=um scripts/kconfig/merge_config.sh -m .config "$OLDPWD/$config" >/dev/null)
    make -s -C "$source" ARCH=um olddefconfig
    grep '^CONFIG_' "$config" | while read -r line; do
        grep -qxF "$line" "$source/.config" || { say "Linux did not take $line of $config" >&2; exit 1; }
    done
}

# What made the kernel that is there: the configuration, this script and the compiler.
stamp="$(cat "$config" "$0" | sha256sum | cut -d ' ' -f 1) $(gcc -dumpfullversion)"
if [ -x "$folder/linux" ] && [ "$(cat "$folder/stamp" 2>/dev/null)" = "$stamp" ]; then
    say "$folder/linux is up to date"
    exit 0
fi
source="${KERNEL_SOURCE:-$work/source}"
[ -f "$source/Makefile" ] || fetch_source
release="$(make -s -C "$source" ARCH=um kernelversion)"
[ "$(printf '%s\n' "$RELEASE_MIN" "$release" | sort -V | head -n 1)" = "$RELEASE_MIN" ] ||
    { say "$source has Linux $release, but $RELEASE_MIN or later is needed: remove the folder and retry" >&2; exit 1; }
configure
say "building Linux $release for machines: some minutes"
# No times, users or hosts in the program, so that two builds of one source are equal.
make -s -C "$source" ARCH=um -j"$(nproc)" linux KBUILD_BUILD_TIMESTAMP=@0 KBUILD_BUILD_USER=causerie KBUILD_BUILD_HOST=causerie
rm -rf "$folder"
mkdir -p "$folder"
strip -o "$folder/linux.new" "$source/linux"
cp "$source/.config" "$folder/config"
cp "$source/COPYING" "$folder/COPYING"
cp "$source/LICENSES/preferred/GPL-2.0" "$folder/GPL-2.0"
sed -e "s|@RELEASE@|$release|" -e "s|@SOURCE@|$(sed 's/$/\\/; $s/\\$//' "$work/source.name" 2>/dev/null || echo "package: a source tree of your own")|" \
    deploy/kernel/SOURCE.in >"$folder/SOURCE"
mv "$folder/linux.new" "$folder/linux"
echo "$stamp" >"$folder/stamp"
say "$(du -h "$folder/linux" | cut -f 1) in $folder/linux"
