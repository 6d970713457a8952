#!/bin/sh
# Installs the Debian package of target/packages in a new Debian that systemd runs, uses it, restarts, upgrades, removes and purges it;
# runs the container. Needs root.
# Exits with 1 at the first thing that is not as promised.
set -eu
cd "$(dirname "$0")/.."

target="${CARGO_TARGET_DIR:-$PWD/target}"
arch="$(dpkg --print-architecture)"
version="$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)"
deb="$target/packages/causerie_${version}_$arch.deb"
root="$target/package-test"
CONFIG="--config /etc/causerie/causerie.toml"
init="" enter=""

say() { echo "package-test: $*"; }
fail() {
    say "FAILED: $*" >&2
    exit 1
}
# Runs a command in the new Debian, whose systemd is running.
# shellcheck disable=SC2086 # a command and its arguments
inside() { $enter "$@"; }
clean() {
    if [ -n "$init" ]; then
        inside causerie machine stop --all $CONFIG >/dev/null 2>&1 || true
        kill -s RTMIN+4 "$init" 2>/dev/null || true
        wait || true
    fi
    rm -rf "$root"
}
# until_true SECONDS WHAT COMMAND...: repeats a command until it succeeds.
until_true() {
    tries="$(($1 * 10))" what="$2"
    shift 2
    until "$@" >/dev/null 2>&1; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || fail "$what"
        sleep 0.1
    done
}

[ -e "$deb" ] || fail "no $deb: run make package first"
say "lintian"
lintian --fail-on error,warning "$deb" || fail "lintian complains"

rm -rf "$root"
trap clean EXIT
say "a new Debian in $root"
mkdir -p "$root"
mmdebstrap --quiet --mode=root --variant=minbase --include=ca-certificates,curl,procps,systemd,systemd-sysv bookworm "$root"

# Makes the same package of another version: upgrades start from the one before.
older="$target/package-$arch/older"
rm -rf "$older"
dpkg-deb --raw-extract "$deb" "$older"
sed -i "s/^Version: .*/Version: 0.0.9/" "$older/DEBIAN/control"
dpkg-deb --root-owner-group --build "$older" "$root/root/causerie-older.deb" >/dev/null
cp "$deb" "$root/root/causerie.deb"

say "its systemd"
# Control groups are of the host's version.
unified=1
[ "$(stat -f -c %T /sys/fs/cgroup)" = cgroup2fs ] || unified=0
SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=$unified systemd-nspawn --quiet --register=no --keep-unit --link-journal=no --capability=all \
    --console=pipe --boot --directory="$root" </dev/null >"$target/package-test-boot.log" 2>&1 &
booted() { init="$(pgrep --parent $! --exact systemd)" && nsenter --target "$init" --all systemctl is-system-running --wait; }
until_booted() { booted || [ "$(nsenter --target "$init" --all systemctl is-system-running)" = degraded ]; }
until_true 60 "systemd does not start: $target/package-test-boot.log" until_booted
enter="nsenter --target $init --all --wd=/ env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C DEBIAN_FRONTEND=noninteractive"

