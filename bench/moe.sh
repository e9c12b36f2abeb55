#!/bin/sh
# Data parallelism and experts on the cluster of the HiDup paper: a row per plan and number of GPUs.
#
#     bench/moe.sh BIN [MODEL...]        BIN: directory of the foreline command
#
# 32 samples and 2 experts a GPU, as the paper's artifact (exp/config.py) has it. TSV on stdout.
#   data       every GPU has all experts; gradients in buckets of 25 MiB (PyTorch's default)
#   zero3      the same with parameters sharded, gathered before each pass
#   fastmoe    experts spread over all GPUs, tokens sent by index and without padding
#   deepspeed  experts spread over all GPUs, tokens put into padded slots by products with masks
#   sliced     each expert (and all else) sliced over 4 GPUs of a node as tensors, activations
#              gathered before and scattered after; experts spread over such groups as in fastmoe
# Plain models have no experts: data and zero3 only.
set -eu

bin=$1
shift
[ $# -gt 0 ] || set -- rtransformer rmoe rswitch vtransformer vmoe vswitch
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# number KEY FILE: the first such number
number() {
    sed -n "s/.*\"$1\": \([-0-9.e+]*\).*/\1/p" "$2" | head -n 1
}

# row MODEL PLAN GPUS REPLICAS SPEC OPTION...
row() {
    model=$1 name=$2 gpus=$3 replicas=$4 spec=$5
    shift 5
    "$bin/foreline" plan --algorithm balanced --model "$spec" --platform hidup-8xv100 --stages 1 \
        --replicas "$replicas" --microbatches "$replicas" \
        --microbatch-size $((32 * gpus / replicas)) "$@" -o "$dir/p.json" \
        >"$dir/out" 2>"$dir/err" || { cat "$dir/err" >&2; exit 1; }
    for engine in analytic simgrid; do
        "$bin/foreline" simulate "$dir/p.json" --engine $engine -o "$dir/$engine.json" >"$dir/out" \
            2>"$dir/err" || { cat "$dir/err" >&2; exit 1; }
    done
    # shellcheck disable=SC2046,SC2183
    printf '%s\t%s\t%d\t%.1f\t%.1f\t%.1f\t%.1f\t%.2f\t%s\n' "$model" "$name" "$gpus" $(
        for engine in analytic simgrid; do
            number iteration_s "$dir/$engine.json" | awk '{ print 1e3 * $1 }'
        done
        number busy_s "$dir/simgrid.json" | awk '{ print 1e3 * $1 }'
        number samples_per_s "$dir/simgrid.json"
        number peak_bytes "$dir/simgrid.json" |
            awk '{ print $1 / 1073741824, ($1 > 17179869184 ? "no" : "yes") }'
    )
}

printf '# model\tplan\tGPUs\tanalytic\tsimgrid\tbusy\tthroughput\tpeak\tfits\n'
printf '#\t\t\tms\tms\tms\tsamples/s\tGiB\t16 GiB\n'
for model in "$@"; do
    for gpus in 8 16 32 64; do
        experts=:experts=$((2 * gpus))
        case $model in
        *transformer) experts= ;;
        esac
        row "$model" data "$gpus" "$gpus" "$model$experts" --bucket 25MiB
        row "$model" zero3 "$gpus" "$gpus" "$model$experts" --zero 3
        [ -n "$experts" ] || continue
        row "$model" fastmoe "$gpus" "$gpus" "$model$experts,capacity=0,einsum=0" \
            --expert-parallel "$gpus"
        row "$model" deepspeed "$gpus" "$gpus" "$model$experts,group=32" --expert-parallel "$gpus"
        row "$model" sliced "$gpus" $((gpus / 4)) "$model$experts,capacity=0,einsum=0" \
            --tensor-parallel 4 --sequence-parallel --expert-parallel $((gpus / 4))
    done
done
