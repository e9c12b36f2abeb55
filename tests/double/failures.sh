#!/bin/sh
# What fails on the double ends the run within $most_ms (5 s, start-up included), with status 1 and a line that names the rank; no process and no
# file of it stays. A peer is killed at one of its NCCL calls, a GPU fails at one of its calls, NCCL refuses one.
# Usage: failures.sh DIRECTORY_OF_BINARIES
set -eu
bin=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
. "$here/common.sh"
export DOUBLE_MARK="$work"
bad=0
fail() {
    echo "FAIL: $*" >&2
    bad=1
}
processes() { # that still run with our mark
    grep -lzsx "DOUBLE_MARK=$work" /proc/[0-9]*/environ | sed 's|/proc/\([0-9]*\)/.*|\1|' | while read -r p; do
        case $(cat "/proc/$p/comm" 2>/dev/null) in foreline*) echo "$p" ;; esac
    done
}
ends() { # ends FAULT RANK TRANSPORT OPTIONS...: rank named, in time
    fault=$1 rank=$2 over=$3
    shift 3
    ${planner:-plan} "$@" || fail "$*: $(cat plan.out)"
    begin=$(date +%s%N)
    status=0
    DOUBLE_FAULTS=$fault@$rank run cuda "$over" || status=$?
    took_ms=$((($(date +%s%N) - begin) / 1000000))
    what="$fault of rank $rank over $over, $*"
    [ $status = 1 ] || fail "$what: status $status"
    [ $took_ms -lt "${most_ms:-5000}" ] || fail "$what: $took_ms ms"
    grep '^foreline run: ' err | grep -q "rank $rank " || fail "$what: $(why)"
    [ -z "$(processes)" ] || fail "$what: processes stay"
    [ -z "$(ls tmp)" ] || fail "$what: files stay: $(ls tmp)"
}
for n in 1 5 20; do
    ends kill:$n 1 nccl --stages 2
    ends kill:$n 2 nccl --stages 2 --tensor-parallel 2
done
for n in 1 3; do
    ends nccl-error:$n 0 nccl --stages 1 --replicas 3
done
for n in 40 300; do
    ends cuda-error:$n 1 nccl --stages 2
    ends cuda-error:$n 0 tcp --stages 1 --replicas 2
done
model=$here/../models/mixtral.json # a host that waits to be told of rows for its experts
for n in 2 9; do
    ends kill:$n 1 nccl --stages 1 --replicas 2 --expert-parallel 2
done
strategy() { # in halves, whose conversions are under way beside each other
    "$bin/foreline" plan --algorithm spmd --platform node:gpus=4 --overlap full --devices 2 --model "$1" -o p.json >plan.out 2>&1
}
planner=strategy
for n in 3 8; do
    ends kill:$n 1 nccl tmoe:layers=2,batch=8,seq=6,hidden=16,inner=24,heads=4,experts=4
    ends cuda-error:$((100 * n)) 0 nccl tmlp:layers=3,batch=8,seq=4,hidden=12
done
exit $bad
