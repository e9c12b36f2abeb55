#!/bin/sh
# SimGrid's MPI under the real executor says what the SimGrid engine says: within 1e-6 for pipelines
# of 4, 16 and 64 ranks, within 1 % with ring all-reduces. Each rank computes longer than its
# messages take (docs/reference/emulation.md). Links that are shared: test_smpi.c. Usage: emulate_smpi.sh FORELINE
set -eu
tool=$1
[ -f "$(dirname "$tool")/foreline-worker-smpi.so" ] && command -v smpirun >/dev/null || {
    echo "skipped: smpirun or foreline-worker-smpi.so is missing (libsimgrid-dev)"
    exit 77
}
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
cd "$dir"
fail() {
    echo "FAIL: $*" >&2
    exit 1
}

# Two switches joined by a link of BANDWIDTH; 2 N hosts, by turns under one and under the other with
# a stride of STRIDE: 1 puts every boundary between stages on the link. All routes as long.
hosts() { # hosts N STRIDE BANDWIDTH
    echo "<?xml version='1.0'?><!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">"
    echo '<platform version="4.1"><zone id="z" routing="Floyd">'
    echo '<router id="s0"/><router id="s1"/>'
    echo "<link id=\"up\" bandwidth=\"$3\" latency=\"5us\" sharing_policy=\"SPLITDUPLEX\"/>"
    k=0
    while [ $k -lt $((2 * $1)) ]; do
        echo "<host id=\"h$k\" speed=\"50Gf\"><prop id=\"memory\" value=\"4GiB\"/></host>"
        echo "<link id=\"l$k\" bandwidth=\"12.5GBps\" latency=\"5us\" sharing_policy=\"SPLITDUPLEX\"/>"
        k=$((k + 1))
    done
    k=0
    while [ $k -lt $((2 * $1)) ]; do
        echo "<route src=\"h$k\" dst=\"s$((k / $2 % 2))\"><link_ctn id=\"l$k\" direction=\"UP\"/></route>"
        k=$((k + 1))
    done
    echo '<route src="s0" dst="s1"><link_ctn id="up" direction="UP"/></route>'
    echo '</zone></platform>'
}

# What MPI cannot count is refused with what can be done instead.
"$tool" plan --algorithm balanced --model gpt3-13b --platform two-racks --stages 2 --microbatches 2 \
    --microbatch-size 256 -o p.json >plan.out 2>&1 || fail "plan: $(cat plan.out)"
"$tool" emulate p.json >emulate.out 2>&1 && fail "messages of more than 2 GiB were emulated"
grep -q 'message of [0-9]* bytes is larger than MPI supports (2147483647), so the plan can be simulated' emulate.out ||
    fail "emulate: $(cat emulate.out)"

field() { # field KEY FILE
    sed -n "s/.*\"$1\": *\([0-9.e+-]*\).*/\1/p" "$2" | head -n 1
}
agree() { # agree WITHIN PLATFORM OPTIONS...
    within=$1 platform=$2
    shift 2
    "$tool" plan --algorithm balanced --platform "$platform" --microbatch-size 4 "$@" \
        -o p.json >plan.out 2>&1 || fail "plan $*: $(cat plan.out)"
    "$tool" simulate p.json --engine simgrid --json >s.json 2>err || fail "simulate $*: $(cat err)"
    "$tool" emulate p.json --json >e.json 2>err || fail "emulate $*: $(cat err)"
    s=$(field iteration_s s.json) e=$(field iteration_s e.json)
    echo "$*: simgrid $s s, smpi $e s"
    awk -v s="$s" -v e="$e" -v w="$within" \
        'BEGIN { d = (e - s) / s; exit !(s > 0 && d < w && d > -w) }' || fail "more than $within apart"
}
model=gpt-tiny:layers=20,hidden=128,tokens=128
hosts 32 32 12.5GBps >dc.xml
for stages in 4 16 64; do
    agree 1e-6 dc.xml --model $model --schedule 1f1b --stages $stages --microbatches $stages
done
# Replicas sum gradients on rings; of two stages, all messages share the link.
hosts 4 4 1GBps >pair.xml
agree 1e-2 pair.xml --model $model --schedule 1f1b --stages 1 --replicas 4 --microbatches 8
agree 1e-2 pair.xml --model $model --schedule 1f1b --stages 2 --replicas 4 --microbatches 32

grep -q '"engine": "smpi"' e.json || fail "engine: $(grep engine e.json)"
status=0
"$tool" emulate p.json --engine netsim 2>err || status=$?
[ $status = 2 ] && [ "$(wc -l <err)" = 1 ] || fail "--engine netsim: exit $status, $(cat err)"
status=0
FORELINE_WORKER_SMPI=/nowhere.so "$tool" emulate p.json 2>err || status=$?
[ $status = 1 ] && [ "$(wc -l <err)" = 1 ] && grep -q nowhere err ||
    fail "no worker: exit $status, $(cat err)"
