#!/bin/sh
# Memory against communication: a row for each way to spread a model over GPUs.
#
#     bench/tradeoff.sh BIN [MODEL [PLATFORM [GPUS [SAMPLES]]]]
#
# BIN: directory of the foreline command. Every plan trains SAMPLES samples an iteration in
# microbatches of one; Adam, 1F1B, simgrid. TSV on stdout: peak memory of the fullest GPU, bytes over
# the busiest link, iteration and exposed communication of the first GPU.
set -eu

bin=$1 model=${2:-gpt2-xl:dtype=bf16} platform=${3:-dgx-h100-x4} gpus=${4:-8} samples=${5:-16}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# first KEY / most KEY: of the measurement
first() {
    sed -n "s/.*\"$1\": \([-0-9.e+]*\).*/\1/p" "$dir/m.json" | head -n 1
}
most() {
    sed -n "s/.*\"$1\": \([-0-9.e+]*\).*/\1/p" "$dir/m.json" | sort -g | tail -n 1
}
busiest() {
    sed -n 's/.*"bytes": \([-0-9.e+]*\).*/\1/p' "$dir/m.json" | head -n 1
}

# row NAME OPTION...
row() {
    name=$1
    shift
    "$bin/foreline" plan --algorithm balanced --model "$model" --platform "$platform" \
        --microbatches "$samples" --microbatch-size 1 "$@" -o "$dir/p.json" \
        >"$dir/out" 2>"$dir/err" || { cat "$dir/err" >&2; exit 1; }
    "$bin/foreline" simulate "$dir/p.json" -o "$dir/m.json" >"$dir/out" 2>"$dir/err" ||
        { cat "$dir/err" >&2; exit 1; }
    bytes=$(busiest)
    printf '%s\t%s\t%s\t%s\t%s\n' "$name" "$(most peak_bytes)" "${bytes:-0}" \
        "$(first iteration_s)" "$(first exposed_comm_s)" | awk -F '\t' '{
            printf "%-24s\t%.2f\t%.2f\t%.1f\t%.1f\n",
                $1, $2 / 1073741824, $3 / 1e9, 1e3 * $4, 1e3 * $5 }'
}

printf '# plan                  \tmemory\tbusiest\titeration\texposed\n'
printf '#                       \tGiB\tGB\tms\tms\n'
row "one GPU" --stages 1
row "data parallel" --stages 1 --replicas "$gpus"
row "data parallel, buckets" --stages 1 --replicas "$gpus" --bucket 25MiB
row "ZeRO 1" --stages 1 --replicas "$gpus" --zero 1
row "ZeRO 2" --stages 1 --replicas "$gpus" --zero 2
row "ZeRO 3" --stages 1 --replicas "$gpus" --zero 3
row "tensor parallel" --stages 1 --tensor-parallel "$gpus"
row "  and sequence" --stages 1 --tensor-parallel "$gpus" --sequence-parallel
row "pipeline" --stages "$gpus"
row "  and full recompute" --stages "$gpus" --recompute full
