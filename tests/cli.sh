#!/bin/sh
# Run one case: CASE/args are the arguments of one or more foreline calls, a line each; CASE/input/
# holds files to start with. Compared: standard output of all calls with CASE/output (absent: not
# looked at), standard error with CASE/error (absent: must be empty), the last exit status with
# CASE/status (absent: 0), and the files left behind with CASE/files (absent: none).
# Compared of texts is all but their prose, as words.awk says. CASE/text: standard output to the
# letter, of one case per command. CASE/lines: standard output has these lines in this order, and may
# have others, so that a new row of a table breaks nothing. For the same reason lists of names in
# messages, and rows of commands in usages, are cut before, how many plans a search tried, and what error is expected.
# With RENEW=1 in the environment the files of the case are written instead (output or text only if
# it is there, so touch it first in a new case); read the difference before you commit it.
# Usage: cli.sh FORELINE CASE
set -u
words=$(dirname "$(readlink -f "$0")")/words.awk
cut_expected() {
    sed -E -e '/half of similar runs/s/[0-9]+ %/N %/g' -e 's/^( +similar:) [0-9]+ published runs.*/\1 N published runs of .../' "$@"
}
cut_lists() {
    cut_expected "$@" | sed -E -e 's/((;|\?) there are|known:|shipped:) .*/\1 .../' -e '/^  [a-z]+ +[a-z]/d'
}
cut_counts() {
    cut_expected "$@" | sed -E -e '/^[0-9]+ plans of /s/[0-9]+/N/g' -e '/^  of them [0-9]+ plans/s/[0-9]+/N/g' \
        -e 's/^(  [a-z]+ +)[0-9]+ (plans|schedules|shapes)/\1N \2/' -e 's/^(  [a-z]+) +N/\1 N/'
}
tool=$1
case=$2
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
mkdir "$dir/work"
[ -d "$case/input" ] && cp -r "$case/input/." "$dir/work/"
cd "$dir/work" || exit 2
ls -A >"$dir/before"
status=0
while IFS= read -r line; do
    eval "\"$tool\" $line" >>"$dir/output" 2>>"$dir/error" </dev/null
    status=$?
done <"$case/args"
ls -A | grep -vxF -f "$dir/before" >"$dir/files"
failed=0
# compare NAME FRESH: the case's file with what is as it should be (absent: nothing)
compare() {
    if [ "${RENEW:-}" = 1 ]; then
        [ -s "$2" ] && cp "$2" "$case/$1" || rm -f "$case/$1"
    elif [ -f "$case/$1" ]; then
        diff -u "$case/$1" "$2" || failed=1
    elif [ -s "$2" ]; then
        echo "unexpected $1:"
        cat "$2"
        failed=1
    fi
}
if [ -f "$case/lines" ] && [ "${RENEW:-}" != 1 ]; then
    awk -v all=1 -v golden="$case/lines" -f "$words" "$dir/output" >"$dir/all"
    awk 'NR == FNR { want[++n] = $0; next } $0 == want[k + 1] { k++ }
         END { if (k < n) { print "not in the output: " want[k + 1]; exit 1 } }' \
        "$case/lines" "$dir/all" || failed=1
fi
if [ -f "$case/text" ]; then
    cut_counts "$dir/output" >"$dir/fresh"
    compare text "$dir/fresh"
fi
if [ -f "$case/output" ]; then
    cut_counts "$dir/output" | awk -v golden="$case/output" -f "$words" >"$dir/fresh"
    compare output "$dir/fresh"
    [ -f "$case/output" ] || : >"$case/output" # renewed
fi
touch "$dir/no"
[ -f "$case/error" ] && golden="$case/error" || golden="$dir/no"
cut_lists "$dir/error" | awk -v golden="$golden" -f "$words" >"$dir/fresh"
compare error "$dir/fresh"
[ "$status" != 0 ] && echo "$status" >"$dir/status" || : >"$dir/status"
compare status "$dir/status"
compare files "$dir/files"
exit $failed
