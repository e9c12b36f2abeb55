#!/bin/sh
# Small models of families after GPT-2 on the double: the CPU's losses within 1e-5, shards too, and in bf16 within 1e-2.
# Usage: models.sh DIRECTORY_OF_BINARIES [MODEL...]
set -eu
bin=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
. "$here/common.sh"
models=$here/../models
fail() {
    echo "FAIL: $*" >&2
    exit 1
}
# The losses of the last run are within so much of those in `wanted`.
close_to() {
    losses | paste -d ' ' wanted - | awk -v most="$1" '
        { d = ($1 - $2) / $1; d = d < 0 ? -d : d; n++; if (!($1 > 0 && d <= most)) bad = 1 }
        END { exit bad || n != 3 }'
}
plan_file() {
    "$bin/foreline" plan --algorithm balanced --platform laptop --microbatches 2 "$@" -o p.json >plan.out 2>&1 ||
        fail "$(cat plan.out)"
}
# whole FILE, shards FILE, half FILE: as the CPU with the losses in `wanted`
whole() {
    plan_file --model "$models/$1.json" --stages 1
    run cpu tcp || fail "$1 on the CPU: $(why)"
    losses >wanted
    DOUBLE_RACES=1 run cuda nccl || fail "$1: $(why)"
    close_to 1e-5 || fail "$1: $(losses | tr '\n' ' '), not $(tr '\n' ' ' <wanted)"
    echo "$1: $(tr '\n' ' ' <wanted)"
}
shards() {
    plan_file --model "$models/$1.json" --stages 1 --tensor-parallel 2
    DOUBLE_RACES=1 run cuda nccl || fail "$1 in shards: $(why)"
    close_to 1e-5 || fail "$1 in shards: $(losses | tr '\n' ' '), not $(tr '\n' ' ' <wanted)"
}
half() {
    plan_file --model "$models/$1.json:dtype=bf16" --stages 1
    run cuda nccl || fail "$1 in bf16: $(why)"
    close_to 1e-2 || fail "$1 in bf16: $(losses | tr '\n' ' '), not $(tr '\n' ' ' <wanted)"
}
shift
[ $# -gt 0 ] || set -- llama gemma2 mixtral
for model in "$@"; do
    whole $model
    case $model in
    qwen3_moe | deepseek_v*) ;; # cannot be divided over shards, on the CPU either
    *) shards $model ;;
    esac
    half $model
done
