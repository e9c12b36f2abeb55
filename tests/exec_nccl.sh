#!/bin/sh
# On a GPU: one process per stage over NCCL and one process for all stages give the parameters of
# one stage, bit for bit, and replicas those of the other transport.
# Usage: exec_nccl.sh DIRECTORY_OF_BINARIES
set -eu
bin=$(cd "$1" && pwd)
nvidia-smi -L 2>/dev/null | grep -q '^GPU' || {
    echo "skipped: no NVIDIA GPU on this machine"
    exit 77
}
[ -x "$bin/foreline-worker-cuda" ] || {
    echo "skipped: foreline-worker-cuda is not built (-DFORELINE_CUDA=ON)"
    exit 77
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
unset RANK WORLD_SIZE FORELINE_WORKER MASTER_ADDR

fail() {
    echo "FAIL: $*" >&2
    exit 1
}
run() { # run TRANSPORT OPTIONS...: the hash of the parameters
    transport=$1
    shift
    "$bin/foreline" plan --algorithm balanced --platform laptop --microbatches 4 \
        --model gpt-tiny:layers=2,hidden=32,heads=2,tokens=32 "$@" -o p.json >plan.out 2>&1 ||
        fail "plan $*: $(cat plan.out)"
    FORELINE_SHARE_GPU=1 "$bin/foreline" run p.json --device cuda --transport "$transport" \
        --steps 3 --warmup 0 --json >m.json 2>run.err || fail "$transport $*: $(cat run.err)"
    sed -n 's/.*"parameters_sha256": "\([0-9a-f]*\)".*/\1/p' m.json
}

one=$(run local --stages 1)
[ ${#one} = 64 ] || fail "no hash: $one"
for transport in local nccl; do
    two=$(run $transport --stages 2)
    [ "$two" = "$one" ] || fail "2 stages over $transport: $two, not $one"
done
local=$(run local --stages 2 --replicas 2)
nccl=$(run nccl --stages 2 --replicas 2)
[ "$local" = "$nccl" ] || fail "2 x 2: local $local, nccl $nccl"
echo "nccl and local equal one stage: $one"
