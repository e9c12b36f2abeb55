#!/bin/sh
# The CUDA device (on the host) under `foreline run`: the same bits however the model is cut, and
# nearly the CPU's loss. Usage: run.sh FORELINE WORKER
set -eu
foreline=$1
worker=$2
cpu=$(dirname "$foreline")/foreline-worker
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "FAIL: $*" >&2
    exit 1
}
field() { # field KEY FILE: the number or string after a key
    sed -n "s/.*\"$1\": *\"\{0,1\}\([^\",}]*\).*/\1/p" "$2" | head -n 1
}
losses() { # losses FILE: one a line
    tr -d ' \n' <"$1" | sed 's/.*"loss":\[\([^]]*\)\].*/\1/' | tr ',' '\n'
}
run() { # run WORKER OPTIONS...: m.json
    with=$1
    shift
    "$foreline" plan --algorithm balanced --model gpt-tiny:layers=2,hidden=32,heads=4,tokens=32,bits=$bits \
        --platform laptop --microbatches 4 "$@" -o p.json >plan.out 2>&1 || fail "$(cat plan.out)"
    FORELINE_WORKER=$with "$foreline" run p.json --device $device --steps 5 --warmup 1 --json >m.json 2>err ||
        fail "$*: $(cat err)"
}

bits=32
device=cpu
expected=
for options in "--stages 1" "--stages 2" "--stages 2 --schedule gpipe" \
    "--stages 3 --schedule zb-h1" "--stages 4 --chunks 2 --schedule interleaved"; do
    run "$worker" $options
    hash=$(field parameters_sha256 m.json)
    [ "${expected:=$hash}" = "$hash" ] && [ ${#hash} = 64 ] || fail "$options: $hash, not $expected"
done

# Within 1e-5 of what the CPU's single process loses, step by step.
same_losses() {
    paste cpu gpu | awk '{ d = $1 - $2; if (d * d > 1e-10 || $2 == "") exit 1 }' ||
        fail "$1: losses differ: $(paste cpu gpu)"
}

# And bf16 within 1 % of it.
near_losses() {
    paste cpu gpu | awk '{ d = $1 / $2 - 1; if (d * d > 1e-4 || $2 == "") exit 1 }' ||
        fail "$1: losses differ: $(paste cpu gpu)"
}

run "$worker" --stages 2 --replicas 2
losses m.json >gpu
run "$cpu" --stages 2 --replicas 2
losses m.json >cpu
[ "$(wc -l <cpu)" -ge 5 ] || fail "no losses"
same_losses "2 stages x 2 replicas"

# Sums of buckets that nobody waits for but the update.
run "$worker" --stages 1 --replicas 2 --bucket 20KB
losses m.json >gpu
same_losses "2 replicas in buckets"
run "$worker" --stages 1 --replicas 4 --bucket 10KB
losses m.json >gpu
same_losses "4 replicas in buckets"

run "$cpu" --stages 1
losses m.json >cpu
for shards in 2 4; do
    run "$worker" --stages 1 --tensor-parallel $shards
    losses m.json >gpu
    same_losses "$shards shards"
done
run "$worker" --stages 2 --tensor-parallel 2
losses m.json >gpu
same_losses "2 stages x 2 shards"

# Paced ops, of any model.
device=cuda
"$foreline" plan --algorithm balanced --model two-chains:ops=21 --platform laptop --stages 2 \
    --replicas 2 --microbatches 4 -o p.json >plan.out 2>&1 || fail "$(cat plan.out)"
FORELINE_WORKER=$worker "$foreline" run p.json --device cuda --compute paced --steps 3 --json \
    >m.json 2>err || fail "paced: $(cat err)"
[ "$(field engine m.json)" = tcp-paced ] || fail "paced: $(field engine m.json)"
device=cpu

# bf16: the same bits however the model is cut; losses near those of fp32.
bits=16
(run "$cpu" --stages 1) 2>/dev/null && fail "the CPU computes in bf16"
device=cuda
expected=
for options in "--stages 1" "--stages 3" "--stages 3 --schedule zb-h1"; do
    run "$worker" $options
    hash=$(field parameters_sha256 m.json)
    [ "${expected:=$hash}" = "$hash" ] || fail "bf16, $options: $hash, not $expected"
done
for options in "--stages 1" "--stages 2 --replicas 2" "--stages 2 --tensor-parallel 2" \
    "--stages 2 --replicas 2 --zero 3"; do
    run "$worker" $options
    losses m.json >gpu
    near_losses "bf16, $options"
done

# Figures of ops: a call takes 1 ms on this "GPU".
for bits in 32 16; do
    FORELINE_WORKER=$worker "$foreline" model profile \
        gpt-tiny:layers=1,hidden=32,heads=2,tokens=16,bits=$bits --device cuda --batch 2 \
        --repeats 2 -o profile.json 2>err || fail "profile: $(cat err)"
    times=$(sed -n 's/ *"\(forward\|backward\)_s": \[\(.*\)\].*/\2/p' profile.json | tr -d ' \n')
    [ "$(echo "$times" | sed 's/0\.001//g' | tr -d ,)" = "" ] && [ ${#times} -gt 100 ] ||
        fail "profile in $bits bits: $times"
done
grep -q '"device": "cuda"' profile.json || fail "no profile for cuda"
