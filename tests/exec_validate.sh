#!/bin/sh
# Forwards alone: what a checkpoint makes of data that it is not trained on, the same however the model is cut;
# the first loss is the one that a training that goes on from there begins with.
# Usage: exec_validate.sh DIRECTORY_OF_BINARIES
set -eu
bin=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "FAIL: $*" >&2
    exit 1
}
tiny=gpt-tiny:layers=2,hidden=32,heads=2,tokens=32
plan() { # plan FILE OPTIONS...
    file=$1
    shift
    "$bin/foreline" plan --algorithm balanced --model $tiny --platform laptop --microbatches 4 "$@" -o "$file" \
        >plan.out 2>&1 || fail "plan $*: $(cat plan.out)"
}
run() { # run FILE OPTIONS...: m.json
    "$bin/foreline" run "$@" --warmup 0 --json >m.json 2>run.err || fail "run $*: $(cat run.err)"
}
list() { # list KEY: its numbers, a line each
    tr -d ' \n' <m.json | sed "s/.*\"$1\":\[\([^]]*\)\].*/\1/" | tr , '\n'
    echo
}
refused() { # refused TEXT FILE OPTIONS...
    text=$1 status=0
    shift
    "$bin/foreline" run "$@" >run.out 2>run.err || status=$?
    [ $status != 0 ] && [ "$(grep -c . run.err)" = 1 ] && grep -q -- "$text" run.err ||
        fail "expected '$text' of run $*: exit $status, $(cat run.err)"
}

plan one.json --stages 1
run one.json --forward-only --steps 2
untrained=$(list precision_at_1 | head -n 1)
run one.json --steps 60 --learning-rate 0.003 --checkpoint one
trained=$(grep parameters_sha256 m.json)
run one.json --resume one --steps 3
first=$(list loss | head -n 1)
run one.json --resume one --forward-only --steps 3
expected=$(list loss && list precision_at_1 && list precision_at_5)
[ "$(echo "$expected" | wc -l)" = 9 ] || fail "three of each: $expected"
[ "$(list loss | head -n 1)" = "$first" ] || fail "the first loss is $(list loss | head -n 1), in training $first"
[ "$(grep parameters_sha256 m.json)" = "$trained" ] || fail "parameters have changed"
paste -d' ' - - - - - - - - - <<EOF | awk -v before="$untrained" '
    { for (k = 4; k < 7; k++) if (!($k > before + 0.02 && $k <= $(k + 3) && $(k + 3) <= 1)) exit 1 }' ||
$expected
EOF
    fail "precision, $untrained before the training: $expected"

for how in '--stages 2' '--stages 4 --schedule gpipe' '--stages 2 --schedule interleaved --chunks 2' '--stages 2 --schedule zb-h1'; do
    plan p.json $how
    rm -rf kept
    run p.json --steps 60 --learning-rate 0.003 --checkpoint kept --transport local
    for transport in local tcp; do
        run p.json --resume kept --forward-only --steps 3 --transport $transport
        [ "$(list loss && list precision_at_1 && list precision_at_5)" = "$expected" ] ||
            fail "$how, $transport: $(list loss), not $expected"
    done
done

# Replicas have microbatches of their own; sums are in another order.
for how in '--stages 1 --replicas 2' '--stages 2 --replicas 2 --zero 1' '--stages 1 --replicas 4 --zero 2'; do
    plan p.json $how
    rm -rf kept
    run p.json --steps 1 --checkpoint kept
    run p.json --resume kept --steps 1
    first=$(list loss)
    run p.json --resume kept --forward-only --steps 1
    [ "$(list loss)" = "$first" ] || fail "$how: $(list loss), in training $first"
done
"$bin/foreline" run one.json --forward-only --resume one --steps 4 >out 2>run.err || fail "$(cat run.err)"
grep -q '^loss  .* mean of 6 steps$' out && grep -q '^precision  *prec@1 .*%, prec@5 .*%' out ||
    fail "no means: $(cat out)"

# Epochs of a network with batch normalisation: trained, validated by running means that the checkpoint keeps, and
# trained on. Validation by them does not depend on how samples are divided into microbatches; the moments of
# microbatches of one sample would.
model=resnet:depth=18,side=32,width=4
images() { # images FILE OPTIONS...
    file=$1
    shift
    "$bin/foreline" plan --algorithm balanced --model $model --platform laptop "$@" -o "$file" >plan.out 2>&1 ||
        fail "plan $*: $(cat plan.out)"
}
images a.json --stages 1 --microbatches 2 --microbatch-size 4
images b.json --stages 2 --microbatches 2 --microbatch-size 4
for plan in a b; do
    for epoch in 1 2; do
        resume=
        [ $epoch = 1 ] || resume="--resume of_$plan"
        run $plan.json $resume --steps 10 --learning-rate 0.01 --checkpoint of_$plan --transport local
        run $plan.json --resume of_$plan --forward-only --steps 2 --transport local
        list loss >$plan.$epoch
    done
    run $plan.json --resume of_$plan --forward-only --steps 2 --transport tcp
    list loss | cmp -s - $plan.2 || fail "validation of $plan over tcp: $(list loss), local $(cat $plan.2)"
    run $plan.json --resume of_$plan --steps 1
    list loss >$plan.own
done
cmp -s a.2 b.2 || fail "validation of two stages: $(cat b.2), of one $(cat a.2)"
cmp -s a.1 a.2 && fail 'two epochs are validated alike'
[ "$(head -n 1 a.2)" != "$(cat a.own)" ] || fail 'validated by the moments of microbatches'
rm -rf kept
run a.json --steps 20 --learning-rate 0.01 --checkpoint kept
run a.json --resume kept --forward-only --steps 2
list loss | cmp -s - a.2 || fail "an epoch after another: $(cat a.2), both at once $(list loss)"

refused 'does not train' one.json --forward-only --checkpoint one
refused '--learning-rate .*does not train' one.json --forward-only --learning-rate 0.1
refused '--learning-rate .*does not train' one.json --forward-only --learning-rate-policy step
refused '--forward-only' one.json --forward-only --compute paced
plan t.json --stages 1 --tensor-parallel 2
refused 'forward.*parallelism' t.json --forward-only
plan z.json --stages 1 --replicas 2 --zero 3
refused '--forward-only is unsupported with ZeRO 3' z.json --forward-only
echo "$first"
