#!/bin/sh
# Installs what is missing and touches nothing that is there. Arguments: packages, kernel, kernel-build, nextest, python, browser, node, screenshots, bench, profile,
# fuzz, deny, typos, package, package-arm64.
set -eu

# gcc and libc6-dev link the programs, uidmap gives an ordinary user the ids that a machine runs under, user-mode-linux is the
# kernel of machines.
PACKAGES="gcc libc6-dev uidmap user-mode-linux"
# Machines recognize the text of scans by tesseract, in the languages that are installed.
PACKAGES="$PACKAGES tesseract-ocr tesseract-ocr-ces tesseract-ocr-slk tesseract-ocr-deu"
# They unpack RAR archives, cabinets and LHA archives by bsdtar.
PACKAGES="$PACKAGES libarchive-tools"
# The tests ask by curl, and start PostgreSQL servers of their own; flock and setpriv are for those. Quotas of disks are tried in a guest with a
# kernel and a disk of its own. Images of machines are built by mmdebstrap and mkfs.erofs. QEMU boots virtual machines with
# the kernel of linux-image-amd64 (the one for clouds lacks 9P), which xz unpacks.
TEST_PACKAGES="curl postgresql util-linux e2fsprogs mmdebstrap erofs-utils qemu-system-x86 linux-image-amd64 xz-utils"
# The web application is tried in a real browser, with a font that has the letters of all its languages.
BROWSER_PACKAGES="chromium chromium-driver fonts-dejavu-core"
# The rules of accessibility that its pages are held against.
AXE_VERSION="4.14.1"
# What makes pictures small, and the fonts that the style names first.
PICTURE_PACKAGES="pngquant fonts-inter fonts-urw-base35"
# Beside which files are measured.
BENCH_PACKAGES="nginx-light"
# What shows where the service spends its time.
PROFILE_PACKAGES="linux-perf python3"
# What builds the kernel of machines.
KERNEL_PACKAGES="gcc make libc6-dev flex bison bc xz-utils"
# What packs the release: debhelper and lintian for Debian, umoci and mmdebstrap for an image of containers, which podman runs.
# The package is tried in a Debian with systemd, which systemd-nspawn boots.
PACK_PACKAGES="$KERNEL_PACKAGES debhelper dpkg-dev fakeroot lintian mmdebstrap umoci uidmap podman runc curl procps systemd-container python3"
# What packs it for arm64 on another machine: programs of that architecture run in the image while it is made.
CROSS_PACKAGES="crossbuild-essential-arm64 qemu-user-static binfmt-support arch-test"
# The published schema is tried by programs in Python, of these versions.
PYTHON_PACKAGES="python3 python3-venv"
PYTHON_REQUIREMENTS="crates/e2e/tests/schema/requirements.txt"
# So it is by programs for Node, of the versions that the lock beside this list names.
NODE_PACKAGES="nodejs npm"
NODE_REQUIREMENTS="crates/e2e/tests/schema/typescript"

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null 2>&1; then
        sudo "$@"
    else
        echo "please install as root: apt-get install $missing" >&2
        exit 1
    fi
}

packages() {
    wanted="$*"
    if ! command -v dpkg-query >/dev/null 2>&1; then
        echo "no Debian here: please see to a C compiler and newuidmap/newgidmap yourself, and to PostgreSQL for the tests" >&2
        return
    fi
    missing=""
    for package in $wanted; do
        dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing="$missing $package"
    done
    [ -n "$missing" ] || return 0
    missing="${missing# }"
    echo "installing: $missing"
    as_root apt-get update -q
    # shellcheck disable=SC2086 # a list of words
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $missing
}

# True if this User Mode Linux kernel starts a program here, which leaves a file through the kernel's view of the host. The
# kernel takes its arguments apart again, therefore the inner quotes.
boots() {
    run="$(mktemp -d)"
    timeout --signal=KILL 20 env LD_LIBRARY_PATH="$(dirname "$1")/libraries" "$1" mem=64M rootfstype=hostfs rw quiet panic=-1 \
        con=null ssl=null seccomp=off uml_dir="$run" init=/bin/sh -- -c "\": >$run/boots\"" </dev/null >/dev/null 2>&1 || true
    [ -e "$run/boots" ] && outcome=0 || outcome=1
    rm -rf "$run"
    return "$outcome"
}

# Leaves in target/kernel a kernel of machines that boots here, unless the distribution's does: the one that `make kernel` built,
# else a newer one of Debian's archive, which apt verifies. It is unpacked, not installed, with the C library that it needs.
kernel() {
    [ "$(uname -m)" = x86_64 ] || return 0
    folder="${CARGO_TARGET_DIR:-$PWD/target}/kernel"
    if [ -d "$folder/libraries" ]; then return 0; fi
    if [ -x "$folder/linux" ] && boots "$folder/linux"; then return 0; fi
    if command -v linux.uml >/dev/null 2>&1 && boots linux.uml; then return 0; fi
    echo "the distribution's kernel of machines does not boot on this processor: fetching a newer one from Debian's archive"
    fetched="$(mktemp -d /tmp/ker-XXXXXX)"
    if fetch_kernel "$fetched" && boots "$fetched/linux"; then
        rm -rf "$folder"
        mkdir -p "$folder"
        cp -r "$fetched/libraries" "$folder/"
        # In the machines' jail the loader is at another path of the same length.
        LC_ALL=C sed "s|$fetched/ld-linux.so|/run/kernel-lib/ld-linux.so|" "$fetched/linux" >"$folder/linux"
        chmod +x "$folder/linux"
    else
        echo "no kernel of machines boots here: machines run in a sandbox on the host's kernel; \`make kernel\` builds one" >&2
    fi
    rm -rf "$fetched"
}

