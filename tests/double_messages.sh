#!/bin/sh
# What a user reads when something is wrong with GPUs, driver or libraries, or in what was asked for:
# one line each, and what the run prints when all is well. The double plays the machine.
# Usage: double_messages.sh BIN
set -eu
# shellcheck source=tests/message.sh
. "$(dirname "$0")/message.sh"
bin=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
unset RANK WORLD_SIZE LOCAL_RANK CUDA_VISIBLE_DEVICES FORELINE_SHARE_GPU DOUBLE_SEED DOUBLE_FAULTS DOUBLE_RACES
for variable in $(env | sed -n 's/^\(NCCL_[A-Z_]*\)=.*/\1/p'); do unset "$variable"; done
FORELINE_WORKER=$bin/foreline-worker-double OPENBLAS_NUM_THREADS=1 TMPDIR=$work
export FORELINE_WORKER OPENBLAS_NUM_THREADS TMPDIR
failed=0

tell() {
    echo "FAIL: $*" >&2
    failed=1
}
# says STATUS WORDS VARIABLE=VALUE... -- COMMAND: the last line of what it prints, and its status
says() {
    want=$1 words=$2
    shift 2
    set_here=''
    while [ "$1" != -- ]; do set_here="$set_here $1" && shift; done
    shift
    status=0
    # shellcheck disable=SC2086 # words
    env $set_here timeout 120 "$@" >out 2>err || status=$?
    [ $status -eq "$want" ] || tell "$words: status $status, expected $want: $(cat err)"
    tail -n 1 err | grep -q -- "$(pattern "$words")" || tell "expected '$words', not '$(tail -n 1 err)'"
    # The leak checker of the build says so of a thread that has just ended.
    grep -v '^rank [0-9]* (\|^driver \|^warning:\|Unable to get registers from thread' err >rest || true
    [ "$(wc -l <rest)" -le 1 ] || tell "more than one line: $(cat err)"
}
plan() {
    "$bin/foreline" plan --algorithm balanced --platform laptop --microbatches 2 \
        --model gpt-tiny:layers=2,hidden=32,heads=4,tokens=32 "$@" >/dev/null 2>&1
}
plan --stages 2 -o p.json
plan --stages 1 -o one.json
run="$bin/foreline run p.json --device cuda --steps 1 --warmup 0 --timeout 90s"
alone="$bin/foreline run one.json --device cuda --steps 1 --warmup 0" # nobody else fails first

# ---- the machine

says 1 '(rank0 on ' DOUBLE_GPUS=0 -- $alone
says 1 'no GPU: no CUDA-capable device is detected' DOUBLE_GPUS=0 -- $run
says 1 'no GPU: no CUDA-capable device is detected, CUDA_VISIBLE_DEVICES=' DOUBLE_GPUS=0 CUDA_VISIBLE_DEVICES= -- $run
says 1 'GPU NVIDIA installed libcuda.so.1' DOUBLE_DRIVER=0 -- $run
says 1 'CUDA 12.4 CUDA 13.0 install 580 CUDA 12 docs/reference/cuda.md' \
    DOUBLE_DRIVER=12040 -- $run
says 1 'NCCL 2.14.0 libnccl.so.2 install 2.18' DOUBLE_NCCL=21400 -- $run
says 1 'machine 1 GPU 1 1 0 FORELINE_SHARE_GPU=1' \
    DOUBLE_GPUS=1 -- $run
says 1 'no GPU: NVIDIA driver' DOUBLE_DRIVER=0 -- "$bin/foreline" calibrate --device cuda -o x.xml
says 1 'CUDA 12.4 worker CUDA 13.0' DOUBLE_DRIVER=12040 -- "$bin/foreline" model profile \
    gpt-tiny --device cuda --batch 1 -o x.json
says 1 'foreline-worker-cuda not found in ' FORELINE_WORKER= -- env -u FORELINE_WORKER $run
status=0
DOUBLE_GPUS=0 "$FORELINE_WORKER" --self-test >out 2>&1 || status=$?
[ $status -eq 77 ] || tell "a self-test without a GPU: status $status"
grep -q 'skipped: no GPU: no CUDA-capable device is detected' out || tell "self-test: $(cat out)"

# ---- what was asked for

"$bin/foreline" plan --algorithm balanced --platform laptop --microbatches 2 --stages 1 --replicas 2 --context-parallel 2 \
    --model gpt-tiny:layers=1,dtype=bf16 -o shared.json >/dev/null 2>&1
says 1 "'embedding' fp32 dtype=fp32" -- \
    "$bin/foreline" run shared.json --device cuda --transport local --steps 1 --warmup 0
says 2 '--transport nccl needs --device cuda' -- "$bin/foreline" run p.json --transport nccl
says 2 '--transport mpi --device cpu GPUs' -- $run --transport mpi
says 2 '--engine nccl needs --device cuda' -- "$bin/foreline" validate p.json --engine nccl -o v
says 2 '--engine mpi --device cpu GPUs' -- \
    "$bin/foreline" validate p.json --engine mpi --device cuda -o v
says 2 '--collective: ' -- $run --collective switch

# ---- all is well: which GPU each rank has, in what is printed and in the measurement

NCCL_ALGO=Ring NCCL_PROTO=LL128 timeout 120 $run -o m.json --trace t.json >out 2>err || tell "the run fails: $(cat err)"
grep -q '^rank 0 (rank0): GPU 0 of .*, host, GPU-[0-9a-f-]*, 0000:' err || tell "no GPU of rank 0: $(cat err)"
grep -q '^rank 1 (rank1): GPU 1 of .*, host, GPU-[0-9a-f-]*, 0000:' err || tell "no GPU of rank 1: $(cat err)"
grep -q '^driver .* CUDA 13.0, cuBLAS 13[0-9.]*, NCCL 2.28.9, .*NCCL_ALGO=Ring NCCL_PROTO=LL128' err || tell "no versions: $(cat err)"
grep -q '^engine      nccl$' out || tell "the transport is not nccl: $(cat out)"
grep -q '^GPUs        2 x host; CUDA 13.0, cuBLAS 13[0-9.]*, NCCL 2.28.9;' out && grep -q ' NCCL_PROTO=LL128' out ||
    tell "no GPUs in the summary: $(cat out)"
grep -q '"settings": "[^"]*NCCL_ALGO=Ring NCCL_PROTO=LL128' m.json || tell "NCCL's settings are not kept"
grep -q '"rank": 1, .*"index": 1, .*"peers": "atomic self' m.json || tell "no peers: $(grep -A4 gpus m.json)"
grep -q '"step": 0, "clock_monotonic_s": [0-9.]*, "unix_s": [0-9.]*' t.json || grep -q '"clock_monotonic_s": [0-9.]*' t.json ||
    tell "the trace has no clock"
"$bin/foreline" simulate p.json -o a.json >/dev/null
"$bin/foreline" compare a.json m.json | grep -q '^# measured on 2 x host; .*NCCL 2.28.9' || tell "compare does not say on what"

# what is made again counts once in the loss
loss=$($run | grep '^loss')
for how in full selective; do
    plan --stages 2 --recompute $how -o again.json
    again=$("$bin/foreline" run again.json --device cuda --steps 1 --warmup 0 --timeout 90s | grep '^loss')
    [ "$again" = "$loss" ] || tell "recomputing, $how: '$again' instead of '$loss'"
done
exit $failed
