#!/bin/sh
# Times of branching models in two stages here, measured beside predicted: the machine and the ops are measured
# first, then four plans each are predicted and run. Wants two idle cores; the reports say how busy they were.
# Usage: bench/graph_times.sh BIN_DIR DIRECTORY
set -eu
tool=$(cd "$1" && pwd)/foreline
examples=$(cd "$(dirname "$0")/../examples/partitioners-on-branching-models" && pwd)
mkdir -p "$2"
cd "$2"
"$tool" calibrate --ranks 2 -o here.xml >calibrated.txt
for model in two-towers:32 image-and-text:2; do
    size=${model#*:} model=${model%:*}
    "$tool" model profile "$examples/$model.json" --batch "$size" --ranks 2 -o "$model.json"
    for algorithm in auto graph graph:levels igraph:mincut; do
        knobs=""
        [ $algorithm != auto ] || knobs="--replicas 1 --tensor-parallel 1 --executable"
        # shellcheck disable=SC2086 # words
        "$tool" plan --model "$model.json" --platform here.xml --stages 2 --algorithm $algorithm $knobs \
            --microbatches 8 --microbatch-size "$size" --granularity op \
            -o "$model.$(echo $algorithm | tr : -).json" >/dev/null
    done
    "$tool" validate "$model".*.json --compute real --steps 8 --repeats 3 -o "$model.validation"
done
