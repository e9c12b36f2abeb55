#!/bin/sh
# Strategies of HiDup on an emulated slow network, in halves that take turns and whole: what is
# predicted, what is measured, and how much of the communication went on beside computation.
# With COMPUTE real, operators are computed, and predicted by what `model profile` measures of them on as
# many ranks at the same time, and by how far its repetitions lie apart (the mean of 16 samples of such jitter:
# who is ready waits for the other): on an idle machine with a core for each rank.
# Usage: bench/strategies.sh FORELINE [DILATE [STEPS [COMPUTE [RANKS]]]]; needs what `foreline emulate --check` wants.
set -eu
tool=$(realpath "$1") dilate=${2:-10} steps=${3:-3} compute=${4:-paced} counts=${5:-2 4}
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
cd "$dir"
# HOSTS: each on a link of 100 Mbit/s to one switch
platform() {
    echo "<?xml version='1.0'?><!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">"
    echo '<platform version="4.1"><zone id="z" routing="Dijkstra"><router id="s"/>'
    for h in $1; do echo "<host id=\"$h\" speed=\"4Gf\"><prop id=\"type\" value=\"cpu\"/></host>"; done
    for h in $1; do
        echo "<link id=\"$h-s\" bandwidth=\"100Mbps\" latency=\"50us\" sharing_policy=\"SPLITDUPLEX\"/>"
    done
    for h in $1; do
        echo "<route src=\"$h\" dst=\"s\"><link_ctn id=\"$h-s\" direction=\"UP\"/></route>"
    done
    echo '</zone></platform>'
}
platform 'a b' >2.xml
platform 'a b c d' >4.xml
cat >row.py <<'END'
import json, sys
name = sys.argv[1]
measured, trace, *predicted = map(json.load, map(open, sys.argv[2:]))
p, m = sum(x["iteration_s"] for x in predicted) / len(predicted), measured["iteration_s"]
events = [e for e in trace["traceEvents"] if e.get("ph") == "X"]
all = beside = 0
for rank in {e["pid"] for e in events}:
    own = [(e["ts"], e["ts"] + e["dur"], e["name"]) for e in events if e["pid"] == rank]
    computes = [e for e in own if e[2].lstrip("0123456789")[:1] in "FBU"]
    for start, end, _ in [e for e in own if e[2].lstrip("0123456789")[:1] in "AR"]:
        all += end - start
        beside += sum(max(0, min(end, c[1]) - max(start, c[0])) for c in computes)
print(f"| {name} | {1e3 * p:.1f} | {1e3 * m:.1f} | {100 * (m / p - 1):+.1f} | {100 * beside / all:.0f} |", flush=True)
END
echo '| ranks, model, halves | predicted ms | measured ms | error % | communication beside computation % |'
echo '|---|---|---|---|---|'
for ranks in $counts; do
    for model in tmlp:layers=3,batch=16,seq=16,hidden=256 \
        ttransformer:layers=1,batch=16,seq=16,hidden=192,inner=512,heads=4 \
        tmoe:layers=2,batch=16,seq=16,hidden=192,inner=384,heads=4,experts=4; do
        given=$model jitter=0 samples=1
        if [ "$compute" = real ]; then
            for batch in 8 16; do # halves and the whole
                "$tool" model profile $given --batch $batch --ranks $ranks --repeats 9 -o profiled.json 2>said
                given=profiled.json
            done
            jitter=$(sed -n 's/.*deviation is \([0-9]*\) %.*/\1/p' said) samples=16
        fi
        for overlap in full none; do
            "$tool" plan --algorithm spmd --overlap $overlap --model $given --platform $ranks.xml \
                -o p.json >/dev/null
            for seed in $(seq $samples); do
                "$tool" simulate p.json --engine analytic --jitter $jitter% --seed $seed -o s$seed.json >/dev/null 2>&1
            done
            "$tool" emulate --engine netns p.json --compute $compute --dilate "$dilate" \
                --steps "$steps" --warmup 1 -o m.json --trace t.json >/dev/null 2>err || cat err >&2
            python3 row.py "$ranks, ${model%%:*}, $overlap" m.json t.json $(seq -f s%g.json $samples)
        done
    done
done
