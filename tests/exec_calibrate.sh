#!/bin/sh
# What calibrate writes can be checked, planned for and simulated.
# Usage: exec_calibrate.sh DIRECTORY_OF_BINARIES
set -eu
bin=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "FAIL: $*" >&2
    exit 1
}

"$bin/foreline" calibrate --ranks 2 --repeats 1 -o here.xml >table 2>err || fail "$(cat err)"
grep -q '^linear.backward' table || fail "no rates in $(cat table)"
grep -q '^messages' table || fail "no messages in $(cat table)"
"$bin/foreline" topology check here.xml >out 2>&1 || fail "$(cat out)"
"$bin/foreline" topology show here.xml >out 2>&1 || fail "$(cat out)"
grep -q rank1 out || fail "no rank1 in $(cat out)"
"$bin/foreline" plan --algorithm balanced --model gpt-tiny --platform here.xml --stages 2 -o p.json >out 2>&1 ||
    fail "$(cat out)"
"$bin/foreline" simulate p.json >out 2>&1 || fail "$(cat out)"
status=0
"$bin/foreline" calibrate --ranks 0 >out 2>&1 || status=$?
[ $status = 1 ] || fail "--ranks 0: exit $status"
status=0
"$bin/foreline" calibrate --device cuda >out 2>&1 || status=$?
[ $status = 2 ] || fail "--device cuda: exit $status"
cat table
