#!/bin/sh
# Do the calls that the NCCL transport makes agree with what is predicted? For plans of all
# parallelisms: the collectives of `foreline simulate` (kind, members, bytes as nccl-tests count
# them, how often in an iteration) against the calls of one step in the double's log. What only
# NCCL knows, its choice between ring and tree, is not in the calls; with --collective ring the
# rounds of sends are counted instead. Usage: double_calls.sh BIN
set -eu
bin=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
unset RANK WORLD_SIZE LOCAL_RANK DOUBLE_SEED DOUBLE_FAULTS DOUBLE_RACES
FORELINE_WORKER=$bin/foreline-worker-double OPENBLAS_NUM_THREADS=1 TMPDIR=$work
export FORELINE_WORKER OPENBLAS_NUM_THREADS TMPDIR

fail() {
    echo "FAIL: $*" >&2
    exit 1
}

# KIND MEMBERS BYTES CALLS of an iteration, sorted; equal calls of different purposes are one row.
sum_up() {
    awk '{ calls[$1 " " $2 " " $3] += $4 } END { for (k in calls) print k, calls[k] }' | sort
}
predicted() {
    tr -d '\n' <a.json | sed 's/.*"collectives": \[\([^]]*\)\].*/\1/' | tr '}' '\n' | sed -n \
        's/.*"kind": "\([^"]*\)", "members": \([0-9]*\), "bytes": \([0-9]*\), "calls": \([0-9.e+]*\).*/\1 \2 \3 \4/p' |
        sum_up
}
# Lines: rank, step, members, call, peer, count, type, stream. What of a scatter or gather is left
# over when members do not divide it is summed or spread by one more call, right after it.
called() {
    cat log.[0-9]* | grep -v '^#' | awk -F '\t' -v step=1 '
        function put() { if (kind != "") print kind, n, bytes * size, 1 / n; kind = "" }
        $2 != step { next }
        { size = $7 ~ /16/ ? 2 : $7 ~ /8/ ? 1 : 4; members = split($3, ignored, ",") }
        $4 == "Recv" { next }
        $4 == "Send" { put(); print "send", 2, $6 * size, 1; next }
        kind == "reduce-scatter" && $4 == "AllReduce" && $6 < n && $1 $3 == where { bytes += $6; put(); next }
        kind == "all-gather" && $4 == "Broadcast" && $1 $3 == where { bytes += $6; put(); next }
        { put(); n = members; where = $1 $3 }
        $4 == "AllReduce" { kind = "all-reduce"; bytes = $6; put() }
        $4 == "ReduceScatter" { kind = "reduce-scatter"; bytes = $6 * n }
        $4 == "AllGather" { kind = "all-gather"; bytes = $6 * n }
        END { put() }' | awk '{ printf "%s %s %d %.6f\n", $1, $2, $3, $4 }' | sum_up
}
run() { # run OPTIONS...: the log of two steps
    rm -f log.*
    DOUBLE_LOG=$work/log timeout 60 "$bin/foreline" run p.json --device cuda --steps 1 --warmup 1 \
        "$@" -o m.json >out 2>&1 || fail "$plan: $(tail -n 3 out)"
}

plans=0
while read -r bits plan; do
    "$bin/foreline" plan --algorithm balanced --platform laptop --microbatches 4 $plan \
        --model "gpt-tiny:layers=4,hidden=32,heads=4,tokens=32,bits=$bits" -o p.json >out 2>&1 ||
        fail "$plan: $(cat out)"
    "$bin/foreline" simulate p.json -o a.json >/dev/null
    run
    predicted >predicted && called >called
    [ -s called ] || fail "$plan: no calls"
    diff predicted called >differences || fail "$plan, $bits bits: predicted (<), called (>): $(cat differences)"
    plans=$((plans + 1))
done <<'PLANS'
32 --stages 2
32 --stages 4 --schedule zb-h1
16 --stages 2 --chunks 2 --schedule interleaved
32 --replicas 2 --stages 1
32 --replicas 4 --stages 1 --bucket 20KB
16 --replicas 2 --stages 2 --bucket 20KB
32 --replicas 4 --stages 1 --zero 1
16 --replicas 3 --stages 1 --zero 2 --bucket 30KB
32 --replicas 2 --stages 2 --zero 3
16 --replicas 4 --stages 1 --zero 3
32 --tensor-parallel 2 --stages 1
16 --tensor-parallel 4 --stages 1
16 --tensor-parallel 2 --stages 2
32 --replicas 2 --tensor-parallel 2 --stages 1 --bucket 20KB
PLANS
echo "$plans plans: the calls are those predicted"
