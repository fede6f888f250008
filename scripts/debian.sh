# Sourced by the scripts that boot Debian's kernels in guests: fetches the kernels, and makes initramfs archives.
# $purpose is the purpose, $release the Debian release, $fetched a folder that is removed at the end.

cannot() {
    skipped "$purpose: $*"
    exit 77
}

# Fetched files are kept below a folder of the user's cache.
cache_folder() { echo "${XDG_CACHE_HOME:-${HOME:-$PWD/target}/.cache}/fathom/$1"; }

# Prints the URI from which this system's apt has Debian's archive $1.
archive() {
    env -u APT_CONFIG apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 2>/dev/null \
        | sed -n "s#/*\$##; /\/$1\$/p" | head -n 1
}

# Sets up a separate apt below $1, for the architectures $2, with the given suites or all of the release. This system's
# lists and dpkg's architectures are not changed; the network settings are the system's.
own_apt() {
    apt=$1 architectures=$2
    shift 2
    key=/usr/share/keyrings/debian-archive-keyring.gpg
    [ -f "$key" ] || cannot "no $key to verify Debian's packages with; install debian-archive-keyring"
    mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
    : >"$apt/status"
    base=${release%-backports} prefer=
    mirror=$(archive debian) secure=$(archive debian-security)
    [ -n "$mirror" ] || cannot "this system's apt knows no archive of Debian's to fetch from"
    [ $# -gt 0 ] || set -- "debian $base" "debian $base-updates" "debian-security $base-security"
    if [ "$base" != "$release" ]; then
        set -- "$@" "debian $release"
        prefer="APT::Default-Release \"$release\";"
    fi
    for suite in "$@"; do
        case $suite in
            debian-security*) from=${secure:-${mirror%debian}debian-security} ;;
            *) from=$mirror ;;
        esac
        echo "deb [arch=$(echo "$architectures" | tr ' ' ,) signed-by=$key] $from ${suite#* } main"
    done >"$apt/sources.list"
    apt-config dump Acquire | grep -iE '^Acquire::(https?|ForceIPv)' >"$apt/apt.conf" || true
    cat >>"$apt/apt.conf" <<END
APT::Architecture "${architectures%% *}";
APT::Architectures { $(printf '"%s"; ' $architectures)};
$prefer
APT::Sandbox::User "";
APT::Update::Error-Mode "any";
Acquire::Languages "none";
Acquire::Retries "2";
Dir::Etc::main "/dev/null";
Dir::Etc::parts "/dev/null";
Dir::Etc::sourcelist "$apt/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::State "$apt";
Dir::State::lists "$apt/lists";
Dir::State::status "$apt/status";
Dir::Cache "$apt/cache";
END
    APT_CONFIG=$apt/apt.conf
    export APT_CONFIG
}

# Runs one of apt's tools. If it fails because of a wrong signature or checksum, that is an error, otherwise a skip.
apt_does() {
    "$@" >"$fetched/output" 2>&1 </dev/null && return
    tail -n 15 "$fetched/output" >&2
    if grep -qiE 'GPG error|is not signed|BADSIG|NO_PUBKEY|mismatch' "$fetched/output"; then
        echo "$0: Debian's packages did not verify (above)" >&2
        exit 1
    fi
    cannot "$* failed (above): is there a network?"
}

# Prints the first dependency of $1 whose name begins with $2.
depends_on() {
    apt-cache depends "$1" | sed -n "s/^ *Depends: \($2.*\)/\1/p" | head -n 1
}

# Writes one entry of an archive that the kernel unpacks (Documentation/driver-api/early-userspace/buffer-format.rst,
# "newc"), reproducibly: name, mode, file, major and minor number.
entries=0
entry() {
    entries=$((entries + 1))
    size=0
    [ -z "${3-}" ] || size=$(($(wc -c <"$3")))
    printf '070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%s\0' "$entries" "0$2" 0 0 1 0 "$size" 0 0 \
        "${4:-0}" "${5:-0}" $((${#1} + 1)) 0 "$1"
    padding $((110 + ${#1} + 1))
    [ -z "${3-}" ] || cat "$3"
    padding "$size"
}
padding() { head -c $(((4 - $1 % 4) % 4)) /dev/zero; }

# Prints only the loaded parts of the program $1 (System V ABI, ELF64: program headers of 56 bytes, PT_LOAD is 1). Debug
# sections are six times as large, and fathom reads its own file for its build id, in the guest's time. So its build id
# differs from the file's. $2 is the required machine (e_machine: 62 x86-64, 183 AArch64).
loaded() {
    [ "$(od -An -t u2 -j 18 -N 2 "$1" | tr -d ' ')" = "$2" ] || {
        echo "$0: $1 is not a program for the guest's architecture" >&2
        exit 2
    }
    # Where the program headers are, their number and size, and the size of an address: of ELF64, or of ELF32.
    case $(od -An -t u1 -j 4 -N 1 "$1" | tr -d ' ') in
        2) at=32 number=56 row=56 address=8 ;;
        *) at=28 number=44 row=32 address=4 ;;
    esac
    at=$(od -An -t u$address -j "$at" -N $address "$1" | tr -d ' ')
    headers=$(od -An -t u2 -j "$number" -N 2 "$1" | tr -d ' ')
    # Type, offset and, in both, as fifth address, the size in the file. ELF64 has flags in the upper half of the type.
    end=$(od -An -v -w$row -t u$address -j "$at" -N $((headers * row)) "$1" \
        | awk '$1 % 4294967296 == 1 && $2 + $5 > end { end = $2 + $5 } END { print end + 0 }')
    head -c "$end" "$1"
}
