#!/bin/sh
# plan_workers.sh FORELINE few|all: plans do not depend on how many processes search, nor on what
# else the machine does. Each case with 1, 2 and 8 workers, and with 8 beside four busy loops.
set -u
foreline=$1 which=$2
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 2
export LC_ALL=C
failed=0 busy=

# The plan's file and all that is printed, but for the option itself and what it took.
try() { # NAME WORKERS ARGUMENT...
    name=$1 workers=$2 && shift 2
    if ! "$foreline" plan "$@" --workers "$workers" --json -o plan.json >printed 2>error; then
        cat error >&2
        failed=1
    fi
    cat plan.json printed | sed "s/ --workers $workers / /g; s/\"cpu_s\": [0-9.e-]*//" >"$name"
    rm -f plan.json
}

same() { # ARGUMENT...
    try one 1 "$@"
    try two 2 "$@"
    try eight 8 "$@"
    for k in 1 2 3 4; do
        while :; do :; done &
        busy="$busy $!"
    done
    try loaded 8 "$@"
    kill $busy
    wait $busy 2>/dev/null
    busy=
    for name in two eight loaded; do
        cmp one "$name" || {
            echo "$*: with one worker another answer than with $name" >&2
            failed=1
        }
    done
    # the answer is one, and hangs on what is asked
    grep -q '"stages"' one || { echo "$*: no plan" >&2 && failed=1; }
    cmp -s one before && { echo "$*: the answer to another question" >&2 && failed=1; }
    cp one before
}

: >before
same --model mlp --platform laptop --batch 8 --finalists 4
same --model mlp --platform laptop --batch 8 --finalists 2 --jitter 0.1 --samples 4
if [ "$which" = all ]; then
    same --model gpt-tiny --platform laptop --batch 16
    same --model llama3-8b --platform rail:nodes=2,gpus=8,type=H100 --batch 64 --framework megatron
    same --model mixtral-8x7b --platform rail:nodes=8,gpus=8,type=H100 --batch 256 \
        --framework megatron
    same --model llama3-70b --platform rail:nodes=8,gpus=8,type=H100 --batch 512 --tokens 8192 \
        --framework megatron
    same --model gpt3-13b --platform two-racks --batch 64
fi
exit $failed
