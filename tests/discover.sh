#!/bin/sh
# topology discover describes this machine, and a plan for it runs here for real.
# Usage: discover.sh FORELINE
set -eu
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
cd "$dir"
"$1" topology discover -o here.xml >said
grep -q '^discovery: [0-9]* devices\{0,1\} on 1 node' said
"$1" topology check here.xml
if grep -q 'no GPU here' said; then
    head -1 said | grep -q 'joined by memory'
    grep -q '4 GiB of memory' said # what the platform has
    grep -q '"memory" value="4294967296B"' here.xml
    grep -q '<router id="memory' here.xml
    [ "$(grep -ci 'nvlink\|nvswitch' here.xml)" = 0 ]
    [ "$(grep -c 'PCIe\|ports:' said)" = 0 ]
    status=0
    "$1" topology discover --nic 1GBps 2>refused || status=$?
    [ $status = 2 ]
    grep -q 'has no GPU' refused
fi
"$1" topology discover 2>unwritten >unsaid
cmp said unsaid
grep -q '^no platform was written; .*-o' unwritten
stages=$(sed -n 's/^discovery: \([0-9]*\) .*/\1/p' said)
[ "$stages" -le 2 ] || stages=2
"$1" plan --model mlp --platform here.xml --algorithm uniform --stages "$stages" -o plan.json >/dev/null
"$1" run plan.json --steps 2 --warmup 1 >/dev/null
