#!/bin/sh
# foreline-lab: `foreline lab` and the options that it took over answer the same, and where it or foreline-explore is not
# installed one line says so. Usage: lab.sh FORELINE
set -u
foreline=$1
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 2
failed=0
fail() {
    echo "$*"
    failed=1
}

mkdir bin && cp "$foreline" bin/foreline && ln -s "${foreline%/*/*}/share" share || exit 2
for words in 'lab scoreboard x.json' 'lab --help' 'validate --published x.json' 'calibrate --kernels x.csv' explore; do
    # shellcheck disable=SC2086 # words
    bin/foreline $words >out 2>err
    status=$?
    if [ $status != 1 ] || [ -s out ] || [ "$(wc -l <err)" != 1 ] || ! grep -q 'foreline-[a-z]* is not installed' err; then
        fail "without its program, $words: status $status: $(cat err)"
    fi
done
bin/foreline validate -o out.d -- --published >out 2>err # behind "--" it is a name of a file
grep -q 'foreline validate: --published: No such file' err || fail "behind '--': $(cat err)"
[ -x "${foreline%/*}/foreline-lab" ] || exit $failed

cp "$here/cli/lab-kernels/input/products.csv" "$here/cli/lab-scoreboard/input/small.json" .
same() { # same "ARGUMENTS" "ARGUMENTS OF THE OLD NAME"
    # shellcheck disable=SC2086 # words
    "$foreline" $1 >new 2>&1 || fail "$1: $(cat new)"
    # shellcheck disable=SC2086 # words
    "$foreline" $2 >old 2>&1 || fail "$2: $(cat old)"
    cmp new old || fail "$1 and $2 differ"
}
same 'lab scoreboard small.json --framework foreline' 'validate --published small.json --framework foreline'
same 'lab scoreboard small.json --fit' 'validate small.json --fit --published'
same 'lab kernels products.csv --dtype bf16' 'calibrate --kernels products.csv --dtype bf16'
same 'lab kernels products.csv --dtype bf16' 'calibrate --dtype bf16 --kernels=products.csv'
exit $failed
