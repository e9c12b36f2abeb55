#!/bin/sh
# What `simulate` writes as JSON: the breakdown adds up, the verdict about memory, folding, calls;
# and --fail-on-oom still writes its files. Usage: simulate_json.sh FORELINE
set -u
tool=$1
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 2
failed=0
complain() {
    echo "$*"
    failed=1
}
expect() { # FILE PATTERN...
    file=$1
    shift
    for pattern; do
        grep -q -- "$pattern" "$file" || complain "$file: no $pattern"
    done
}
plan() {
    "$tool" plan --algorithm balanced --platform two-racks --stages 2 "$@" >/dev/null 2>&1 ||
        complain "failed: plan $*"
}

plan --model gpt2-small --replicas 2 --microbatches 4000 -o long.json
for engine in analytic simgrid; do
    "$tool" simulate long.json --engine $engine --json -o f.json >p.json 2>err || complain "$(cat err)"
    cmp f.json p.json || complain "-o and --json differ"
    expect f.json '"folded": true' '"microbatches": 4000' '"microbatches_simulated": 16' \
        '"fits": true' '"bottleneck": "compute' '"algorithm": "ring"' '"kind": "send"' '"flops": 1.072e+15'
    "$tool" simulate long.json --engine $engine --no-fold -o w.json >/dev/null 2>err
    expect w.json '"folded": false' '"microbatches_simulated": 4000'
    for file in f w; do # the rows add up to the iteration
        { grep '"iteration_s"' $file.json; grep '"breakdown"' $file.json; } |
            tr '{}",' '    ' | awk '
            NR == 1 { iteration = $3 }
            NR == 2 { for (i = 1; i <= NF; i++) if ($i + 0 > 0) sum += $i }
            END { if (!(iteration > 0 && (sum / iteration - 1) ^ 2 < 1e-18)) {
                      print "rows " sum ", iteration " iteration; exit 1 } }' ||
            complain "$engine $file: the breakdown does not add up"
    done
    a=$(sed -n 's/.*"iteration_s": \([0-9.e-]*\).*/\1/p' f.json)
    b=$(sed -n 's/.*"iteration_s": \([0-9.e-]*\).*/\1/p' w.json)
    awk "BEGIN { exit !(($a / $b - 1) ^ 2 < 1e-16) }" || complain "$engine: folded $a, in full $b"
done
"$tool" simulate long.json --engine analytic --jitter 1% -o j.json >/dev/null 2>err
expect j.json '"folded": false' '"not_folded": "jitter'
"$tool" simulate long.json --engine analytic --jitter 1% -o k.json >/dev/null 2>err
sed -e /cpu_s/d -e /provenance/d j.json >j
sed -e /cpu_s/d -e /provenance/d k.json >k
cmp j k || complain "the same seed gives another result"

plan --model gpt2-xl:tokens=4096 --microbatches 8 --microbatch-size 64 -o big.json
"$tool" simulate big.json --engine analytic --fail-on-oom -o o.json --trace t.json >/dev/null 2>err
[ $? = 1 ] || complain "--fail-on-oom does not fail"
expect o.json '"fits": false' '"memory_bytes": 42949672960' '"stash_bytes"'
expect err 'out of memory: rank 0 (r0n0g0) needs 6.255 TiB'
[ -s t.json ] || complain "no trace"
"$tool" simulate big.json --engine analytic >/dev/null 2>err || complain "fails without --fail-on-oom"
exit $failed
