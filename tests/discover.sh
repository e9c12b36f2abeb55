#!/bin/sh
# topology discover describes this machine, and a plan for it runs here for real.
# Usage: discover.sh FORELINE
set -eu
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
cd "$dir"
"$1" topology discover -o here.xml >said
grep -q '^discovery: [0-9]* devices\{0,1\} on 1 node' said
"$1" topology check here.xml
stages=$(sed -n 's/^discovery: \([0-9]*\) .*/\1/p' said)
[ "$stages" -le 2 ] || stages=2
"$1" plan --model mlp --platform here.xml --algorithm uniform --stages "$stages" -o plan.json >/dev/null
"$1" run plan.json --steps 2 --warmup 1 >/dev/null
