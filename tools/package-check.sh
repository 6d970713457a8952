#!/bin/sh
# Checks the files that `make package` left in target/packages: checksums, the bill of materials, the dependencies in the program, the
# content of the tarball and of the Debian package. Argument: amd64 or arm64, by default that of this machine. Exits with 1 at the first
# thing that is not as promised.
set -eu
cd "$(dirname "$0")/.."

native="$(dpkg --print-architecture)"
arch="${1:-$native}"
version="$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)"
packages="${CARGO_TARGET_DIR:-$PWD/target}/packages"
unpacked="$(mktemp -d)"
trap 'rm -rf "$unpacked"' EXIT

say() { echo "package-check: $*"; }
fail() {
    say "FAILED: $*" >&2
    exit 1
}

command -v python3 >/dev/null && command -v readelf >/dev/null || fail "python3 or readelf is missing"

say "checksums"
sums="$packages/SHA256SUMS-$version-$arch"
(cd "$packages" && sha256sum --quiet --strict --check "$sums") || fail "a checksum"
for name in "causerie_${version}_$arch.deb" "causerie-$version-linux-$arch.tar.gz" "causerie-$version-$arch.cdx.json"; do
    grep -qF "  ./$name" "$sums" || fail "no checksum of $name"
done

say "tarball"
tar --extract --gzip --file "$packages/causerie-$version-linux-$arch.tar.gz" --directory "$unpacked"
content="$unpacked/causerie-$version"
for name in causerie causerie.bash _causerie causerie.fish causerie.cdx.json README.md CHANGELOG.md LICENSE SECURITY.md causerie.toml \
    environment docs/install.md man/causerie.1 systemd/causerie.service; do
    [ -s "$content/$name" ] || fail "the tarball has no $name"
done
if [ "$arch" = "$native" ]; then
    [ "$("$content/causerie" --version)" = "causerie $version" ] || fail "the program of the tarball"
fi

say "Debian package"
deb="$packages/causerie_${version}_$arch.deb"
[ "$(dpkg-deb --field "$deb" Version Architecture)" = "Version: $version
Architecture: $arch" ] || fail "version or architecture of the package"
dpkg-deb --contents "$deb" >"$unpacked/contents"
for name in ./usr/bin/causerie ./usr/share/man/man1/causerie.1.gz ./usr/share/bash-completion/completions/causerie.bash \
    ./usr/share/zsh/vendor-completions/_causerie ./usr/share/fish/vendor_completions.d/causerie.fish \
    ./etc/causerie/causerie.toml ./usr/share/doc/causerie/causerie.cdx.json; do
    grep -q " $name\(.gz\)\?\$" "$unpacked/contents" || fail "the package has no $name"
done
dpkg-deb --extract "$deb" "$unpacked/deb"

# The bill of materials, and the section of cargo-auditable that scanners read in the program.
say "dependencies"
python3 - "$version" "$packages/causerie-$version-$arch.cdx.json" "$content/causerie" "$unpacked/deb/usr/bin/causerie" <<'END' || fail "the dependencies"
import json, subprocess, sys, zlib

version, bill, *programs = sys.argv[1:]
with open(bill) as file:
    bill = json.load(file)
assert bill["bomFormat"] == "CycloneDX", bill["bomFormat"]
described = bill["metadata"]["component"]
assert (described["name"], described["version"]) == ("causerie", version), described
listed = {(one["name"], one["version"]) for one in bill["components"]}
assert len(listed) > 100, len(listed)

for program in programs:
    shown = subprocess.run(["readelf", "--wide", "--sections", program], capture_output=True, text=True, check=True)
    lines = [line.split("]", 1)[1].split() for line in shown.stdout.splitlines() if ".dep-v0" in line]
    assert lines, f"{program} does not carry its dependencies"
    offset, size = int(lines[0][3], 16), int(lines[0][4], 16)
    with open(program, "rb") as file:
        file.seek(offset)
        carried = {(one["name"], one["version"]) for one in json.loads(zlib.decompress(file.read(size)))["packages"]}
    assert len(carried) > 100, (program, len(carried))
    unlisted = carried - listed - {("causerie", version)}
    assert not unlisted, f"not in the bill of materials: {sorted(unlisted)}"
END
say "all as promised"
