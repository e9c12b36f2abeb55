#!/bin/sh
# What else the GPU's worker does, on the double: paced ops, figures of ops, checkpoints.
# Usage: commands.sh DIRECTORY_OF_BINARIES
set -eu
bin=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
. "$here/common.sh"
fail() {
    echo "FAIL: $*" >&2
    exit 1
}
export DOUBLE_RACES=1

# Paced ops, of any model, over every transport.
"$bin/foreline" plan --algorithm balanced --model two-chains:ops=21 --platform laptop --stages 2 --replicas 2 \
    --microbatches 4 -o p.json >plan.out 2>&1 || fail "$(cat plan.out)"
for over in tcp nccl local; do
    run cuda $over --compute paced || fail "paced over $over: $(why)"
    grep -q '"engine": *"[a-z-]*paced"' m.json || fail "paced over $over: $(grep engine m.json)"
done

# Figures of ops, in all types.
for dtype in fp32 bf16 fp16; do
    FORELINE_WORKER=$double "$bin/foreline" model profile \
        gpt-tiny:layers=1,hidden=32,heads=2,tokens=16,dtype=$dtype --device cuda --batch 2 --repeats 2 -o profile.json \
        2>err || fail "profile in $dtype: $(why)"
    grep -q '"device": "cuda"' profile.json || fail "no profile for cuda"
    times=$(sed -n 's/ *"\(forward\|backward\)_s": \[\(.*\)\].*/\2/p' profile.json | tr -d ' \n')
    [ ${#times} -gt 100 ] || fail "profile in $dtype: $times"
done
dtype=fp32

# Six steps are three, kept, and three more.
plan --stages 2 --replicas 2 --zero 2 || fail "$(cat plan.out)"
steps=6
run cuda nccl || fail "6 steps: $(why)"
whole=$(hash_of)
steps=3
run cuda nccl --checkpoint kept || fail "checkpoint: $(why)"
run cuda nccl --resume kept || fail "resume: $(why)"
[ "$(hash_of)" = "$whole" ] || fail "resumed: $(hash_of), not $whole"
