# shellcheck shell=sh disable=SC2154 # variables are those of run
# Checks of the module's source, for driver/test/run. smatch would be the third; Debian has no package of it.

# Sparse: address spaces, locks, endianness. Headers of the kernel may have warnings of their own.
sparse_of() {
    have sparse || { skipped "sparse: not installed"; return 0; }
    say "checking fathom for $1 with sparse"
    nice make -s -C "$headers" M="$work/$1/fathom" ARCH="$(kernel_arch "$1")" CROSS_COMPILE="$prefix" CC="${prefix}gcc" \
        C=2 CHECK=sparse CONFIG_DEBUG_INFO_BTF_MODULES= modules >"$work/$1/said" 2>&1 || { cat "$work/$1/said" >&2; exit 1; }
    if grep -F "$work/$1/fathom/" "$work/$1/said" >&2; then
        echo "driver/test/run: sparse has warnings for $1 (above)" >&2
        exit 1
    fi
}

# Coccinelle with the kernel's own semantic patches, which come with its source: use after free, missing unlocks, null
# pointers, wrong conditions. $1 is the world. The planted errors must be reported, and nothing else.
coccinelle_of() {
    have spatch || apt_install coccinelle || { skipped "coccinelle: the module is not checked with it (reason above)"; return 0; }
    kernel_source
    say "checking fathom for $1 with Coccinelle"
    checked=$work/$1/cocci
    mkdir -p "$checked"
    cp -R "$work/$1/fathom"/*.[ch] "$work/$1/fathom/include" driver/test/static/planted.c "$checked"
    # Two of them need OCaml's compiler.
    (cd "$source" && grep -rl '^virtual report' scripts/coccinelle | xargs grep -L '^@.*script:ocaml' | sort >"$work/$1/patches"
    while read -r patch; do
        nice spatch -D report --very-quiet --no-show-diff --cocci-file "$patch" --dir "$checked" \
            -I "arch/$(kernel_arch "$1")/include" -I include -I "$checked/include/uapi" $(sed -n 's/.*Options: //p' "$patch") \
            </dev/null 2>"$work/$1/wrong" || { echo "$patch fails: $(cat "$work/$1/wrong")"; }
    done <"$work/$1/patches") >"$work/$1/said"
    for planted in 'planted.c:18:.*preceding lock' 'planted.c:21:.*preceded by free' 'planted.c:27:.*NULL but dereferenced' \
        'planted.c:35:.*compared with zero'; do
        grep -q "$planted" "$work/$1/said" && continue
        cat "$work/$1/said" >&2
        echo "driver/test/run: Coccinelle does not report the planted error $planted (above: what it reports)" >&2
        exit 1
    done
    if grep -v -F "$checked/planted.c" "$work/$1/said" >&2; then
        echo "driver/test/run: Coccinelle has reports for $1 (above)" >&2
        exit 1
    fi
}
