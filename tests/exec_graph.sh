#!/bin/sh
# Stages that are parts of a graph, on devices in any order, train as one process does, bit for bit.
# Usage: exec_graph.sh DIRECTORY_OF_BINARIES
set -eu
tool=$(cd "$1" && pwd)/foreline
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
unset RANK WORLD_SIZE FORELINE_WORKER

fail() {
    echo "FAIL: $*" >&2
    exit 1
}
run() { # run MODEL STAGES ALGORITHM: plan.json, and the hash of the parameters
    "$tool" plan --model "$1" --platform node:gpus=4 --stages "$2" --algorithm "$3" \
        --microbatches 4 --microbatch-size 1 --granularity op -o plan.json >out 2>&1 ||
        fail "plan $*: $(cat out)"
    "$tool" run plan.json --compute real --steps 2 --warmup 0 --json >m.json 2>err ||
        fail "run $*: $(cat err)"
    sed -n 's/.*"parameters_sha256": "\([0-9a-f]*\)".*/\1/p' m.json
}
# Are the ops of all stages, one after the other, in another order than the model's?
reordered() {
    sed -n '/"ops": \[/,/\]/p' plan.json | tr -d ' ",[]' | grep -v '^ops:$' | grep . >plan.ops
    "$tool" plan --model "$1" --platform node:gpus=4 --stages 1 --algorithm uniform \
        --microbatches 4 --microbatch-size 1 -o one.json >out 2>&1
    sed -n '/"ops": \[/,/\]/p' one.json | tr -d ' ",[]' | grep -v '^ops:$' | grep . >one.ops
    ! cmp -s plan.ops one.ops
}

examples=$here/../examples/partitioners-on-branching-models
for case in gnmt:layers=2,hidden=64,vocabulary=512,tokens=10+graph:levels+igraph:mincut \
    resnet:side=32,depth=18,width=8+graph:levels+igraph:mincut \
    "$examples/two-towers.json+graph:levels+graph" "$examples/image-and-text.json+graph:levels"; do
    model=${case%%+*}
    one=$(run "$model" 1 uniform)
    [ ${#one} = 64 ] || fail "no parameters_sha256 of $model"
    for algorithm in $(echo "${case#*+}" | tr + ' '); do
        got=$(run "$model" 3 "$algorithm")
        [ "$got" = "$one" ] || fail "$model by $algorithm: parameters $got, not $one"
        [ "$algorithm" != graph:levels ] || reordered "$model" ||
            fail "$model: an order as the model's"
    done
done

# What a file says about memory changes no result: an LSTM reads its output again in the backward, where the
# residual behind it does not.
"$tool" model import gnmt:layers=3,hidden=64,vocabulary=512,tokens=10 -o kept.json 2>/dev/null
sed 's/"stash_bytes": [0-9]*/"stash_bytes": 0/' kept.json >nothing.json
one=$(run kept.json 1 uniform)
got=$(run nothing.json 1 uniform)
[ "$got" = "$one" ] || fail "with stash_bytes 0: parameters $got, not $one"