# served: waits until the service answers.
served() { until_true 60 "the service does not answer: $(inside journalctl --no-pager -n 20 -u causerie)" inside curl -fs http://127.0.0.1:8080/healthz; }
# machine_pid: the first process of the machine, as the host of the service sees it.
machine_pid() { inside causerie machine show $CONFIG --json ada@example.org | sed 's/.*"pids":\[\([0-9]*\).*/\1/'; }
answered() {
    answer="$(inside env CAUSERIE_API_KEY="$key" causerie ask "$@" "How long is the notice period?")"
    echo "$answer" | grep -q "six weeks" || fail "the answer is: $answer"
}

say "install"
inside apt-get update -q >/dev/null
inside apt-get install -q -y /root/causerie-older.deb >"$target/package-test.log" 2>&1 || { cat "$target/package-test.log"; fail "install"; }
inside getent passwd causerie >/dev/null || fail "no user causerie"
inside grep -q '^causerie:' /etc/subuid || fail "no range of user ids"
[ "$(inside stat -c '%U %a' /var/lib/causerie)" = "causerie 700" ] || fail "the data folder's owner or mode"
[ "$(inside stat -c '%U %a' /etc/causerie/environment)" = "root 600" ] || fail "the environment's owner or mode"
inside test -e /usr/share/man/man1/causerie.1.gz || fail "no manual page"
[ "$(inside systemctl is-enabled causerie)" = enabled ] || fail "the unit is not enabled"
served

say "use"
inside causerie account create $CONFIG --email ada@example.org --licence-until 2099-12-31 --credits 100 >/dev/null
key="$(inside causerie key create $CONFIG --account ada@example.org --name test --json | sed 's/.*"key":"\([^"]*\)".*/\1/')"
echo "The notice period is six weeks." >"$root/root/contract.txt"
answered --file /root/contract.txt
say "answered: $(echo "$answer" | grep -m 1 'six weeks')"
inside causerie machine list $CONFIG | sed 's/^/package-test: /'

say "restart, kill, stop and start"
pid="$(machine_pid)"
[ -n "$pid" ] || fail "no machine runs"
inside systemctl restart causerie
served
[ "$(machine_pid)" = "$pid" ] || fail "a restart ended the machine"
inside systemctl kill --kill-whom=main --signal=KILL causerie
until_true 60 "systemd does not start the service again" inside sh -c '[ "$(systemctl show -P NRestarts causerie)" = 1 ]'
served
[ "$(machine_pid)" = "$pid" ] || fail "a kill of the service ended the machine"
inside systemctl stop causerie
[ "$(machine_pid)" = "$pid" ] || fail "a stop of the service ended the machine"
inside systemctl start causerie
served
answered
[ "$(machine_pid)" = "$pid" ] || fail "the machine was not found again"

say "upgrade"
inside apt-get install -q -y /root/causerie.deb >"$target/package-test.log" 2>&1 || { cat "$target/package-test.log"; fail "upgrade"; }
[ "$(inside dpkg-query -W -f '${Version}' causerie)" = "$version" ] || fail "the version after the upgrade"
served
inside causerie account show $CONFIG ada@example.org | grep -q ada@example.org || fail "the account is gone"
[ "$(machine_pid)" = "$pid" ] || fail "the upgrade ended the machine"
answered

say "remove"
inside pgrep -x causerie-vm >/dev/null || fail "the machine's processes have another name"
inside apt-get remove -q -y causerie >"$target/package-test.log" 2>&1 || { cat "$target/package-test.log"; fail "remove"; }
inside pgrep -x causerie-vm >/dev/null && fail "machines are left"
inside test -e /usr/bin/causerie && fail "the program is left"
inside test -e /var/lib/causerie/causerie.db || fail "the data is gone"
inside test -e /etc/causerie/causerie.toml || fail "the settings are gone"

say "purge"
inside apt-get purge -q -y causerie >"$target/package-test.log" 2>&1 || { cat "$target/package-test.log"; fail "purge"; }
inside test -e /etc/causerie && fail "settings are left"
inside test -e /var/lib/causerie/causerie.db || fail "a purge removed the data unasked"
inside apt-get install -q -y /root/causerie.deb >"$target/package-test.log" 2>&1 || { cat "$target/package-test.log"; fail "install again"; }
served
inside causerie account show $CONFIG ada@example.org >/dev/null || fail "the data is not found again"
inside env PURGE_CAUSERIE_DATA=yes apt-get purge -q -y causerie >"$target/package-test.log" 2>&1 || fail "purge with data"
inside test -e /var/lib/causerie && fail "data is left"
inside getent passwd causerie >/dev/null && fail "the user is left"
say "installed, used, restarted, upgraded, removed and purged"

# container ARGUMENT...: podman, as it works on a host with control groups of either version and without systemd.
container() { podman --cgroup-manager=cgroupfs --runtime=runc "$@"; }
image="$target/packages/causerie-$version-oci-$arch.tar"
if [ -e "$image" ]; then
    say "the container"
    container load --quiet --input "$image" | grep -q "causerie:$version" || fail "the image has another name"
    container run --detach --rm --privileged --ulimit nofile=4096:4096 --ulimit nproc=4096:4096 --network=host \
        --name causerie-package-test "causerie:$version" serve --listen 127.0.0.1:8080 >/dev/null
    tries=0
    until curl -fs http://127.0.0.1:8080/healthz >/dev/null 2>&1; do
        tries=$((tries + 1))
        [ "$tries" -lt 300 ] || { container logs causerie-package-test >&2; fail "the container does not answer"; }
        sleep 0.1
    done
    in_container() { container exec causerie-package-test causerie "$@"; }
    in_container account create --email ada@example.org --licence-until 2099-12-31 --credits 100 >/dev/null
    key="$(in_container key create --account ada@example.org --name test --json | sed 's/.*"key":"\([^"]*\)".*/\1/')"
    answer="$(printf 'The notice period is six weeks.\n' | container exec --interactive --env CAUSERIE_API_KEY="$key" causerie-package-test \
        sh -c 'cat >/tmp/contract.txt && causerie ask --file /tmp/contract.txt "How long is the notice period?"')"
    echo "$answer" | grep -q "six weeks" || fail "the container's answer is: $answer"
    in_container machine list | sed 's/^/package-test: /'
    container stop causerie-package-test >/dev/null
    container rmi --force "causerie:$version" >/dev/null
    say "the container answered"
fi
