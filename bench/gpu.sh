#!/bin/sh
# What docs/cuda.md says of a GPU, measured on one; for a bare machine that has a driver, cuBLAS and
# NCCL and perhaps PyTorch, lent for some minutes.
#
#     bench/gpu.sh pack BIN WORKERS DIR   here: all that a run needs, and the CPU's losses (minutes)
#     bench/gpu.sh run DIR OUT            there (a folder `lib` in DIR is used instead of its libraries):
#                                         OUT/README.md and the measurements; < 10 minutes
#
# BIN: directory of foreline (release); WORKERS: of the static workers (preset cuda); either may be the
# same. Without a GPU `run` says so and exits with status 77. FORELINE_BENCH_MODEL,
# _TRANSPORT and _BATCH in the environment replace gpt2-small, local and 8, for a try.
set -eu

model=${FORELINE_BENCH_MODEL:-gpt2-small}
steps=20
batch=${FORELINE_BENCH_BATCH:-8} microbatches=4 # of the runs that are timed
transport=${FORELINE_BENCH_TRANSPORT:-local}

fail() {
    echo "bench/gpu.sh: $*" >&2
    exit 1
}
number() { # number KEY FILE: the first such number
    sed -n "s/.*\"$1\": \([-0-9.e+]*\).*/\1/p" "$2" | head -n 1
}
text() { # text KEY FILE
    sed -n "s/.*\"$1\": \"\([^\"]*\)\".*/\1/p" "$2" | head -n 1
}
losses() { # losses FILE: one a line
    tr -d ' \n' <"$1" | sed 's/.*"loss":\[\([^]]*\)\].*/\1/' | tr ',' '\n'
}

# ---- here

# Shorter samples than GPT-2's, or the CPU would take an hour.
short="$model:tokens=128"

pack() {
    bin=$1 workers=$2 dir=$3
    mkdir -p "$dir/lib"
    cp "$bin/foreline" "$workers/foreline-worker-cuda" "$dir"
    strip "$dir/foreline" "$dir/foreline-worker-cuda"
    cp "$0" "$(dirname "$0")/gpt2_torch.py" "$dir"
    ldd "$bin/foreline" | sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p' | xargs -I{} cp -L {} "$dir/lib"
    cp -L "$(ldd "$bin/foreline" | sed -n 's/^[[:space:]]*\(\/[^ ]*ld-linux[^ ]*\) .*/\1/p')" \
        "$dir/lib/ld.so"
    short_plan "$dir/cpu-plan.json" 1
    FORELINE_WORKER=$workers/foreline-worker foreline run "$dir/cpu-plan.json" --steps $steps \
        --warmup 0 -o "$dir/cpu.json" >/dev/null
    du -sh "$dir"
}

# ---- there

foreline() {
    if [ -x "$dir/lib/ld.so" ]; then
        "$dir/lib/ld.so" --library-path "$dir/lib" "$dir/foreline" "$@"
    else
        "$dir/foreline" "$@"
    fi
}

short_plan() { # short_plan FILE STAGES: loss curves and equal parameters
    foreline plan --algorithm balanced --model "$short" --platform laptop --stages "$2" \
        --microbatches 4 --microbatch-size 1 -o "$1" >/dev/null
}

say() {
    printf '%s\n' "$@" | tee -a "$out/README.md"
}

self_test() {
    status=0
    "$dir/foreline-worker-cuda" --self-test >"$out/self-test.txt" 2>&1 || status=$?
    if [ $status = 77 ]; then
        cat "$out/self-test.txt"
        exit 77
    fi
    say "## Self-test" "" "exit status $status" ""
    sed 's/^/    /' "$out/self-test.txt" | tee -a "$out/README.md"
    say ""
}

