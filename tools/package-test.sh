#!/bin/sh
# Installs the Debian package of target/packages in a new Debian, uses it, upgrades, removes and purges it. Needs root.
# Exits with 1 at the first thing that is not as promised.
set -eu
cd "$(dirname "$0")/.."

target="${CARGO_TARGET_DIR:-$PWD/target}"
arch="$(dpkg --print-architecture)"
version="$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)"
deb="$target/packages/causerie_${version}_$arch.deb"
root="$target/package-test"
CONFIG="--config /etc/causerie/causerie.toml"
holder="" enter="" service=""

say() { echo "package-test: $*"; }
fail() {
    say "FAILED: $*" >&2
    exit 1
}
# Runs a command in the new Debian, by its mount namespace: from a chroot no user namespaces could be made.
# shellcheck disable=SC2086 # a command and its arguments
inside() { $enter "$@"; }
clean() {
    [ -z "$service" ] || kill "$service" 2>/dev/null || true
    if [ -n "$holder" ]; then
        inside causerie machine stop --all $CONFIG >/dev/null 2>&1 || true
        kill "$holder" 2>/dev/null || true
    fi
    rm -rf "$root"
}

[ -e "$deb" ] || fail "no $deb: run make package first"
say "lintian"
lintian --fail-on error,warning "$deb" || fail "lintian complains"

rm -rf "$root"
trap clean EXIT
say "a new Debian in $root"
mkdir -p "$root"
mmdebstrap --quiet --mode=root --variant=minbase --include=ca-certificates,curl bookworm "$root"
# shellcheck disable=SC2016 # expanded by the inner shell
unshare --mount --propagation private sh -c '
    mount --bind "$1" "$1" && mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" && mount --rbind /sys "$1/sys"
    cd "$1" && mkdir -p mnt/host && pivot_root . mnt/host && umount -l mnt/host && touch /ready && exec sleep infinity
' sh "$root" &
holder=$!
enter="nsenter --target $holder --mount --root --wd=/ env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C DEBIAN_FRONTEND=noninteractive"
tries=0
until [ -e "$root/ready" ]; do
    tries=$((tries + 1))
    [ "$tries" -lt 50 ] || fail "no mount namespace"
    sleep 0.1
done

# Makes the same package of another version: upgrades start from the one before.
older="$target/package-$arch/older"
rm -rf "$older"
dpkg-deb --raw-extract "$deb" "$older"
sed -i "s/^Version: .*/Version: 0.0.9/" "$older/DEBIAN/control"
dpkg-deb --root-owner-group --build "$older" "$root/tmp/causerie-older.deb" >/dev/null
cp "$deb" "$root/tmp/causerie.deb"

# serve: starts the service as systemd would, and waits until it answers.
serve() {
    # shellcheck disable=SC2086 # a command and its arguments
    $enter setpriv --reuid causerie --regid causerie --init-groups env HOME=/var/lib/causerie \
        causerie serve $CONFIG >"$root/tmp/serve.log" 2>&1 &
    service=$!
    tries=0
    until inside curl -fs http://127.0.0.1:8080/healthz >/dev/null 2>&1; do
        kill -0 "$service" 2>/dev/null || { cat "$root/tmp/serve.log" >&2; fail "the service ended"; }
        tries=$((tries + 1))
        [ "$tries" -lt 300 ] || fail "the service does not answer"
        sleep 0.1
    done
}
stop() { kill "$service" && wait "$service" || true; service=""; }

say "install"
inside apt-get update -q >/dev/null
inside apt-get install -q -y /tmp/causerie-older.deb >"$target/package-test.log" 2>&1 || { cat "$target/package-test.log"; fail "install"; }
inside getent passwd causerie >/dev/null || fail "no user causerie"
inside grep -q '^causerie:' /etc/subuid || fail "no range of user ids"
[ "$(inside stat -c '%U %a' /var/lib/causerie)" = "causerie 700" ] || fail "the data folder's owner or mode"
[ "$(inside stat -c '%U %a' /etc/causerie/environment)" = "root 600" ] || fail "the environment's owner or mode"
inside test -e /usr/lib/systemd/system/causerie.service -o -e /lib/systemd/system/causerie.service || fail "no unit"
inside test -e /usr/share/man/man1/causerie.1.gz || fail "no manual page"

say "use"
serve
inside causerie account create $CONFIG --email ada@example.org --licence-until 2099-12-31 --credits 100 >/dev/null
key="$(inside causerie key create $CONFIG --account ada@example.org --name test --json | sed 's/.*"key":"\([^"]*\)".*/\1/')"
echo "The notice period is six weeks." >"$root/tmp/contract.txt"
answer="$(inside env CAUSERIE_API_KEY="$key" causerie ask --file /tmp/contract.txt "How long is the notice period?")"
echo "$answer" | grep -q "six weeks" || fail "the answer is: $answer"
say "answered: $(echo "$answer" | grep -m 1 'six weeks')"
inside causerie machine list $CONFIG | sed 's/^/package-test: /'

say "upgrade"
stop
inside apt-get install -q -y /tmp/causerie.deb >"$target/package-test.log" 2>&1 || { cat "$target/package-test.log"; fail "upgrade"; }
[ "$(inside dpkg-query -W -f '${Version}' causerie)" = "$version" ] || fail "the version after the upgrade"
serve
inside causerie account show $CONFIG ada@example.org | grep -q ada@example.org || fail "the account is gone"
answer="$(inside env CAUSERIE_API_KEY="$key" causerie ask "How long is the notice period?")"
echo "$answer" | grep -q "six weeks" || fail "after the upgrade the answer is: $answer"
stop

say "remove"
inside apt-get remove -q -y causerie >"$target/package-test.log" 2>&1 || { cat "$target/package-test.log"; fail "remove"; }
[ -z "$(pgrep -x causerie-vm -u causerie 2>/dev/null)" ] || fail "machines are left"
inside test -e /usr/bin/causerie && fail "the program is left"
inside test -e /var/lib/causerie/causerie.db || fail "the data is gone"
inside test -e /etc/causerie/causerie.toml || fail "the settings are gone"

say "purge"
inside apt-get purge -q -y causerie >"$target/package-test.log" 2>&1 || { cat "$target/package-test.log"; fail "purge"; }
inside test -e /etc/causerie && fail "settings are left"
inside test -e /var/lib/causerie/causerie.db || fail "a purge removed the data unasked"
inside apt-get install -q -y /tmp/causerie.deb >"$target/package-test.log" 2>&1 || { cat "$target/package-test.log"; fail "install again"; }
serve
inside causerie account show $CONFIG ada@example.org >/dev/null || fail "the data is not found again"
stop
inside env PURGE_CAUSERIE_DATA=yes apt-get purge -q -y causerie >"$target/package-test.log" 2>&1 || fail "purge with data"
inside test -e /var/lib/causerie && fail "data is left"
inside getent passwd causerie >/dev/null && fail "the user is left"
say "installed, used, upgraded, removed and purged"
