#!/bin/sh
# Run one case: CASE/args are the arguments of one or more foreline calls, a line each; CASE/input/
# holds files to start with. Compared: standard output of all calls with CASE/output (absent: not
# looked at), standard error with CASE/error (absent: must be empty), the last exit status with
# CASE/status (absent: 0), and the files left behind with CASE/files (absent: none).
# CASE/lines: standard output has these lines in this order, and may have others, so that a new row of
# a table breaks nothing. For the same reason lists of names in messages, and rows of commands in
# usages, are cut from both before they are compared, and how many plans a search of theirs tried.
# With RENEW=1 in the environment the files of the case are written instead (output only if it is
# there, so touch it first in a new case); read the difference before you commit it.
# Usage: cli.sh FORELINE CASE
set -u
cut_lists() {
    sed -E -e 's/((;|\?) there are|known:|shipped are) .*/\1 .../' -e '/^  [a-z]+ +[a-z]/d' "$@"
}
cut_counts() {
    sed -E -e '/^[0-9]+ plans of /s/[0-9]+/N/g' -e '/^  of them [0-9]+ plans/s/[0-9]+/N/g' \
        -e 's/^(  [a-z]+ +)[0-9]+ (plans|schedules|shapes)/\1N \2/' -e 's/^(  [a-z]+) +N/\1 N/' "$@"
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
if [ "${RENEW:-}" = 1 ]; then
    [ ! -f "$case/output" ] || cp "$dir/output" "$case/output"
    [ -s "$dir/error" ] && cut_lists "$dir/error" >"$case/error" || rm -f "$case/error"
    [ "$status" != 0 ] && echo "$status" >"$case/status" || rm -f "$case/status"
    [ -s "$dir/files" ] && cp "$dir/files" "$case/files" || rm -f "$case/files"
    exit 0
fi
failed=0
if [ -f "$case/lines" ]; then
    awk 'NR == FNR { want[++n] = $0; next } $0 == want[k + 1] { k++ }
         END { if (k < n) { print "not in the output: " want[k + 1]; exit 1 } }' \
        "$case/lines" "$dir/output" || failed=1
fi
if [ -f "$case/output" ]; then
    cut_counts "$case/output" >"$dir/expected"
    cut_counts "$dir/output" | diff -u "$dir/expected" - || failed=1
fi
if [ -f "$case/error" ]; then
    cut_lists "$dir/error" | diff -u "$case/error" - || failed=1
elif [ -s "$dir/error" ]; then
    echo "unexpected on standard error:"
    cat "$dir/error"
    failed=1
fi
expected=0
[ -f "$case/status" ] && expected=$(cat "$case/status")
if [ "$status" != "$expected" ]; then
    echo "exit status $status, expected $expected"
    failed=1
fi
if [ -f "$case/files" ]; then
    diff -u "$case/files" "$dir/files" || failed=1
elif [ -s "$dir/files" ]; then
    echo "files left behind:"
    cat "$dir/files"
    failed=1
fi
exit $failed
