#!/bin/sh
# Measure this machine, predict six plans on it, train each of them for real, compare, and copy the picture to figure.svg.
set -e
foreline calibrate --ranks 2 --repeats 2 --force -o here.xml >here.txt
plan() { # plan NAME OPTION...
    name=$1
    shift
    foreline plan --model gpt-tiny:layers=4,hidden=128,tokens=64 --platform here.xml --algorithm balanced --microbatches 8 \
        "$@" -o "$name.json" >plan.txt
}
for size in 2 8; do
    plan "DP2-batch$((8 * size))" --microbatch-size $size --stages 1 --replicas 2
    plan "PP2-batch$((8 * size))" --microbatch-size $size --stages 2
    plan "TP2-batch$((8 * size))" --microbatch-size $size --stages 1 --tensor-parallel 2
done
foreline validate DP2-*.json PP2-*.json TP2-*.json --steps 5 --repeats 2 -o validation
cp validation/scatter.svg figure.svg
