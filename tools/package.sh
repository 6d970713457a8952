#!/bin/sh
# Packs a release build into target/packages: a Debian package, a tarball, an OCI image, a bill of materials, checksums.
# Argument: amd64 or arm64, by default that of this machine. An image is built as root only (PACKAGE_OCI=no leaves it out).
set -eu
cd "$(dirname "$0")/.."

native="$(dpkg --print-architecture)"
arch="${1:-$native}"
version="$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)${PACKAGE_VERSION_SUFFIX:-}"
target="${CARGO_TARGET_DIR:-$PWD/target}"
out="$target/packages"
stage="$target/package-$arch/causerie-$version"
SOURCE_DATE_EPOCH="$(git log -1 --format=%ct 2>/dev/null || date +%s)"
export SOURCE_DATE_EPOCH

case "$arch" in
    amd64) triple=x86_64-unknown-linux-gnu ;;
    arm64) triple=aarch64-unknown-linux-gnu ;;
    *)
        echo "package: unknown architecture: $arch (amd64, arm64)" >&2
        exit 2
        ;;
esac

# The Debian release in which the image is made; programs need its libraries or newer ones.
SUITE=bookworm
# The kernel of machines, with what its licence asks for.
KERNEL_FILES="linux config SOURCE COPYING GPL-2.0 kernel.sh arch"

say() { echo "package: $*"; }

# True if this compiler has the standard library of the target.
has_library() { [ -d "$("$1" --print target-libdir --target "$triple" 2>/dev/null)" ]; }

# Builds the guest program and the service that embeds it; the second records its dependencies in the binary.
build() {
    built="$target/release"
    if [ "$arch" != "$native" ]; then
        # rustup fetches the standard library of the target; where it cannot, Debian's compiler has it in a package.
        if ! has_library "${RUSTC:-rustc}" && ! rustup target add "$triple"; then
            if ! has_library /usr/bin/rustc; then
                say "no standard library for $triple. Debian has one: dpkg --add-architecture $arch && apt-get update &&" >&2
                say "apt-get install rustc-web libstd-rust-web-dev:$arch" >&2
                exit 1
            fi
            say "using Debian's compiler: $(/usr/bin/rustc --version)"
            export RUSTC=/usr/bin/rustc
        fi
        export CARGO_BUILD_TARGET="$triple"
        export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
        export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER=x86_64-linux-gnu-gcc
        built="$target/$triple/release"
    fi
    cargo build --release --workspace --bin causerie-guest
    cmp -s "$built/causerie-guest" "$target/guest/$arch/causerie-guest" ||
        install -D "$built/causerie-guest" "$target/guest/$arch/causerie-guest"
    CAUSERIE_GUEST="$target/guest/$arch/causerie-guest" cargo auditable build --release --workspace --bin causerie
}

# Lays out what the packages contain.
lay_out() {
    rm -rf "$stage"
    mkdir -p "$stage/man" "$out"
    cp "$built/causerie" "$stage/"
    program="$stage/causerie"
    if [ "$arch" != "$native" ]; then
        say "building for $native too, for the manual and the completions"
        env -u CARGO_BUILD_TARGET make --no-print-directory build
        program="$target/release/causerie"
    fi
    "$program" manual "$stage/man"
    "$program" completions bash >"$stage/causerie.bash"
    "$program" completions zsh >"$stage/_causerie"
    "$program" completions fish >"$stage/causerie.fish"
    cp deploy/causerie.toml deploy/environment README.md CHANGELOG.md LICENSE SECURITY.md "$stage/"
    cp -r docs "$stage/docs"
    if [ "$arch" = amd64 ]; then
        sh tools/kernel.sh "$target/kernel"
        mkdir "$stage/causerie-kernel"
        for file in $KERNEL_FILES; do cp -R "$target/kernel/$file" "$stage/causerie-kernel/"; done
        chmod 755 "$stage/causerie-kernel/kernel.sh"
    fi
    cargo cyclonedx --quiet --manifest-path crates/causerie/Cargo.toml --target "$triple" --format json \
        --override-filename causerie.cdx
    mv crates/causerie/causerie.cdx.json "$stage/"
    find crates -name 'causerie.cdx.json' -delete
    cp "$stage/causerie.cdx.json" "$out/causerie-$version-$arch.cdx.json"
}

