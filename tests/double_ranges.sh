#!/bin/sh
# What a profiler is told: a range for each step and in it one for each op of the rank's list that is
# computed or posted, with the trace's labels, nested; and the trace's moment 0 is its step's begin.
# Usage: double_ranges.sh BIN NVTX_TOOL
set -eu
bin=$(realpath "$1") tool=$(realpath "$2")
. "$(dirname "$0")/double/common.sh"
export FORELINE_WORKER="$double"
fail() {
    echo "FAIL: $*" >&2
    exit 1
}
"$bin/foreline" plan --algorithm balanced --platform laptop --microbatches 4 --stages 2 --replicas 2 \
    --model gpt-tiny:layers=2,hidden=32,heads=4,tokens=32 -o p.json >out 2>&1 || fail "$(cat out)"
RANGES_LOG=$work/ranges NVTX_INJECTION64_PATH=$tool timeout 200 "$bin/foreline" run p.json --device cuda \
    --steps 2 --warmup 1 --timeout 90s --trace t.json >out 2>&1 || fail "$(cat out)"
for rank in 0 1 2 3; do
    [ "$(head -n 1 ranges.$rank)" = "domain foreline" ] || fail "rank $rank: $(head -n 1 ranges.$rank)"
    awk '$2 == "begin" { depth++; steps += depth == 1 && $3 == "step" && $4 == steps
            if (depth > 2 || (depth == 1 && $3 != "step")) bad = 1 }
        $2 == "end" { depth-- }
        END { exit bad || depth != 0 || steps != 3 }' ranges.$rank || fail "rank $rank does not nest: $(cat ranges.$rank)"
    # the labels of step 2, against those of the trace, both sorted
    awk '$2 == "begin" && $3 == "step" { step = $4; next } $2 == "begin" && step == 2 { print $3 }' \
        ranges.$rank | sort >told
    tr -d '\n' <t.json | tr '}' '\n' | sed -n \
        "s/.*\"name\": \"\([^\"]*\)\", \"cat\": \"[^\"]*\", \"ph\": \"X\".*\"pid\": $rank,.*/\1/p" | sort >traced
    [ -s traced ] || fail "no ops of rank $rank in the trace"
    diff traced told || fail "rank $rank: the trace (<) and the profiler (>) have other ops"
done
step=$(sed -n 's/.*"step": \([0-9]*\).*/\1/p' t.json | head -n 1)
zero=$(sed -n 's/.*"clock_monotonic_s": \([0-9.]*\).*/\1/p' t.json | head -n 1)
awk -v step="$step" -v zero="$zero" '$2 == "begin" && $3 == "step" && $4 == step { found = 1
        late = $1 - zero; if (late < -1e-6 || late > 0.5) { print "begins", late, "s after the trace"; exit 1 } }
    END { exit !found }' ranges.0 || fail "step $step is not where the trace begins"
