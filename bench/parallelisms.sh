#!/bin/sh
# Every way to spread a model over two ranks of this machine, predicted and run for real: calibrates
# with two ranks, plans, validates. About 3 minutes; the machine should be idle.
# Usage: bench/parallelisms.sh DIRECTORY_OF_BINARIES OUTPUT [MODEL [REPEATS]]
set -eu
tool=$(cd "$1" && pwd)/foreline
mkdir -p "$2"
cd "$2"
model=${3:-gpt-tiny:layers=4,hidden=128,tokens=128}
repeats=${4:-5}

"$tool" calibrate --device cpu --ranks 2 -o here.xml
plan() { # plan NAME OPTIONS...
    name=$1
    shift
    "$tool" plan --algorithm balanced --model "$model" --platform here.xml --microbatches 8 \
        --microbatch-size 4 "$@" -o "$name.json" >>plans.txt 2>&1
}
: >plans.txt
plan pipeline-1f1b --stages 2
plan pipeline-gpipe --stages 2 --schedule gpipe
plan pipeline-zb-h1 --stages 2 --schedule zb-h1
plan pipeline-interleaved --stages 4 --chunks 2 --schedule interleaved
plan pipeline-zb-v --stages 4 --schedule zb-v
plan pipeline-dualpipe-v --stages 4 --schedule dualpipe-v
plan pipeline-pipedream --stages 2 --schedule pipedream
plan pipeline-recompute-full --stages 2 --recompute full
plan pipeline-recompute-selective --stages 2 --recompute selective
plan data-parallel --stages 1 --replicas 2
plan data-parallel-buckets --stages 1 --replicas 2 --bucket 512KiB
plan data-parallel-zero1 --stages 1 --replicas 2 --zero 1
plan data-parallel-zero2 --stages 1 --replicas 2 --zero 2
plan data-parallel-zero3 --stages 1 --replicas 2 --zero 3
plan data-parallel-zero3-kept --stages 1 --replicas 2 --zero 3 --zero-keep
plan context-parallel-ring --stages 1 --replicas 2 --context-parallel 2 --context-exchange ring
plan context-parallel-alltoall --stages 1 --replicas 2 --context-parallel 2 --context-exchange alltoall
plan tensor-parallel --stages 1 --tensor-parallel 2
plan tensor-parallel-sequence --stages 1 --tensor-parallel 2 --sequence-parallel
plan tensor-parallel-recompute --stages 1 --tensor-parallel 2 --recompute full

case $("$tool" model show "$model" --json) in
*'"experts"'*) # which do not share sequences, nor divide tokens
    plan experts-over-replicas --stages 1 --replicas 2 --expert-parallel 2
    plan experts-over-replicas-zero2 --stages 1 --replicas 2 --expert-parallel 2 --zero 2
    plan experts-over-replicas-zero3 --stages 1 --replicas 2 --expert-parallel 2 --zero 3
    rm -f context-*.json tensor-parallel-sequence.json
    ;;
esac

"$tool" validate ./*-*.json --steps 10 --repeats "$repeats" -o validation
