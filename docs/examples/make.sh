#!/bin/sh
# Run the examples and draw the pictures of docs/reference/sweep.md. Usage: docs/examples/make.sh FORELINE
set -eu
foreline=${1:?usage: make.sh FORELINE}
case $foreline in */*) foreline=$(cd "$(dirname "$foreline")" && pwd)/$(basename "$foreline") ;; esac
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
cd "$dir"

# draw EXAMPLE OPTIONS...
draw() {
    name=$1
    shift
    "$foreline" sweep "$here/../../examples/$name.yml"
    "$foreline" plot throughput "$name.db" "$@" -o "$name.png"
    cp "$name.png" "$here/"
}
draw microbatches
draw nvlink --where model=gpt2-xl:dtype=bf16
draw bandwidth --x platform.nic.bandwidth --where devices=32,engine=simgrid
draw clusters --by engine --where plan.stages=1,plan.tensor-parallel=1,plan.zero=1,plan.recompute=none
draw straggler
draw context --x plan.context-parallel --by plan.tensor-parallel --where engine=analytic
draw experts --x plan.expert-parallel --by plan.schedule --where engine=analytic
draw fsdp --x platform.nic --by case --where engine=analytic
draw cost --x network --by work

name=partitioners # docs/reference/partitioners.md
"$foreline" sweep "$here/../../examples/$name.yml"
"$foreline" plot regret $name.db --x model --by plan.algorithm --where platform=two-racks,engine=analytic -o $name.png
cp $name.png "$here/"

# docs/reference/jobs.md: the first of two jobs against the start of the second.
plan() { # plan MODEL FILE
    "$foreline" plan --algorithm balanced --model "$1" --platform two-racks --stages 1 --replicas 8 --microbatches 16 \
        --microbatch-size 8 --bucket 25MiB -o "$2" >plan.txt 2>&1
}
plan gpt2-medium A.json
plan gpt2-small B.json
printf 'start_ms\tjobs\tslowdown\n' >starts.tsv
jobs() { # jobs NAME SECOND PLACE
    for start in 0 50 100 150 200 250 300 350 400; do
        "$foreline" simulate A.json "$2.json" --place "$3" --start "$4=${start}ms" --json |
            sed -n 's/.*"slowdown": \([0-9.]*\).*/\1/p' | awk -v s=$start -v n="$1" 'NR == 1 { print s "\t" n "\t" $1 }' >>starts.tsv
    done
}
jobs 'A beside its like, spread' A spread A.2
jobs 'A beside B, spread' B spread B
jobs 'A beside B, packed' B packed B
"$foreline" plot throughput starts.tsv --x start_ms --y slowdown --by jobs --xlabel 'start of the second job (ms)' \
    --ylabel 'slowdown of A' -o jobs.png
cp jobs.png "$here/"

# The figures of HiDup's paper (docs/results/2026-11-23-hidup.md): hidup EXAMPLE OPTIONS...
hidup() {
    name=$1
    shift
    "$foreline" sweep "$here/../../examples/hidup/$name.yml"
    "$foreline" plot throughput "hidup-$name.db" "$@" -o "hidup-$name.png"
    cp "hidup-$name.png" "$here/"
}
hidup scaling --x GPUs --by system --where model=rmoe
hidup machine --x GPUs --by system --where model=vmoe
hidup bandwidth --x platform.*nic*.bandwidth --by system --where model=rmoe
hidup batch --x samples --by system --where model=rmoe
hidup fp16 --x numbers --by system --where model=rmoe,GPUs=8
hidup noise --x noise --by where --y relative_time

# VI.G, where an iteration goes: 16 GPUs, rmoe.
way() {
    name=$1
    shift
    "$foreline" plan --platform hidup-8xv100@devices=16 --batch 512 "$@" -o "$name.json" >plan.txt 2>&1
    "$foreline" simulate "$name.json" --engine analytic -o "hidup-$name.json" >simulate.txt 2>&1
}
each='--algorithm balanced --stages 1 --replicas 16 --microbatch-size 32'
way HiDup --algorithm spmd --model rmoe:ops=1,experts=32
way whole --algorithm spmd --overlap none --model rmoe:ops=1,experts=32
# shellcheck disable=SC2086
way DeepSpeed --model rmoe:experts=32,group=32 $each --expert-parallel 16
# shellcheck disable=SC2086
way FastMoE --model rmoe:experts=32,capacity=0,einsum=0 $each --expert-parallel 16
"$foreline" plot breakdown hidup-HiDup.json hidup-whole.json hidup-DeepSpeed.json hidup-FastMoE.json -o hidup-breakdown.png
cp hidup-breakdown.png "$here/"

# VI.J, how long a search takes: layers and devices, the least of five.
printf 'layers\tGPUs\tsearch_s\n' >search.tsv
for layers in 2 4 8 16 32; do
    for gpus in 8 16 32 64; do
        for turn in 1 2 3 4 5; do
            "$foreline" plan --algorithm spmd --compat-hidup --model "tmoe:layers=$layers" --devices "$gpus" --json |
                sed -n "s/.*\"cpu_s\": \([-0-9.e]*\).*/$turn \1/p"
        done | sort -gk 2 | awk -v l="$layers" -v g="$gpus" 'NR == 1 { print l "\t" g "\t" $2 }' >>search.tsv
    done
done
"$foreline" plot throughput search.tsv --x layers --y search_s --by GPUs -o hidup-search.png
cp hidup-search.png "$here/"