# Unpacks Debian's newest kernel of machines with its libraries into a folder, whose path has the length of /run/kernel-lib.
fetch_kernel() {
    sh "$(dirname "$0")/apt-suite.sh" sid "$1/apt" user-mode-linux libc6 || return 1
    for package in "$1"/apt/*.deb; do dpkg -x "$package" "$1/system" || return 1; done
    mkdir "$1/libraries"
    cp "$1/system/usr/lib/x86_64-linux-gnu/libc.so.6" "$1/libraries/"
    cp "$1/system/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2" "$1/libraries/ld-linux.so"
    cp "$1/libraries/ld-linux.so" "$1/ld-linux.so"
    LC_ALL=C sed "s|/lib64/ld-linux-x86-64.so.2|$1/ld-linux.so|" "$1/system/usr/bin/linux.uml" >"$1/linux"
    chmod +x "$1/linux"
}

# tool PROGRAM CRATE
tool() {
    command -v "$1" >/dev/null 2>&1 && return
    echo "$1 is missing: building it, which takes some minutes"
    "${CARGO:-cargo}" install --locked "$2"
}

# The Python programs get a folder of their own, which is made anew when other versions are asked for.
python() {
    folder="${CARGO_TARGET_DIR:-target}/python"
    requirements="$(dirname "$0")/../$PYTHON_REQUIREMENTS"
    cmp -s "$requirements" "$folder/requirements.txt" && return
    echo "installing the Python programs of the tests into $folder"
    rm -rf "$folder"
    python3 -m venv "$folder"
    "$folder/bin/pip" install --quiet --disable-pip-version-check --requirement "$requirements"
    cp "$requirements" "$folder/requirements.txt"
}

# A file of the npm package, which is fetched anew when another version is asked for.
axe() {
    folder="${CARGO_TARGET_DIR:-target}/axe"
    grep -qsF "axe v$AXE_VERSION" "$folder/axe.min.js" && return
    command -v npm >/dev/null 2>&1 || packages npm
    echo "fetching axe-core $AXE_VERSION into $folder"
    mkdir -p "$folder"
    npm pack --silent --pack-destination "$folder" "axe-core@$AXE_VERSION" >/dev/null
    tar -xzf "$folder/axe-core-$AXE_VERSION.tgz" -C "$folder" --strip-components 1 package/axe.min.js package/LICENSE
    rm "$folder/axe-core-$AXE_VERSION.tgz"
}

# So do the programs for Node. None of their scripts runs at installation.
node() {
    command -v npm >/dev/null 2>&1 || packages $NODE_PACKAGES
    folder="${CARGO_TARGET_DIR:-target}/node"
    requirements="$(dirname "$0")/../$NODE_REQUIREMENTS"
    cmp -s "$requirements/package-lock.json" "$folder/package-lock.json" && return
    echo "installing the Node programs of the tests into $folder"
    rm -rf "$folder"
    mkdir -p "$folder.new"
    cp "$requirements/package.json" "$requirements/package-lock.json" "$folder.new"
    npm ci --prefix "$folder.new" --ignore-scripts --no-audit --no-fund --loglevel=error
    mv "$folder.new" "$folder"
}

# shellcheck disable=SC2086 # lists of words
for what in "$@"; do
    case "$what" in
        packages) packages $PACKAGES ;;
        kernel) kernel ;;
        kernel-build) packages $KERNEL_PACKAGES ;;
        nextest)
            packages $TEST_PACKAGES
            tool cargo-nextest cargo-nextest
            ;;
        package)
            packages $PACK_PACKAGES
            tool cargo-auditable cargo-auditable
            tool cargo-cyclonedx cargo-cyclonedx
            ;;
        package-arm64) packages $CROSS_PACKAGES ;;
        bench) packages $BENCH_PACKAGES ;;
        profile) packages $PROFILE_PACKAGES ;;
        python)
            packages $PYTHON_PACKAGES
            python
            ;;
        browser)
            packages $BROWSER_PACKAGES
            axe
            ;;
        node) node ;;
        screenshots) packages $PICTURE_PACKAGES ;;
        fuzz)
            rustup toolchain list | grep -q '^nightly' || rustup toolchain install nightly --profile minimal
            tool cargo-fuzz cargo-fuzz
            ;;
        deny) tool cargo-deny cargo-deny ;;
        typos) tool typos typos-cli ;;
        *)
            echo "setup: unknown: $what" >&2
            exit 2
            ;;
    esac
done
