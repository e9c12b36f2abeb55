#!/bin/sh
# A model divided among three GPUs against FSDP on all three, as the report of a course project has it (seeds.md,
# S0-17): predicted for three RTX 3090 behind PCIe, and run on this machine's CPUs with a smaller model. Prints the
# table of docs/results/2026-11-23-pippy.md and draws it. A minute. Usage: bench/fsdp.sh FORELINE PICTURE.svg [STEPS]
set -eu
tool=$(realpath "$1") picture=$(realpath -m "$2") steps=${3:-20}
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
cd "$dir"
spread() { # spread FILE: mean and standard deviation of the iterations in ms
    tr -d '\n ' <"$1" | sed 's/.*"iterations_s":\[\([^]]*\)\].*/\1/' | tr ',' '\n' | awk '
        { n++; sum += 1e3 * $1; squares += 1e6 * $1 * $1 }
        END { mean = sum / n; d = squares / n - mean * mean; printf "%.2f +- %.2f", mean, sqrt(d > 0 ? d : 0) }'
}
plans() { # plans MODEL PLATFORM BATCH: ours.json (whole batch), parts.json (four microbatches), fsdp.json
    set -- "$3" --model "$1" --platform "$2"
    batch=$1
    shift
    for kind in ours parts fsdp; do
        case $kind in
        ours) how="--stages 3 --microbatches 1 --microbatch-size $batch" ;;
        parts) how="--stages 3 --microbatches 4 --microbatch-size $((batch / 4))" ;;
        fsdp) how="--stages 1 --replicas 3 --zero 3 --microbatches 3 --microbatch-size $(((batch + 2) / 3))" ;;
        esac
        # shellcheck disable=SC2086
        "$tool" plan --algorithm balanced --framework foreline --schedule gpipe "$@" $how -o $kind.json >out 2>&1 || cat out >&2
    done
}
plans mlp:layers=3,hidden=4096,channels=48 node:gpus=3,type=RTX3090 8192
for kind in ours parts fsdp; do
    "$tool" simulate $kind.json --engine simgrid -o 3090-$kind.json >out 2>&1 || cat out >&2
done
plans mlp:layers=3,hidden=512,channels=48 laptop 96
for kind in ours parts fsdp; do
    "$tool" run $kind.json --steps "$steps" --warmup 3 -o cpu-$kind.json >out 2>&1 || cat out >&2
done
echo '| | predicted, 3 RTX 3090, ms | measured, 3 processes on this CPU, small model, ms |'
echo '|---|---|---|'
while read -r kind name; do
    echo "| $name | $(spread 3090-$kind.json | sed 's/ +-.*//') | $(spread cpu-$kind.json) |"
done <<END
ours three stages, whole batch
parts three stages, 4 microbatches
fsdp FSDP (ZeRO 3) on three
END
"$tool" plot bars 3090-ours.json 3090-parts.json 3090-fsdp.json cpu-ours.json cpu-parts.json cpu-fsdp.json \
    -o "$picture"