# Losses of 20 steps in fp32 on the GPU and on the CPU; 1, 2 and 4 stages on one GPU.
curves() {
    say "## $short, fp32, 20 steps" ""
    hash=
    for stages in 1 2 4; do
        short_plan "$out/plan.json" $stages
        foreline run "$out/plan.json" --device cuda --transport $transport --steps $steps --warmup 0 \
            -o "$out/stages-$stages.json" >"$out/log" 2>&1 || { say "FAILED: $(cat "$out/log")"; return; }
        found=$(text parameters_sha256 "$out/stages-$stages.json")
        same="equal to those of one stage"
        [ "${hash:=$found}" = "$found" ] || same="OTHER than those of one stage"
        say "* $stages stages, transport $transport: parameters $(echo "$found" | cut -c1-16)... $same"
    done
    losses "$dir/cpu.json" >"$out/cpu.losses"
    losses "$out/stages-1.json" >"$out/gpu.losses"
    say "* $(paste "$out/cpu.losses" "$out/gpu.losses" | awk '
        { d = $2 / $1 - 1; d = d < 0 ? -d : d; if (d > worst || NR == 1) worst = d; first = NR == 1 ? $2 : first; last = $2 }
        END { printf "loss %g to %g in %d steps; largest relative difference from the CPU %.2g (limit 1e-3): %s",
                     first, last, NR, worst, NR == '$steps' && worst <= 1e-3 ? "ok" : "FAILED" }')" ""
}

# One stage timed, and what calibration and a profile predict of it.
speed() { # speed BITS
    dtype=fp32
    [ "$1" = 32 ] || dtype=bf16
    say "## $model, $dtype, $microbatches microbatches of $batch" ""
    foreline calibrate --device cuda --dtype $dtype --repeats 3 -o "$out/$dtype.xml" \
        >"$out/calibrate-$dtype.txt" 2>&1 || { say "FAILED: $(cat "$out/calibrate-$dtype.txt")"; return; }
    foreline model profile "$model:bits=$1" --device cuda --batch $batch --repeats 3 \
        -o "$out/model-$dtype.json" >"$out/log" 2>&1 || { say "FAILED: $(cat "$out/log")"; return; }
    for source in rates profile; do
        of=$model:bits=$1
        [ $source = rates ] || of=$out/model-$dtype.json
        foreline plan --algorithm balanced --model "$of" --platform "$out/$dtype.xml" --stages 1 \
            --microbatches $microbatches --microbatch-size $batch -o "$out/plan.json" >/dev/null
        foreline simulate "$out/plan.json" -o "$out/predicted-$dtype-$source.json" >/dev/null
    done
    foreline run "$out/plan.json" --device cuda --transport $transport --steps 20 --warmup 5 \
        -o "$out/run-$dtype.json" >"$out/run-$dtype.txt" 2>&1 || { say "FAILED: $(cat "$out/run-$dtype.txt")"; return; }
    measured=$(number iteration_s "$out/run-$dtype.json")
    tokens=$(number tokens_per_s "$out/run-$dtype.json")
    say "* measured: $measured s per iteration, $tokens tokens/s"
    for source in rates profile; do
        predicted=$(number iteration_s "$out/predicted-$dtype-$source.json")
        say "* predicted from the $source: $predicted s, $(awk "BEGIN { printf \"%+.1f %%\", 100 * ($predicted / $measured - 1) }")"
    done
    [ $dtype = bf16 ] && beside_torch
    say ""
}

beside_torch() {
    if ! timeout 120 python3 "$dir/gpt2_torch.py" 12 768 12 1024 $batch $microbatches 20 \
        >"$out/torch.txt" 2>"$out/torch.err"; then
        say "* PyTorch: not compared: $(tail -n 1 "$out/torch.err")"
        return
    fi
    read -r theirs name <"$out/torch.txt"
    say "* $name, the same model and batch: $theirs tokens/s; ours / theirs $(awk "BEGIN { printf \"%.2f\", $tokens / $theirs }") (aim: 0.9)"
}

run() {
    dir=$1 out=$2
    mkdir -p "$out"
    self=$(date -u +%F)
    : >"$out/README.md"
    self_test
    FORELINE_WORKER=$dir/foreline-worker-cuda
    export FORELINE_WORKER
    curves
    speed 16
    speed 32
    say "bench/gpu.sh, $self"
}

case "${1:-}:$#" in
pack:4) pack "$2" "$3" "$4" ;;
run:3) run "$2" "$3" ;;
*) fail "usage: bench/gpu.sh pack BIN WORKERS DIR, or run DIR OUT" ;;
esac
