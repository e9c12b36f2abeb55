#!/bin/sh
# Conf files of PipeDream's runtime, run for real: without input pipelining two stages train what one does, to
# the bit; stages of different replicas train the same over every transport.
# Usage: exec_pipedream.sh DIRECTORY_OF_BINARIES
set -eu
bin=$(cd "$1" && pwd)
tool=$bin/foreline
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "FAIL: $*" >&2
    exit 1
}
make() { # make NAME STAGES RANKS DEPTHS: NAME.json, a plan
    echo "{\"module_to_stage_map\": $2, \"stage_to_rank_map\": $3$4}" >conf.json
    "$tool" plan import conf.json --model gpt-tiny:layers=2,hidden=32,tokens=32 --split-at h1.ln1 \
        --platform laptop --microbatches 12 -o "$1.json" >plan.out 2>&1 || fail "$1: $(cat plan.out)"
}
trained() { # trained NAME OPTIONS...: losses and hash
    plan=$1
    shift
    "$tool" run "$plan.json" --steps 3 --warmup 0 --json "$@" >run.json 2>run.err ||
        fail "$plan: $(cat run.err)"
    sed -n 's/^  "\(loss\|parameters_sha256\)": *//p' run.json
}

make one '[0, 0, 0]' '{"0": [0]}' ''
make slow '[0, 1, 1]' '{"0": [0], "1": [1]}' ', "stage_to_depth_map": {"0": 0, "1": 0}'
make fast '[0, 1, 1]' '{"0": [0], "1": [1]}' ''
one=$(trained one)
[ "$(echo "$one" | wc -l)" = 2 ] || fail "no losses and hash: $one"
[ "$(trained slow)" = "$one" ] || fail "without input pipelining: $(trained slow), not $one"
[ "$(trained fast)" != "$one" ] || fail "with input pipelining nothing is stale"

for ranks in '{"0": [0, 1, 2], "1": [3]}' '{"0": [0], "1": [1, 2, 3]}'; do
    make uneven '[0, 1, 1]' "$ranks" ''
    tcp=$(trained uneven)
    [ "$(trained uneven --transport local)" = "$tcp" ] || fail "$ranks: local is not tcp: $tcp"
    [ "$tcp" != "$one" ] || fail "$ranks: as on one rank"
done
# What optimizers and policies say reaches every rank.
plain() { # plain OPTIMIZER: plain.json, two stages with a flush
    "$tool" plan --algorithm balanced --model gpt-tiny:layers=2,hidden=32,tokens=32 --platform laptop \
        --stages 2 --microbatches 4 --optimizer "$1" -o plain.json >plan.out 2>&1 ||
        fail "$1: $(cat plan.out)"
}
plain sgd
sgd=$(trained plain --learning-rate 0.1)
[ "$(trained plain --learning-rate 0.1 --learning-rate-policy step:factor=1,every=1)" = "$sgd" ] ||
    fail "a policy that changes nothing changes something"
"$tool" run plain.json --steps 1 --warmup 0 --learning-rate 0.1 --json >first.json 2>run.err
first=$(sed -n 's/.*"parameters_sha256": *//p' first.json)
trained plain --learning-rate 0.1 --learning-rate-policy polynomial:epochs=1 | grep -qF "$first" ||
    fail "a rate of 0 from the second step on: $(trained plain --learning-rate-policy polynomial:epochs=1)"
plain sgd:loss-scale=128
[ "$(trained plain --learning-rate 0.1)" = "$sgd" ] || fail "a loss scale of a power of two"
plain sgd:momentum=0.9,nesterov=1,decay=0.01
momentum=$(trained plain --learning-rate 0.1)
[ "$momentum" != "$sgd" ] || fail "momentum changes nothing"
for steps in 1 2; do
    "$tool" run plain.json --steps $steps --warmup 0 --learning-rate 0.1 --checkpoint kept \
        $([ $steps = 1 ] || echo --resume kept) --json >run.json 2>run.err || fail "kept: $(cat run.err)"
done
echo "$momentum" | grep -qF "$(sed -n 's/.*"parameters_sha256": *//p' run.json)" ||
    fail "momentum is not in checkpoints"
plain sgd:momentum=0.8
"$tool" run plain.json --steps 1 --resume kept >run.json 2>run.err && fail "another momentum goes on"
grep -q 'optimizer settings differ' run.err || fail "another momentum: $(cat run.err)"
plain sgd:clip=0.5
clipped=$(trained plain --learning-rate 0.1)
[ "$clipped" != "$sgd" ] || fail "clipping over two stages changes nothing"
echo "conf files: one stage and two without input pipelining: $one"
