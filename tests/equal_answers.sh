#!/bin/sh
# A search gives the same plan with 1, 2 and 8 workers, on an idle machine and beside four busy loops.
# Usage: equal_answers.sh FORELINE
set -u
tool=$1
dir=$(mktemp -d) && trap 'kill $(cat "$dir/pids") 2>/dev/null; rm -rf "$dir"' EXIT
failed=0 cases=0
: >"$dir/pids"
search() { # name, workers, words: the plan but for how it was asked for
    name=$1 workers=$2
    shift 2
    "$tool" plan "$@" --workers "$workers" -o "$dir/plan.json" >/dev/null 2>&1 || echo "no plan: $*"
    grep -v -- --workers "$dir/plan.json" >"$dir/$name"
}
while read -r words; do
    # shellcheck disable=SC2086 # words
    for n in 1 2 8; do search "$n" "$n" $words; done
    for _ in 1 2 3 4; do
        (while :; do :; done) &
        echo $! >>"$dir/pids"
    done
    # shellcheck disable=SC2086
    search busy 2 $words
    # shellcheck disable=SC2046
    kill $(cat "$dir/pids")
    wait
    : >"$dir/pids"
    cases=$((cases + 1))
    for other in 2 8 busy; do
        if ! cmp -s "$dir/1" "$dir/$other" || [ ! -s "$dir/1" ]; then
            echo "$other workers: $words"
            failed=1
        fi
    done
done <<'LIST'
--model llama3-70b --platform rail:nodes=8,gpus=8,type=H100 --batch 512
--model llama3-8b --platform leaf-spine:nodes=8,gpus=8,rack=2,oversubscription=4,type=A100 --batch 256 --framework megatron
--model unet --platform two-racks --stages 4 --microbatches 16
--model gpt2-xl --platform node:gpus=8,type=V100 --batch 64
--model mixtral-8x7b:layers=12 --platform rail:nodes=3,gpus=8,type=A100 --batch 48
--model gnmt --platform laptop --batch 32 --granularity op
--model bart-base --platform leaf-spine:nodes=7,gpus=2,rack=3,oversubscription=8,type=A100 --batch 56 --placement optimised
LIST
echo "$cases searches"
exit $failed
