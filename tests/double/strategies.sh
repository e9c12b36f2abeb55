#!/bin/sh
# Strategies by operator from the command line on the double: the CPU's losses within 1e-5 over every transport, halves
# or not; ten steps are five and five more from a checkpoint; halves wait for each other on the GPU alone; and what
# strategies are computed without is refused. `double.strategies` draws them at random.
# Usage: strategies.sh DIRECTORY_OF_BINARIES
set -eu
bin=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
. "$here/common.sh"
fail() {
    echo "FAIL: $*" >&2
    exit 1
}
near() { # the last run's losses and those in `wanted`, of the largest
    losses | paste -d ' ' wanted - | awk '{ d = $1 - $2; d = d < 0 ? -d : d; a = $1 < 0 ? -$1 : $1
        if (d > worst) worst = d; if (a > most) most = a } END { exit !(NR > 0 && worst <= 1e-5 * most) }'
}
strategy() { # strategy MODEL DEVICES OVERLAP
    "$bin/foreline" plan --algorithm spmd --model "$1" --devices $2 --overlap $3 --platform node:gpus=4 -o p.json \
        >plan.out 2>&1 || fail "plan $*: $(cat plan.out)"
}
shape=layers=2,batch=8,seq=6,hidden=16,inner=24,heads=4,experts=4
for model in tmlp:layers=3,batch=8,seq=4,hidden=12 tmoe:$shape rmoe:ops=1,$shape,classes=256; do
    steps=4
    strategy $model 1 none
    run cpu local || fail "$model on the CPU: $(why)"
    losses >wanted
    for how in "2 full nccl" "2 full tcp" "4 none nccl" "4 full local"; do
        set -- $how
        strategy $model $1 $2
        DOUBLE_RACES=1 run cuda $3 || fail "$model, $how: $(why)"
        near || fail "$model, $how: $(losses | tr '\n' ' '), not $(tr '\n' ' ' <wanted)"
    done
    whole=$(hash_of)
    steps=2
    run cuda local --checkpoint half || fail "$model: $(why)"
    run cuda local --resume half || fail "$model, from a checkpoint: $(why)"
    [ "$(hash_of)" = "$whole" ] || fail "$model: 2 + 2 steps are not 4"
    rm -rf half
done
for option in cuda-graphs cudnn; do
    ! run cuda local --$option || fail "--$option: it runs"
    grep -q "^foreline run: .*--$option: unsupported" err || fail "--$option: $(cat err)"
done
echo "losses of the CPU"
