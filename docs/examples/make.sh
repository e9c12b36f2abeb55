#!/bin/sh
# Run the examples and draw the pictures of docs/examples.md. Usage: docs/examples/make.sh FORELINE
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
