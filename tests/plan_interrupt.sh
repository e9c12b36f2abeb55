#!/bin/sh
# Ctrl-C during a search: the best plan so far is written, and the status is that of a process that SIGINT has
# ended. Usage: plan_interrupt.sh FORELINE
set -u
tool=$1
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 2
"$tool" plan --model gpt3-175b --platform rail:nodes=64,gpus=8 --batch 1536 --time-limit 300s -o p.json >out 2>err &
pid=$!
caught=0
while [ $((caught & 2)) = 0 ] && kill -0 "$pid" 2>/dev/null; do # bit 2 is SIGINT's
    caught=0x$(sed -n 's/^SigCgt:[[:space:]]*0*\([0-9a-f]\)/\1/p' "/proc/$pid/status" 2>/dev/null)
    [ "$caught" = 0x ] && caught=0
    sleep 0.1
done
sleep 1
kill -INT "$pid" 2>/dev/null
wait "$pid"
status=$?
[ "$status" = 130 ] || { echo "status $status, expected 130: $(cat err)"; exit 1; }
grep -q '^foreline plan: interrupted' err && [ ! -e p.json ] && exit 0
grep -q 'stopped by Ctrl-C' out || { echo "it does not say so: $(head -3 out)"; exit 1; }
"$tool" simulate p.json --engine analytic >/dev/null 2>err || { echo "no plan: $(cat err)"; exit 1; }