debian_package() {
    say "the Debian package"
    cp -r deploy/debian "$stage/debian"
    sed -e 's|^ExecStart=.*|ExecStart=/usr/bin/causerie serve --config /etc/causerie/causerie.toml|' \
        -e 's|^# Environment variables;.*|# Keys of model vendors.|' \
        -e 's|^# The systemd unit of Causerie.*|# The systemd unit of Causerie.|' \
        deploy/causerie.service >"$stage/debian/causerie.service"
    cat >"$stage/debian/changelog" <<END
causerie ($version) unstable; urgency=medium

  * See /usr/share/doc/causerie/CHANGELOG.md.gz.

 -- The Causerie authors <causerie@users.noreply.github.com>  $(date -R -u -d "@$SOURCE_DATE_EPOCH")
END
    printf '%s\n' causerie.cdx.json README.md CHANGELOG.md SECURITY.md docs >"$stage/debian/causerie.docs"
    # The kernel of machines exists for one architecture.
    if [ -d "$stage/causerie-kernel" ]; then
        for file in $KERNEL_FILES; do
            echo "causerie-kernel/$file usr/lib/causerie/kernel" >>"$stage/debian/causerie.install"
        done
    fi
    (cd "$stage" && dpkg-buildpackage --build=binary --host-arch="$arch" --no-sign --no-check-builddeps >../build.log 2>&1) || {
        tail -n 30 "$stage/../build.log" >&2
        exit 1
    }
    rm -rf "$stage/debian"
    deb="$out/causerie_${version}_$arch.deb"
    mv "$stage/../causerie_${version}_$arch.deb" "$deb"
}

tarball() {
    say "the tarball"
    mkdir -p "$stage/systemd"
    cp deploy/causerie.service "$stage/systemd/"
    tar --create --gzip --file "$out/causerie-$version-linux-$arch.tar.gz" --directory "$(dirname "$stage")" \
        --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" "$(basename "$stage")"
}

# A layer of Debian's packages with this one among them; no daemon takes part.
oci_image() {
    say "the OCI image"
    packages="ca-certificates,$deb"
    layout="$target/package-$arch/oci"
    rm -rf "$layout" "$layout.tar"
    mmdebstrap --quiet --mode=root --variant=minbase --architectures="$arch" --include="$packages" \
        --hook-dir=/usr/share/mmdebstrap/hooks/file-mirror-automount \
        --customize-hook='rm -rf "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/* "$1"/var/log/* "$1"/usr/share/doc/causerie/docs' \
        "$SUITE" "$layout.tar"
    umoci init --layout "$layout"
    umoci new --image "$layout:$version"
    umoci raw add-layer --image "$layout:$version" "$layout.tar" >/dev/null
    umoci config --image "$layout:$version" --architecture "$arch" --os linux \
        --config.user causerie --config.workingdir /var/lib/causerie \
        --config.volume /var/lib/causerie --config.exposedports 8080/tcp \
        --config.entrypoint causerie --config.cmd serve --config.cmd --listen --config.cmd 0.0.0.0:8080 \
        --config.env CAUSERIE_DATA=/var/lib/causerie --config.stopsignal SIGTERM
    # The name that podman and docker give it when they load the archive; umoci writes the version alone.
    sed -i "s|\"org.opencontainers.image.ref.name\":\"$version\"|\"org.opencontainers.image.ref.name\":\"causerie:$version\",\"io.containerd.image.name\":\"docker.io/library/causerie:$version\"|" \
        "$layout/index.json"
    grep -q "causerie:$version" "$layout/index.json"
    tar --create --file "$out/causerie-$version-oci-$arch.tar" --directory "$layout" --sort=name --owner=0 --group=0 \
        --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" .
}

say "building $version for $arch"
build
lay_out
debian_package
tarball
if [ "${PACKAGE_OCI:-yes}" = yes ]; then oci_image; fi
# The names of the other architecture's files have another end.
(cd "$out" && sha256sum ./causerie*"$version"*"$arch".* >"SHA256SUMS-$version-$arch")
say "in $out:"
(cd "$out" && ls -lh ./*"$version"*"$arch"*)
