#!/bin/sh
# fetch.sh FOLDER [LIST]: fetch the documents of LIST (sources.tsv) into FOLDER and check their digests. What cannot be had (a
# package of a newer version, no network) is left out and said. MIRROR may name a folder of git repositories (OWNER+NAME, bare or not)
# that are asked before github.com.
set -eu
folder=$1
list=$(dirname "$0")/${2:-sources.tsv}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$folder"
tab=$(printf '\t')

# from_package PACKAGE PATH: print the file of a Debian package.
from_package() {
	if [ ! -d "$work/$1" ]; then
		(cd "$work" && apt-get -qq download "$1" >/dev/null 2>&1) || return 1
		dpkg-deb -x "$work/$1"_*.deb "$work/$1"
	fi
	case $2 in
		*.gz) gzip -dc "$work/$1/$2" ;;
		*) cat "$work/$1/$2" ;;
	esac
}

# from_github OWNER/NAME COMMIT PATH: print the file of a repository.
from_github() {
	for mirror in "${MIRROR:-}/$(echo "$1" | tr / +)"/repo "${MIRROR:-}/$(echo "$1" | tr / +)"; do
		git -C "$mirror" show "$2:$3" 2>/dev/null && return
	done
	path=$(printf %s "$3" | python3 -c 'import sys, urllib.parse; print(urllib.parse.quote(sys.stdin.read()))')
	curl -fsSL --max-time 60 "https://raw.githubusercontent.com/$1/$2/$path"
}

missing=0
sed 1d "$list" > "$work/list"
while IFS="$tab" read -r name _language _kind digest origin; do
	if echo "$digest  $folder/$name" | sha256sum --check --status 2>/dev/null; then continue; fi
	how=${origin%% *} rest=${origin#* }
	source=${rest%% *} path=${rest#* }
	case $how in
		deb) from_package "${source%%=*}" "$path" ;;
		github) from_github "${source%%@*}" "${source##*@}" "$path" ;;
	esac < /dev/null > "$work/file" 2>/dev/null || true
	if echo "$digest  $work/file" | sha256sum --check --status; then
		mv "$work/file" "$folder/$name"
	else
		echo "not the document that was measured: $name ($origin)" >&2
		missing=$((missing + 1))
	fi
done < "$work/list"
echo "$(find "$folder" -type f | wc -l) documents in $folder, $missing missing"
