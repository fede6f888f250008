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
# pointers, wrong conditions. It reads the module for all processors at once. The planted errors must be reported, and
# nothing else.
coccinelle() {
    have spatch || { skipped "coccinelle: not installed"; return 0; }
    semantic_patches
    [ -n "$source" ] || return 0
    say "checking fathom with Coccinelle"
    checked=$work/coccinelle/module
    mkdir -p "$checked"
    cp -R driver/*.[ch] driver/include driver/test/static/planted.c "$checked"
    # Two of them need OCaml's compiler.
    (cd "$source" && grep -rl '^virtual report' scripts/coccinelle | xargs grep -L '^@.*script:ocaml' | sort) >"$work/coccinelle/patches"
    while read -r patch; do
        nice spatch -D report --very-quiet --no-show-diff --cocci-file "$source/$patch" --dir "$checked" \
            -I "$checked/include/uapi" $(sed -n 's/.*Options: //p' "$source/$patch") \
            </dev/null 2>"$work/coccinelle/wrong" || echo "$patch fails: $(cat "$work/coccinelle/wrong")"
    done <"$work/coccinelle/patches" >"$work/coccinelle/said"
    for planted in 'planted.c:18:.*preceding lock' 'planted.c:21:.*preceded by free' 'planted.c:27:.*NULL but dereferenced' \
        'planted.c:35:.*compared with zero'; do
        grep -q "$planted" "$work/coccinelle/said" && continue
        cat "$work/coccinelle/said" >&2
        echo "driver/test/run: Coccinelle does not report the planted error $planted (above: what it reports)" >&2
        exit 1
    done
    if grep -v -F "$checked/planted.c" "$work/coccinelle/said" >&2; then
        echo "driver/test/run: Coccinelle has reports (above)" >&2
        exit 1
    fi
}
