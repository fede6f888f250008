# shellcheck shell=sh disable=SC2154 # release, host, fetched: those of the scripts
# Sourced by the scripts whose guests need kernels that Debian does not build: amd64-checked and arm64-checked, with the
# kernel's checkers, and arm64-64k. They are Debian's source with a small configuration, built once and kept in the user's
# cache (fathom/kernels). $release is the Debian release, $host the architecture of this machine. After scripts/debian.sh. The
# scripts remove $begun, an unfinished build, at their end.
begun=

own_kernel() { case $1 in *-checked | *-64k) ;; *) return 1 ;; esac; }
# The architecture of a kernel, for Debian and for the kernel.
debian_arch() { case $1 in *-checked | *-64k) echo "${1%-*}" ;; *) echo "$1" ;; esac; }
kernel_arch() {
    case $(debian_arch "$1") in
        amd64) echo x86 ;;
        armhf | armel) echo arm ;;
        *) debian_arch "$1" ;;
    esac
}
# The compiler's prefix for an architecture.
cross() {
    case $(debian_arch "$1") in
        "$host") ;;
        amd64) echo x86_64-linux-gnu- ;;
        arm64) echo aarch64-linux-gnu- ;;
        armhf) echo arm-linux-gnueabihf- ;;
        armel) echo arm-linux-gnueabi- ;;
    esac
}

kernels_folder() { echo "$(cache_folder kernels)/$release"; }
options_of() { cat scripts/kernels/guest.config "scripts/kernels/${1##*-}.config"; }
# The folder that the kernel $1 is built in, and its image. The folder's name changes with the options.
built_kernel() { echo "$(kernels_folder)/$1-$(options_of "$1" | cksum | cut -d ' ' -f 1)"; }
built_image() {
    case $1 in
        amd64-*) echo "$(built_kernel "$1")/arch/x86/boot/bzImage" ;;
        *) echo "$(built_kernel "$1")/arch/$(kernel_arch "$1")/boot/Image" ;;
    esac
}

# Unpacks the source of Debian's kernel to the folder $1, below the one of the kernels, unless it is there; with $2 only that
# folder of it.
unpack_source() {
    [ ! -d "$1" ] || return 0
    mkdir -p "$(kernels_folder)"
    fetched=$(mktemp -d "$(kernels_folder)/fetch.XXXXXX")
    own_apt "$fetched/apt-source" "$host"
    apt_does apt-get update -q
    package=$(depends_on linux-source linux-source-)
    say "downloading: $package"
    (cd "$fetched" && apt_does apt-get download -q "$package") || exit
    unset APT_CONFIG
    mkdir "$fetched/source"
    dpkg-deb --fsys-tarfile "$fetched"/*.deb | tar -x -O --wildcards './usr/src/*.tar.xz' \
        | tar -x -J -C "$fetched/source" --strip-components=1 --wildcards "*/${2-}*"
    # A concurrent run may have been faster.
    [ -d "$1" ] || mv "$fetched/source" "$1"
    rm -rf "$fetched"
}

# Sets $source to the source of Debian's kernel, and downloads it once.
kernel_source() {
    source=$(kernels_folder)/source
    unpack_source "$source"
}

# Sets $source to a folder with the semantic patches of the kernel's source in scripts/coccinelle, or to nothing with the reason
# printed: only what needs them is skipped. Call it as a command of its own, so that a failure ends the script.
semantic_patches() {
    source=$(kernels_folder)/source
    [ ! -d "$source" ] || return 0
    source=$(kernels_folder)/patches
    set +e
    (
        set -e
        purpose=coccinelle
        trap 'rm -rf "${fetched-}"' EXIT
        unpack_source "$source" scripts/coccinelle/
    )
    unpacked=$?
    set -e
    case $unpacked in
        0) ;;
        77) source= ;;
        *) exit "$unpacked" ;;
    esac
}

# Builds the kernel $1, unless it is there. Call it as a command of its own, so that a failure ends the script.
build_kernel() {
    [ ! -f "$(built_image "$1")" ] || return 0
    for tool in gcc make flex bison bc; do
        have "$tool" || apt_install "$tool" || cannot "no $tool to build a kernel with"
    done
    # objtool reads object files with it.
    [ -f /usr/include/libelf.h ] || apt_install libelf-dev || cannot "no libelf-dev to build a kernel with"
    have "$(cross "$1")gcc" || cannot "no $(cross "$1")gcc to build a kernel with; run scripts/setup --driver"
    kernel_source
    say "building the kernel $1 (three to eight minutes on two cores)"
    begun=$(mktemp -d "$(kernels_folder)/$1.XXXXXX")
    set -- "$1" make -s -C "$source" O="$begun" ARCH="$(kernel_arch "$1")" CROSS_COMPILE="$(cross "$1")"
    name=$1
    shift
    "$@" tinyconfig >"$begun/said" 2>&1
    options_of "$name" >>"$begun/.config"
    if ! { "$@" olddefconfig && nice "$@" -j"$(nproc)" && nice "$@" modules; } >>"$begun/said" 2>&1; then
        tail -n 20 "$begun/said" >&2
        rm -rf "$begun"
        cannot "the kernel $name does not build (above)"
    fi
    if [ -f "$(built_image "$name")" ]; then
        # A concurrent run was faster.
        rm -rf "$begun"
        return 0
    fi
    # Kernels with other options, unless another checkout may be using them.
    find "$(kernels_folder)" -maxdepth 1 -name "$name-[0-9]*" -mtime +7 -exec rm -rf {} +
    mv "$begun" "$(built_kernel "$name")"
    begun=
}
