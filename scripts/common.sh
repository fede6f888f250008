# Sourced by the other scripts: working directory, messages and common functions.

cd "$(dirname "$0")/.."
# Files whose commands Fathom runs must not be writable by others, whatever the mask of the caller is.
umask 022

# rustup's programs, if they are not on PATH yet.
if [ -d "${CARGO_HOME:-${HOME:-/root}/.cargo}/bin" ]; then
    PATH="${CARGO_HOME:-${HOME:-/root}/.cargo}/bin:$PATH"
    export PATH
fi

# Results go to stdout, messages to stderr.
say() { echo "== $*" >&2; }
# What is skipped is listed at the end of scripts/test: FATHOM_SKIPPED is the file with a line for each. Some tests run as
# another user.
count_skipped() {
    FATHOM_SKIPPED=$(mktemp)
    chmod 666 "$FATHOM_SKIPPED"
    export FATHOM_SKIPPED
}
skipped() {
    echo "== SKIPPED: $*" >&2
    [ -z "${FATHOM_SKIPPED-}" ] || echo "$*" >>"$FATHOM_SKIPPED"
}
have() { command -v "$1" >/dev/null 2>&1; }

# Target of the board binary. `board_is_built` tests whether it is installed.
board=aarch64-unknown-linux-musl
board_is_built() { target_is_there "$board"; }
# Target of the bare-metal image, which the command embeds if it can be built.
metal=aarch64-unknown-none-softfloat
target_is_there() { [ -d "$(rustc --print sysroot)/lib/rustlib/$1/lib" ]; }

# Tests whether the installed cargo is at least as new as required by the workspace.
rust_is_new_enough() {
    have cargo && have rustc || return 1
    required=$(sed -n 's/^rust-version = "1\.\([0-9]*\)".*/\1/p' Cargo.toml)
    found=$(rustc --version | sed -n 's/^rustc 1\.\([0-9]*\).*/\1/p')
    [ -n "$found" ] && [ "$found" -ge "$required" ]
}

# Runs a command as root, or fails with a reason.
as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif have sudo && sudo -n true 2>/dev/null; then
        sudo -n "$@"
    elif have sudo && [ -t 0 ]; then
        sudo "$@"
    else
        echo "not root, and sudo cannot be used here" >&2
        return 1
    fi
}

# Installs Debian packages; fetches the package lists if a package is unknown.
apt_install() {
    have apt-get || { echo "this system has no apt-get" >&2; return 1; }
    say "installing with apt-get: $*"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@" >&2 </dev/null || {
        say "fetching apt's package lists first"
        as_root apt-get update -q >&2 </dev/null
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@" >&2 </dev/null
    }
}

# Installs what compiles C for a GNU triple, unless it is there: Debian's cross compiler, and the C library, without which
# the compiler alone builds kernels and no programs.
cross_compiler() {
    have "$1-gcc" && { [ -d "/usr/$1/include" ] || [ -d "/usr/include/$1" ]; } && return
    case $1 in
        aarch64-*) library=arm64 ;;
        arm-*hf) library=armhf ;;
        arm-*) library=armel ;;
        x86_64-*) library=amd64 ;;
        *) library=${1%%-*} ;;
    esac
    apt_install "gcc-$(echo "$1" | tr _ -)" "libc6-dev-$library-cross"
}
