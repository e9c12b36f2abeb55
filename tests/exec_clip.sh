#!/bin/sh
# Clipped gradients: the norm is of all gradients of the model, each once, however a plan divides them. Losses of
# plans with stages, replicas, shards, ZeRO, tied weights and experts against those of one rank with the same
# batch, and a run against itself. Usage: exec_clip.sh FORELINE MODELS
set -u
foreline=$1 models=$(realpath "$2")
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 2
export XDG_CACHE_HOME="$dir/cache"

fail() {
    echo "$*"
    exit 1
}

# trains NAME TRANSPORT OPTIONS...: a plan of these options for 20 steps; losses in NAME.loss
trains() {
    name=$1 transport=$2
    shift 2
    "$foreline" plan --model "$model" --platform node:gpus=4 --algorithm balanced --optimizer "$optimizer" \
        --microbatch-size 1 "$@" -o "$name.json" >/dev/null 2>note || fail "$name: $(cat note)"
    "$foreline" run "$name.json" --transport "$transport" --steps 20 --warmup 0 --learning-rate 0.5 \
        -o "$name.out" >"$name.log" 2>&1 || fail "$name: $(tail -n 3 "$name.log")"
    sed -n 's/^ *"loss": \[\(.*\)\].*/\1/p' "$name.out" | tr -d ' ' | tr , '\n' >"$name.loss"
    [ "$(wc -l <"$name.loss")" = 20 ] || fail "$name: $(cat "$name.log")"
}

# alike NAME REFERENCE: to 1e-5 of the loss in every step
alike() {
    paste "$1.loss" "$2.loss" | awk -v of="$1" '{ d = $1 / $2 - 1; d = d < 0 ? -d : d; most = d > most ? d : most }
        END { printf "%-10s %.1e\n", of, most; exit !(NR == 20 && most < 1e-5) }' || fail "$1 is not $2"
}

sgd=sgd:momentum=0.9 optimizer=sgd:momentum=0.9,clip=0.3
model=gpt-tiny:layers=2,hidden=32,tokens=16
trains one local --stages 1 --replicas 1 --microbatches 8
optimizer=$sgd
trains free local --stages 1 --replicas 1 --microbatches 8
cmp -s free.loss one.loss && fail 'nothing is clipped'
optimizer=$sgd,clip=0.3
set -- --microbatches 8
trains stages tcp --stages 4 --replicas 1 "$@"
trains both tcp --stages 2 --replicas 2 "$@"
trains chunks local --stages 4 --replicas 1 --chunks 2 --schedule interleaved "$@"
trains zero1 local --stages 1 --replicas 4 --zero 1 "$@"
trains zero2 tcp --stages 2 --replicas 2 --zero 2 "$@"
trains zero3 local --stages 1 --replicas 2 --zero 3 "$@"
trains shards tcp --stages 2 --replicas 1 --tensor-parallel 2 "$@"
trains rows local --stages 1 --replicas 2 --tensor-parallel 2 --sequence-parallel --zero 2 "$@"
for plan in stages both chunks zero1 zero2 zero3 shards rows; do
    alike $plan one
done

# A weight that two stages have counts once.
model=gpt-tiny:layers=2,hidden=32,tokens=16,tied=1
trains own local --stages 1 --replicas 1 "$@"
trains tied tcp --stages 2 --replicas 2 "$@"
trains tied1 local --stages 2 --replicas 2 --zero 1 "$@"
alike tied own
alike tied1 own

# Experts that replicas have of their own count each.
model=$models/mixtral.json:tokens=16
trains each local --stages 1 --replicas 1 "$@"
trains experts tcp --stages 1 --replicas 4 --expert-parallel 2 "$@"
trains apart local --stages 2 --replicas 2 --expert-parallel 2 "$@"
trains parts local --stages 1 --replicas 4 --expert-parallel 2 --zero 3 "$@"
trains heads local --stages 1 --replicas 1 --tensor-parallel 2 "$@"
for plan in experts apart parts heads; do
    alike $plan each
done

# The same bits every time, over any transport, and in what is predicted the same op.
hash_of() { sed -n 's/.*"parameters_sha256": "\([0-9a-f]*\)".*/\1/p' "$1"; }
"$foreline" run both.json --transport local --steps 20 --warmup 0 --learning-rate 0.5 -o again.out >out 2>&1 || fail "$(cat out)"
[ -n "$(hash_of again.out)" ] && [ "$(hash_of again.out)" = "$(hash_of both.out)" ] || fail 'other bits over another transport'
"$foreline" simulate both.json --json | grep -q '"norm": ' || fail 'a prediction without the norm'

# What is not done is said by who makes the plan, and refused before it runs.
"$foreline" plan --model "$model" --platform node:gpus=4 --algorithm balanced --optimizer $sgd,clip=0.3 --schedule pipedream \
    --stages 2 -o late.json >out 2>note || fail "late: $(cat note)"
grep -q 'warning.*optimizer.*gradient clipping' note || fail "no warning: $(cat note)"
"$foreline" run late.json >out 2>note && fail 'late is run'
[ "$(wc -l <note)" = 1 ] && grep -q 'gradient clipping' note || fail "late: $(cat note)"
