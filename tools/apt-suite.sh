#!/bin/sh
# Downloads packages of another Debian suite, verified by apt, into a folder: `apt-suite.sh SUITE FOLDER PACKAGE…`. Lists and
# cache lie in the folder as well, so that nothing of the system changes. A package `linux-source` stands for the
# package of the newest source that it depends on.
set -eu

suite="$1"
folder="$2"
shift 2
mkdir -p "$folder/sources" "$folder/lists/partial" "$folder/cache/archives/partial"
cat >"$folder/sources/suite.sources" <<END
Types: deb
URIs: http://deb.debian.org/debian
Suites: $suite
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
END

# apt COMMAND ARGUMENT…
apt() {
    command="$1"
    shift
    "$command" -q -o Dir::Etc::SourceList=/dev/null -o "Dir::Etc::SourceParts=$folder/sources" \
        -o "Dir::State::Lists=$folder/lists" -o "Dir::Cache=$folder/cache" -o "APT::Sandbox::User=$(id -un)" \
        -o Acquire::Languages=none -o Acquire::Retries=3 "$@"
}

apt apt-get update
for package in "$@"; do
    if [ "$package" = linux-source ]; then
        package="$(apt apt-cache depends linux-source | sed -n 's/.*Depends: \(linux-source-[0-9.]*\).*/\1/p' | head -n 1)"
        [ -n "$package" ] || { echo "apt-suite: $suite has no package linux-source" >&2; exit 1; }
    fi
    (cd "$folder" && apt apt-get download "$package")
done
