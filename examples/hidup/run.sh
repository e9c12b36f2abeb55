#!/bin/sh
# Sweep the experiments of HiDup's paper and draw a figure of each section. `sh run.sh all` draws noise.svg and search.svg, too.
set -e
draw() { # draw NAME OPTION...
    name=$1
    shift
    foreline sweep "$name.yml" >"$name.txt"
    foreline plot throughput "hidup-$name.db" "$@" -o "$name.svg"
}
draw scaling --x GPUs --by system --where model=rmoe
draw machine --x GPUs --by system --where model=vmoe
draw bandwidth --x 'platform.*nic*.bandwidth' --by system --where model=rmoe --xlabel 'port of a node (Gb/s)'
draw batch --x samples --by system --where model=rmoe --xlabel 'samples a GPU'
draw fp16 --x numbers --by system --where model=rmoe,GPUs=8 --xlabel 'samples per second'
foreline sweep slots.yml >slots.txt
cat scaling.txt

# Where an iteration of rmoe on 16 GPUs goes.
iteration() { # iteration NAME OPTION...
    name=$1
    shift
    foreline plan --platform hidup-8xv100@devices=16 --batch 512 "$@" -o plan.json >plan.txt
    foreline simulate plan.json --engine analytic -o "$name.json" >plan.txt
}
replicas='--algorithm balanced --stages 1 --replicas 16 --microbatch-size 32'
iteration HiDup --algorithm spmd --model rmoe:ops=1,experts=32
iteration whole --algorithm spmd --overlap none --model rmoe:ops=1,experts=32
# shellcheck disable=SC2086 # words
iteration DeepSpeed --model rmoe:experts=32,group=32 $replicas --expert-parallel 16
# shellcheck disable=SC2086
iteration FastMoE --model rmoe:experts=32,capacity=0,einsum=0 $replicas --expert-parallel 16
foreline plot breakdown HiDup.json whole.json DeepSpeed.json FastMoE.json -o breakdown.svg
[ "${1:-}" = all ] || exit 0

draw noise --x noise --by where --y relative_time
# How long a search takes: layers and devices, the least of five.
printf 'layers\tGPUs\tsearch_s\n' >times.tsv
for layers in 2 4 8 16 32; do
    for gpus in 8 16 32 64; do
        for _ in 1 2 3 4 5; do
            foreline plan --algorithm spmd --compat-hidup --model "tmoe:layers=$layers" --devices "$gpus" --json |
                sed -n "s/.*\"cpu_s\": \([-0-9.e]*\).*/$layers\t$gpus\t\1/p"
        done | sort -gk 3 | head -n 1 >>times.tsv
    done
done
foreline plot throughput times.tsv --x layers --y search_s --by GPUs -o search.svg
