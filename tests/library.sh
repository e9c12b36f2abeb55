#!/bin/sh
# A program that links libforeline as people do, from an installed and moved prefix, plans and predicts what
# the command does: the same plan, digit for digit the same time. Usage: library.sh BUILD CC [FLAG...]
set -u
build=$1 cc=$2
shift 2
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
fail() {
    echo "$*" >&2
    exit 1
}
DESTDIR=$dir/staged cmake --install "$build" >"$dir/log" 2>&1 || fail "$(tail -n 5 "$dir/log")"
pc=$(find "$dir/staged" -name foreline.pc)
mv "$(dirname "$(dirname "$(dirname "$pc")")")" "$dir/moved" || fail "no prefix around '$pc'"
pc=$(find "$dir/moved" -name foreline.pc)
export PKG_CONFIG_PATH="${pc%/*}"
lib=$(pkg-config --variable=libdir foreline)
here=$(realpath "$(dirname "$0")")
for source in library/example tests/library_use; do
    # shellcheck disable=SC2046 # words
    "$cc" -Wall -Werror "$@" "$here/../$source.c" -o "$dir/${source##*[/_]}" \
        -pthread $(pkg-config --cflags --libs foreline) -Wl,-rpath,"$lib" || fail "$source.c does not compile"
done
cxx=$(command -v c++ || command -v g++) || fail "no compiler of C++"
# shellcheck disable=SC2046 # words
"$cxx" -std=c++11 -Wall -Wextra -Werror "$@" "$here/../library/example.cpp" -o "$dir/example_cpp" $(pkg-config --cflags --libs foreline) \
    -Wl,-rpath,"$lib" || fail "example.cpp does not compile"
foreline=$dir/moved/bin/foreline
cd "$dir" || exit 1

check() {
    "$dir/example" "$1" "$2" "$3" >said || fail "example $*: status $?"
    "$foreline" plan --model "$1" --platform "$2" --batch "$3" -o cli.json >/dev/null 2>&1 || fail "plan $*"
    "$foreline" simulate cli.json --json >simulated.json || fail "simulate $*"
    said=$(sed -n 's/.* devices, \([^ ]*\) s per.*/\1/p' said)
    asked=$(sed -n 's/^ *"iteration_s": \([^,]*\),.*/\1/p' simulated.json | head -n 1)
    awk -v a="$said" -v b="$asked" 'BEGIN { exit !(a + 0 > 0 && a + 0 == b + 0) }' ||
        fail "$*: the library says '$said', the command '$asked'"
    "$dir/example_cpp" "$1" "$2" "$3" >cpp.json 2>told || fail "example.cpp $*: $(cat told)"
    for said in cpp simulated; do
        grep -vE '"(provenance|cpu_s|plan|plan_sha256)":' $said.json >$said.bare
    done
    cmp cpp.bare simulated.bare || fail "$*: foreline_simulate() says something else"
    for plan in plan cli; do
        sed '/"provenance"/,/}/d' $plan.json >$plan.bare
    done
    cmp plan.bare cli.bare || fail "$*: another plan"
}
check gpt2-small:layers=4 leaf-spine:nodes=2,gpus=2 32
check llama3-8b:layers=2,tokens=256 node:gpus=2,type=H100 8

# The rest of the interface.
"$dir/example" gpt-tiny laptop 32 >said || fail "example for use"
"$foreline" simulate plan.json --engine analytic --json >simulated.json || fail "simulate"
"$dir/use" plan.json 16 >used || fail "$(cat used)"
# In programs whose numbers have a decimal comma, and whose capital i has a dot.
for locale in de_DE tr_TR; do
    localedef -i $locale -f UTF-8 "$dir/$locale.UTF-8" 2>/dev/null
    [ -d "$dir/$locale.UTF-8" ] || fail "no locale $locale (package locales)"
    XDG_CACHE_HOME=$dir/cache-$locale LOCPATH=$dir LC_ALL=$locale.UTF-8 "$dir/use" plan.json 16 >local || fail "$locale: $(cat local)"
    cmp used local || fail "$locale: $(cat local) instead of $(cat used)"
    # shellcheck disable=SC2251 # what is written for others has points, too
    ! grep -rqE '"[0-9]+,[0-9]+e' "$dir/cache-$locale" || fail "$locale: commas in the cache"
done
awk -v a="$(cat used)" -v b="$(sed -n 's/^ *"iteration_s": \([^,]*\),.*/\1/p' simulated.json | head -n 1)" \
    'BEGIN { exit !(a + 0 > 0 && a + 0 == b + 0) }' || fail "the library says '$(cat used)'"

# Errors are values: one line, no output besides.
"$dir/example" gpt2-smal two-racks 32 >said 2>error && fail "an unknown model was taken"
[ ! -s said ] && [ "$(wc -l <error)" = 1 ] && grep -q "did you mean 'gpt2-small'" error || fail "$(cat error)"
"$dir/example" gpt2-small two-racks many >said 2>error && fail "a batch of many"
grep -q "batch" error && [ "$(wc -l <error)" = 1 ] || fail "$(cat error)"

# Nothing but the interface is exported.
nm -D --defined-only "$lib/libforeline.so" | awk '$2 != "A" { print $3 }' | sed 's/@.*//' | sort >exported
sed -n 's/.*\(foreline_[a-z_]*\) *(.*/\1/p' "$dir/moved/include/foreline.h" |
    sort -u >declared
[ -s declared ] && cmp exported declared || fail "exported: $(tr '\n' ' ' <exported); declared: $(tr '\n' ' ' <declared)"
