#!/bin/sh
# Passes as CUDA graphs on the double: losses and parameters are, bit by bit, those without graphs, over several steps with
# another learning rate each, for schedules, transports, types and models; no graph is made in a step; what no graph can
# be made of is refused with a line. Usage: graphs.sh DIRECTORY_OF_BINARIES [all]
set -eu
bin=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
. "$here/common.sh"
platform=hidup-8xv100
patience=60 silence=20s
rates="--learning-rate 0.01 --learning-rate-policy step:epoch=1,every=1,factor=0.5"
fail() {
    echo "FAIL: $*" >&2
    exit 1
}
# alike TRANSPORT OPTIONS...: p.json without and with graphs; counts of launches of a step are left in `count`
alike() {
    transport=$1
    shift
    # shellcheck disable=SC2086 # words
    run cuda "$transport" $rates "$@" || fail "$options over $transport: $(why)"
    { losses && hash_of; } >without
    [ "$(wc -l <without)" -ge 3 ] || fail "$options over $transport: no losses"
    # shellcheck disable=SC2086 # words
    DOUBLE_RACES=1 run cuda "$transport" $rates --cuda-graphs "$@" || fail "$options over $transport, graphs: $(why)"
    { losses && hash_of; } >with
    cmp -s with without || fail "$options over $transport: $(cat with without | tr '\n' ' ')"
    awk -F '\t' '$1 == "#step" && !($13 > 0 && $5 == 0) { bad = 1 } END { exit bad }' log.* ||
        fail "$options over $transport: products beside graphs: $(grep -h '#step' log.*)"
    echo "$options over $transport: $(grep -h '^#step' log.* | cut -f 13 | sort | uniq -c | awk '{ printf " %s", $2 }') graphs a step"
}
try() {
    options=$*
    dtype=fp32
    case " $options " in *" --half "*) dtype=bf16 ;; esac
    # shellcheck disable=SC2046 # words
    plan $(echo " $options " | sed 's/ --half / /') || fail "$options: $(tail -n 1 plan.out)"
}
refused() { # refused WORDS OPTIONS...: the run says them
    words=$1
    shift
    try "$@"
    ! run cuda nccl --cuda-graphs || fail "$options: it runs"
    grep -q -e "$words" err || fail "$options: $(cat err)"
}

some() {
    try --stages 2 && alike nccl
    try --stages 4 --schedule zb-h1 && alike nccl
    refused "stage 0: tensor parallelism" --stages 1 --tensor-parallel 2
    refused "stage 0: context or expert" --stages 1 --replicas 2 --context-parallel 2
    model=$here/../models/mixtral.json refused "stage 0: context or expert" --stages 1 --replicas 2 --expert-parallel 2
    refused "stage 0: ZeRO 2" --stages 1 --replicas 2 --zero 2
    refused "parameters change" --stages 2 --schedule pipedream
    refused "through the host" --stages 2 --chunks 2 --schedule interleaved
    try --stages 2
    ! DOUBLE_FAULTS=no-graph:1@1 run cuda nccl --cuda-graphs && grep -q "rank 1 .*make a graph" err ||
        fail "no memory for a graph: $(cat err)"
    ! run cpu tcp --cuda-graphs && grep -q -e "--cuda-graphs needs --device cuda" err || fail "on the CPU: $(cat err)"
    ! run cuda nccl --cuda-graphs --compute paced && grep -q -e "--cuda-graphs" err || fail "paced: $(cat err)"
}
all() {
    try --stages 2 && alike tcp
    try --stages 4 --chunks 2 --schedule interleaved --replicas 2 --bucket 10KB && alike nccl
    try --stages 2 --schedule gpipe --replicas 2 --zero 1 --half && alike nccl
    try --stages 2 --recompute full --half && alike local
    # Going on from a checkpoint: bf16 weights are made again.
    run cuda nccl --cuda-graphs --checkpoint kept --learning-rate 0.01 || fail "a checkpoint: $(why)"
    alike nccl --resume kept
    for name in llama mixtral; do
        options=$name
        "$bin/foreline" plan --algorithm balanced --platform $platform --microbatches 3 --stages 2 \
            --model "$here/../models/$name.json:dtype=bf16" -o p.json >plan.out 2>&1 || fail "$(cat plan.out)"
        alike nccl
    done
    rates=''
    try --stages 2 && alike nccl --forward-only
}
some
[ "${2:-some}" != all ] || all
