#!/bin/sh
# Ctrl-C during a long simulation on SimGrid: what is known is printed, no file is written, nobody
# is left behind, and the status is that of a process that SIGINT has ended. Usage: ... FORELINE
set -u
tool=$1
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 2
failed=0
complain() {
    echo "$*"
    failed=1
}
"$tool" plan --algorithm uniform --model gpt2-small --platform two-racks --stages 4 --replicas 4 \
    --microbatches 100000 -o p.json >/dev/null 2>&1 || complain "no plan"
"$tool" simulate p.json --no-fold --ranks 1 -o m.json >out 2>err &
pid=$!
child=""
while [ -z "$child" ] && kill -0 "$pid" 2>/dev/null; do # the one that runs the program stays
    sleep 0.1
    first=$(ps -o pid= --ppid "$pid" | tr -d ' ')
    sleep 0.5
    [ -n "$first" ] && [ "$first" = "$(ps -o pid= --ppid "$pid" | tr -d ' ')" ] && child=$first
done
kill -INT "$pid"
wait "$pid"
status=$?
[ "$status" = 130 ] || complain "status $status, expected 130: $(cat err)"
grep -q '^engine  *analytic$' out || complain "no analytic prediction: $(cat out)"
grep -q '^warning: interrupted: simgrid had completed [0-9]* % of [0-9]* ops' err ||
    complain "the share that was done is not told: $(cat err)"
[ -e m.json ] && complain "a file was written"
kill -0 "$child" 2>/dev/null && complain "the child is still there"
exit $failed
