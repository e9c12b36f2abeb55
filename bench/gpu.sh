#!/bin/sh
# What docs/reference/cuda.md says of GPUs, measured on a bare machine with 1 to 8 of them, lent for minutes: a
# driver, cuBLAS and NCCL, and perhaps compute-sanitizer, PyTorch and nccl-tests.
#
#     bench/gpu.sh pack BIN WORKERS DIR   here: all that a run needs, and the CPU's losses (minutes)
#     bench/gpu.sh run DIR OUT            there: OUT/README.md, the measurements, OUT.tar.gz; 8 minutes
#     bench/gpu.sh part NAME DIR OUT      one part of it again
#
# BIN: directory of foreline (release); WORKERS: of the static workers (preset cuda); either may be
# the same, and DIR may be a build's bin/. Every part has a time limit; one that fails or is stopped
# does not stop the others, and the summary says which did not come to an end, and why. Without a GPU
# `run` says so and exits with status 77; with 1 when a part failed.
#
# For a try, in the environment: FORELINE_BENCH_MODEL, _LARGE and _BATCH instead of gpt2-small, the
# large model below and 8; _STEPS instead of 20; _SECONDS for all instead of 480, and _PATIENCE times
# the limits of parts, for slow machines. FORELINE_NCCL_TESTS: the folder of nccl-tests, built or not.
set -eu

model=${FORELINE_BENCH_MODEL:-gpt2-small}
# The zoo has no llama of that size: GPT-2's layers in TinyLlama's size, 1.07 B parameters.
large=${FORELINE_BENCH_LARGE:-gpt2-small:layers=20,hidden=2048,heads=32,tokens=2048,vocabulary=32000}
large_name=${FORELINE_BENCH_LARGE:-"GPT-2 in TinyLlama's size (20 layers, 2048 wide, 2048 tokens, 32,000 classes: 1.07 B parameters; the zoo has no llama of that size)"}
batch=${FORELINE_BENCH_BATCH:-8} microbatches=4 # of the runs that are timed
steps=${FORELINE_BENCH_STEPS:-20} warmup=5
seconds=${FORELINE_BENCH_SECONDS:-480}
patience=${FORELINE_BENCH_PATIENCE:-1} # times the limits of parts
# Part and its limit in seconds, the most telling first.
parts='machine:20 selftest:45 gpt2:110 torch:100 calibrate:90 several:110 kernels:60 cudnn:30 nccl:100 large:80 memcheck:60 racecheck:60 curves:60'

fail() {
    echo "bench/gpu.sh: $*" >&2
    exit 1
}
skip() { # of a part: why there is nothing to do
    echo "$*"
    exit 77
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
percent() { # percent PREDICTED MEASURED
    awk "BEGIN { printf \"%+.1f %%\", 100 * ($1 / $2 - 1) }"
}
with() { # with MODEL KEY=VALUE: a model and one more parameter
    case $1 in
        *:*) echo "$1,$2" ;;
        *) echo "$1:$2" ;;
    esac
}
find_tool() { # find_tool NAME FOLDER...: its path
    wanted=$1
    shift
    command -v "$wanted" && return
    for place; do
        [ -x "$place/$wanted" ] && echo "$place/$wanted" && return
    done
    return 1
}

# ---- here

# Shorter samples than GPT-2's, or the CPU would take an hour.
short=$(with "$model" tokens=128)

pack() {
    bin=$1 workers=$2 dir=$3
    mkdir -p "$dir/lib/foreline" "$dir/share/foreline"
    cp -RL "$bin/../share/foreline/platforms" "$dir/share/foreline" # seen from lib/ld.so, too
    cp "$bin"/../lib/foreline/*.so "$dir/lib/foreline" # core/base/module.h: seen from lib/ld.so
    cp "$bin/foreline" "$workers/foreline-worker-cuda" "$dir"
    strip "$dir/foreline" "$dir/foreline-worker-cuda"
    cp "$0" "$(dirname "$0")/gpt2_torch.py" "$dir"
    cp "$(dirname "$0")"/../docs/results/*-roofline.md "$dir/roofline.md" # the newest
    [ ! -d "${FORELINE_NCCL_TESTS:-}" ] || cp -r "$FORELINE_NCCL_TESTS" "$dir/nccl-tests"
    for object in "$bin/foreline" "$dir"/lib/foreline/*.so; do
        ldd "$object" | sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p'
    done | sort -u | xargs -I{} cp -L {} "$dir/lib"
    cp -L "$(ldd "$bin/foreline" | sed -n 's/^[[:space:]]*\(\/[^ ]*ld-linux[^ ]*\) .*/\1/p')" \
        "$dir/lib/ld.so"
    short_plan "$dir/cpu-plan.json" 1
    FORELINE_WORKER=$workers/foreline-worker foreline run "$dir/cpu-plan.json" --steps "$steps" \
        --warmup 0 -o "$dir/cpu.json" >/dev/null
    du -sh "$dir"
}

# ---- there

before= # a profiler and its options
foreline() {
    # shellcheck disable=SC2086 # words
    if [ -x "$dir/lib/ld.so" ]; then
        $before "$dir/lib/ld.so" --library-path "$dir/lib" "$dir/foreline" "$@"
    else
        $before "$dir/foreline" "$@"
    fi
}

short_plan() { # short_plan FILE STAGES: loss curves and equal parameters
    foreline plan --algorithm balanced --model "$short" --platform laptop --stages "$2" \
        --microbatches 4 --microbatch-size 1 -o "$1" >/dev/null
}

say() { # into the part's page
    printf '%s\n' "$@" >>"$out/$part.md"
}
quote() { # quote FILE: as a block of the page
    sed 's/^/    /' "$1" >>"$out/$part.md"
    say ""
}
do_or_tell() { # do_or_tell WHAT COMMAND...: what it prints is the reason when it fails, or when a profile does not count
    what=$1
    shift
    "$@" >"$out/log" 2>&1 && ! grep -q 'they do not count' "$out/log" && return
    say "* $what FAILED: $(tail -n 3 "$out/log" | tr '\n' ' ')"
    echo "$what: $(tail -n 1 "$out/log")"
    return 1
}

gpus() {
    nvidia-smi -L | grep -c '^GPU ' || true
}
gpu_type() { # as foreline's catalogue has it, "" when it has not
    name=$(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1)
    for type in GB200 GH200 B200 H200 H100 A100 V100; do
        case $name in *"$type"*) echo $type && return ;; esac
    done
}

# ---- the parts: each a process of its own

part_machine() {
    foreline --version >"$out/version.txt"
    nvidia-smi --query-gpu=index,name,uuid,driver_version,memory.total,clocks.max.sm,power.limit \
        --format=csv >"$out/gpus.txt"
    nvidia-smi topo -m >"$out/topology.txt" 2>&1 || echo "(nvidia-smi topo failed)" >>"$out/topology.txt"
    say "commit: $(head -n 1 "$out/version.txt"), preset cuda (worker) and release" \
        "" "machine: $(uname -srm), $(nproc) cores, load at the start $(cut -d' ' -f1-3 /proc/loadavg)" ""
    quote "$out/gpus.txt"
    quote "$out/topology.txt"
}

part_selftest() {
    status=0
    "$dir/foreline-worker-cuda" --self-test >"$out/self-test.txt" 2>&1 || status=$?
    say "exit status $status" ""
    quote "$out/self-test.txt"
    [ $status = 0 ] || fail "exit status $status: $(tail -n 1 "$out/self-test.txt")"
}

sanitize() { # sanitize TOOL
    tool=$(find_tool compute-sanitizer /usr/local/cuda/bin /usr/local/cuda/compute-sanitizer) ||
        skip "compute-sanitizer is not installed"
    status=0
    "$tool" --tool "$1" --error-exitcode 9 "$dir/foreline-worker-cuda" --self-test layers \
        >"$out/$1.txt" 2>&1 || status=$?
    grep '^=========' "$out/$1.txt" | tail -n 20 >"$out/log" || true
    say "compute-sanitizer --tool $1, self-test of all layers: exit status $status" ""
    quote "$out/log"
    [ $status = 0 ] || fail "$1 finds errors (or failed): exit status $status"
}
part_memcheck() { sanitize memcheck; }
part_racecheck() { sanitize racecheck; }

# Predictions of one GPU from its rates and from the model's profile, then the run.
one_gpu() { # one_gpu NAME MODEL BATCH MICROBATCHES BITS
    dtype=fp32
    [ "$5" = 32 ] || dtype=bf16
    of=$(with "$2" "bits=$5")
    [ -f "$out/$dtype.xml" ] || do_or_tell "calibration in $dtype" foreline calibrate --device cuda \
        --dtype $dtype --repeats 3 -o "$out/$dtype.xml" || return 1
    do_or_tell "profile of $1" foreline model profile "$of" --device cuda --batch "$3" --repeats 3 \
        -o "$out/$1-model.json" || return 1
    for source in rates profile; do
        from=$of
        [ $source = rates ] || from=$out/$1-model.json
        do_or_tell "plan from the $source" foreline plan --algorithm balanced --model "$from" \
            --platform "$out/$dtype.xml" --stages 1 --microbatches "$4" --microbatch-size "$3" \
            -o "$out/$1-plan.json" || return 1
        do_or_tell "prediction from the $source" foreline simulate "$out/$1-plan.json" --engine analytic \
            -o "$out/$1-predicted-$source.json" || return 1
    done
    do_or_tell "run of $1" foreline run "$out/$1-plan.json" --device cuda --steps "$steps" \
        --warmup $warmup -o "$out/$1-run.json" --trace "$out/$1-trace.json" || return 1
    measured=$(number iteration_s "$out/$1-run.json")
    say "| $of, $4 microbatches of $3 | |" "|---|---|" \
        "| measured | $measured s per iteration, $(number tokens_per_s "$out/$1-run.json") tokens/s |" \
        "| on | $(grep -o '"name": "[^"]*", "uuid"' "$out/$1-run.json" | head -n 1 | cut -d'"' -f4) |" \
        "| peak memory | $(number peak_bytes "$out/$1-run.json") bytes, predicted $(number peak_bytes "$out/$1-predicted-profile.json") |"
    for source in rates profile; do
        predicted=$(number iteration_s "$out/$1-predicted-$source.json")
        say "| predicted from the $source | $predicted s, $(percent "$predicted" "$measured") |"
    done
    say ""
    do_or_tell "compare" foreline compare "$out/$1-predicted-profile.json" "$out/$1-run.json" || return 1
    cp "$out/log" "$out/$1-compare.tsv"
    quote "$out/log"
}

# The run again with passes as CUDA graphs: the same parameters, and how long it takes.
with_graphs() { # with_graphs NAME
    do_or_tell "run of $1 with graphs" foreline run "$out/$1-plan.json" --device cuda --cuda-graphs --steps "$steps" \
        --warmup $warmup -o "$out/$1-graphs.json" || return 1
    took=$(number iteration_s "$out/$1-graphs.json") same="the same parameters"
    [ "$(text parameters_sha256 "$out/$1-graphs.json")" = "$(text parameters_sha256 "$out/$1-run.json")" ] ||
        same="OTHER parameters"
    say "With --cuda-graphs: $took s per iteration, $(percent "$took" "$(number iteration_s "$out/$1-run.json")") beside the run" \
        "without, peak memory $(number peak_bytes "$out/$1-graphs.json") bytes, $same." ""
    [ "$same" = "the same parameters" ] || fail "$1 with graphs has other parameters"
}

part_gpt2() {
    one_gpu gpt2 "$model" "$batch" $microbatches 16 || return 1
    with_graphs gpt2 || return 1
    type=$(gpu_type)
    [ "$type" ] || return 0
    do_or_tell "plan before any measurement" foreline plan --algorithm balanced --model "$(with "$model" bits=16,flash=1)" \
        --platform "node:gpus=2,type=$type" --stages 1 --microbatches $microbatches --microbatch-size "$batch" \
        -o "$out/before-plan.json" || return 1
    do_or_tell "prediction before any measurement" foreline simulate "$out/before-plan.json" --engine analytic \
        --framework worker -o "$out/before-predicted.json" || return 1
    predicted=$(number iteration_s "$out/before-predicted.json")
    say "Predicted before any measurement, launch by launch (docs/results/2026-11-23-roofline.md): $predicted s," \
        "$(number tokens_per_s "$out/before-predicted.json") tokens/s," \
        "$(percent "$predicted" "$(number iteration_s "$out/gpt2-run.json")"); the goal is 5 %." ""
}

part_large() {
    say "$large_name" ""
    one_gpu large "$large" 2 $microbatches 16
}

part_torch() {
    python3 -c 'import torch' 2>/dev/null || skip "PyTorch is not installed"
    status=0
    python3 "$dir/gpt2_torch.py" 12 768 12 1024 "$batch" $microbatches "$steps" \
        >"$out/torch.txt" 2>"$out/torch.err" || status=$?
    ours=$(number tokens_per_s "$out/gpt2-run.json" 2>/dev/null || true)
    while read -r theirs name; do
        say "* $name: $theirs tokens/s${ours:+; ours / theirs $(awk "BEGIN { printf \"%.2f\", $ours / $theirs }") (goal, compiled: 1.00)}"
    done <"$out/torch.txt"
    say ""
    [ $status = 0 ] || fail "$(tail -n 1 "$out/torch.err")"
}

# All GPUs at once: shapes of the model and its shards, NCCL's curves by group, ops beside collectives, the host's
# time for a launch, clocks and power: the platform that `several` predicts with besides the data sheet's.
part_calibrate() {
    all=$(gpus)
    [ "$all" -ge 2 ] || skip "one GPU: part gpt2 calibrates it"
    do_or_tell "calibration of $all GPUs" foreline calibrate --device cuda --ranks "$all" --model "$(with "$model" bits=16)" \
        --batch "$batch" --repeats 3 --table -o "$out/all.xml" || return 1
    cp "$out/log" "$out/all.txt"
    say "$(grep -c '"curve:' "$out/all.xml" || true) curves of collectives in all.xml; all figures in all.txt, of which:" ""
    grep -E '^(beside|host|at work|messages|#.*(busy|idle)) ' "$out/all.txt" >"$out/log" || true
    quote "$out/log"
}

# Ways to use all GPUs and fewer: predicted from the profile of one, on a platform whose links are the
# data sheet's, and on that of part calibrate, then run.
part_several() {
    all=$(gpus)
    [ "$all" -ge 2 ] || skip "one GPU"
    type=$(gpu_type)
    [ "$type" ] || skip "the catalogue has no GPU like $(nvidia-smi -L | head -n 1)"
    [ -f "$out/gpt2-model.json" ] || skip "part gpt2 left no profile"
    bad=0
    say "| GPUs | plan | predicted, links of the data sheet (s) | measured (s) | error | predicted, as calibrated (s) | error |" \
        "|---|---|---|---|---|---|---|"
    for n in $(echo "$all 2 4" | tr ' ' '\n' | awk -v all="$all" '$1 <= all && !seen[$1]++'); do
        several_run "$n" replicas --bucket 25MB || bad=$((bad + 1))
        several_run "$n" replicas --zero 2 || bad=$((bad + 1))
        several_run "$n" stages || bad=$((bad + 1))
        several_run "$n" tensor-parallel || bad=$((bad + 1))
    done
    say ""
    [ $bad = 0 ] || fail "$bad runs failed"
}
several_run() { # several_run GPUS WAY OPTIONS...
    n=$1 way=$2
    shift 2
    options=$* name=several-$n-$way$(echo "$*" | tr -d ' -')
    [ "$way" = stages ] || set -- --stages 1 "$@"
    do_or_tell "platform of $name" foreline topology generate "node:gpus=$n,type=$type" -o "$out/node.xml" || return 1
    sed 's/\(id="type" value="\)[^"]*/\1cuda/' "$out/node.xml" >"$out/node-$n.xml" # what the profile is of
    do_or_tell "plan of $name" foreline plan --algorithm balanced --model "$out/gpt2-model.json" \
        --platform "$out/node-$n.xml" "--$way" "$n" "$@" \
        --microbatches $microbatches --microbatch-size "$batch" -o "$out/$name-plan.json" || return 1
    do_or_tell "prediction of $name" foreline simulate "$out/$name-plan.json" --engine analytic --nccl-protocols \
        -o "$out/$name-predicted.json" || return 1
    do_or_tell "run of $name" foreline run "$out/$name-plan.json" --device cuda --steps 10 --warmup 3 \
        -o "$out/$name.json" || return 1
    predicted=$(number iteration_s "$out/$name-predicted.json")
    measured=$(number iteration_s "$out/$name.json")
    say "| $n | $way${options:+ $options} | $predicted | $measured | $(percent "$predicted" "$measured") | $(as_calibrated "$measured" "$n" "$@") |"
}
as_calibrated() { # as_calibrated MEASURED GPUS OPTIONS...: the same plan on that platform, and its error
    took=$1
    shift
    [ -f "$out/all.xml" ] || { echo "no calibration | -" && return; }
    foreline plan --algorithm balanced --model "$out/gpt2-model.json" --platform "$out/all.xml" "--$way" "$@" \
        --microbatches $microbatches --microbatch-size "$batch" -o "$out/$name-calibrated-plan.json" >"$out/log" 2>&1 &&
        foreline simulate "$out/$name-calibrated-plan.json" --engine analytic -o "$out/$name-calibrated-predicted.json" \
            >"$out/log" 2>&1 || { echo "FAILED: $(tail -n 1 "$out/log" | tr '|' '/') | -" && return; }
    echo "$(number iteration_s "$out/$name-calibrated-predicted.json") |" \
        "$(percent "$(number iteration_s "$out/$name-calibrated-predicted.json")" "$took")"
}

# Each kernel beside the roofline that was written before any measurement. Adam is launched once a microbatch here, so
# it counts them: rehearsed ones too.
part_kernels() {
    nsys=$(find_tool nsys /usr/local/cuda/bin /opt/nvidia/nsight-systems/*/bin) || skip "nsys is not installed"
    [ -f "$dir/roofline.md" ] || skip "no roofline (bench/gpu.sh pack copies it)"
    do_or_tell "plan of one microbatch" foreline plan --algorithm balanced --model "$(with "$model" bits=16)" \
        --platform laptop --stages 1 --microbatches 1 --microbatch-size "$batch" -o "$out/one-plan.json" || return 1
    before="$nsys profile -t cuda --force-overwrite true -o $out/kernels"
    do_or_tell "run under nsys" foreline run "$out/one-plan.json" --device cuda --steps 5 --warmup 1 -o "$out/one-run.json" || return 1
    do_or_tell "kernels from nsys" "$nsys" stats --force-export=true --report cuda_gpu_kern_sum --format csv \
        "$out/kernels.nsys-rep" || return 1
    cp "$out/log" "$out/kernels.csv"
    by_kernel "$dir/roofline.md" "$out/kernels.csv" >"$out/log" || fail "nsys tells of no kernel of ours: $(tail -n 1 "$out/kernels.csv")"
    cat "$out/log" >>"$out/$part.md"
}
# Attention by our kernels and by cuDNN, PyTorch's where the machine has none of its own: milliseconds, and whether
# two calls leave the same bits; then the same shapes as in the self-test against the CPU's.
part_cudnn() {
    pip=$(python3 -c 'import nvidia.cudnn; print(list(nvidia.cudnn.__path__)[0] + "/lib")' 2>/dev/null) || pip=
    for one in cudnn-speed cudnn; do
        status=0
        LD_LIBRARY_PATH="${LD_LIBRARY_PATH:-}${pip:+:$pip}" "$dir/foreline-worker-cuda" --self-test $one \
            >"$out/$one.txt" 2>&1 || status=$?
        [ $status != 77 ] || skip "$(tail -n 1 "$out/$one.txt")"
        quote "$out/$one.txt"
        [ $status = 0 ] || fail "$one: exit status $status: $(tail -n 1 "$out/$one.txt")"
    done
}
# Names as the roofline has them, without void, parameters, bf16 and suffixes of numbers; what is none of ours is
# cuBLAS's. CSV: time, total ns, instances, average ns, ..., name.
by_kernel() { # by_kernel ROOFLINE CSV
    awk -v table="$1" '
        FILENAME == table && /^\| `/ {
            split($0, cell, /[`|]/)
            name = cell[3]; gsub(/^ +| +$/, "", name)
            split($0, part, / *\| */)
            if (name ~ /^product/) { launches["products"] += part[3]; wanted["products"] += part[6] }
            else { launches[name] = part[3]; wanted[name] = part[6] }
            if (name !~ /^product/) order[++n] = name
            next
        }
        FILENAME != table && /^ *[0-9]/ {
            name = $0; for (k = 1; k <= 8; k++) sub(/^[^,]*,/, "", name)
            split($0, part, ",")
            gsub(/"|^void |<__nv_bfloat16>|, __nv_bfloat16/, "", name); sub(/^void /, "", name); sub(/\(.*/, "", name)
            if (match(name, /[0-9](u|UL|ul)>/)) name = substr(name, 1, RSTART) ">"
            if (!(name in wanted)) name = "products"
            took[name] += part[2]; seen[name] += part[3]
        }
        END {
            times = seen["adam"]; if (times == 0) exit 1
            order[++n] = "products"
            print "| kernel | launches | roofline (us) | measured (us) | measured / roofline |"; print "|---|---|---|---|---|"
            for (k = 1; k <= n; k++) {
                name = order[k]; if (!(name in wanted)) continue
                us = took[name] / times / 1000; all += us; of += wanted[name]
                printf "| `%s` | %d | %.4g | %s |\n", name, launches[name], wanted[name],
                    seen[name] ? sprintf("%.4g | %.2f", us, us / wanted[name]) : "- | -"
            }
            printf "| together | | %.4g | %.4g | %.2f |\n\n", of, all, all / of
        }' "$1" "$2"
}

# nccl-tests' curves, and beside them what the runs of `several` measured and what was predicted.
part_nccl() {
    all=$(gpus)
    [ "$all" -ge 2 ] || skip "one GPU"
    folder=${FORELINE_NCCL_TESTS:-$dir/nccl-tests}
    if ! find_tool all_reduce_perf "$folder" "$folder/build" /opt/nccl-tests/build \
        /usr/local/nccl-tests/build >/dev/null; then
        [ -f "$folder/Makefile" ] || skip "nccl-tests are not installed (FORELINE_NCCL_TESTS=FOLDER)"
        nvcc=$(find_tool nvcc /usr/local/cuda/bin) || skip "nccl-tests are not built, and there is no nvcc"
        make -s -C "$folder" -j "$(nproc)" CUDA_HOME="$(dirname "$(dirname "$nvcc")")" \
            NVCC_GENCODE=-arch=native >"$out/log" 2>&1 || fail "nccl-tests: $(tail -n 1 "$out/log")"
    fi
    for kind in all_reduce reduce_scatter all_gather sendrecv; do
        tool=$(find_tool ${kind}_perf "$folder" "$folder/build" /opt/nccl-tests/build \
            /usr/local/nccl-tests/build) || continue
        "$tool" -b 4K -e 1G -f 4 -g "$all" -n 10 -w 3 >"$out/nccl-tests-$kind.txt" 2>&1 ||
            fail "$kind: $(tail -n 1 "$out/nccl-tests-$kind.txt")"
        say "$kind, $all GPUs, nccl-tests:" ""
        quote "$out/nccl-tests-$kind.txt"
    done
    say "| run | collective | bytes | predicted (us) | measured (us) | nccl-tests, nearest size (us) |" \
        "|---|---|---|---|---|---|"
    for run in "$out"/several-"$all"-*.json; do
        case $run in *-plan.json | *-predicted.json) continue ;; esac
        [ -f "$run" ] && beside_nccl_tests "$run"
    done
    say ""
}
calls() { # calls FILE: kind, bytes, microseconds of one call
    tr -d '\n' <"$1" | sed 's/.*"collectives": \[\([^]]*\)\].*/\1/' | tr '}' '\n' | sed -n \
        's/.*"kind": "\([^"]*\)", "members": [0-9]*, "bytes": \([0-9]*\), "calls": \([0-9.e+]*\), "total_s": \([0-9.e+-]*\).*/\1 \2 \3 \4/p' |
        awk '{ print $1, $2, 1e6 * $4 / $3 }'
}
beside_nccl_tests() { # beside_nccl_tests MEASUREMENT
    calls "$1" >"$out/measured.calls"
    calls "${1%.json}-predicted.json" >"$out/predicted.calls"
    while read -r kind bytes measured; do
        predicted=$(awk -v k="$kind" -v b="$bytes" '$1 == k && $2 == b { print $3; exit }' "$out/predicted.calls")
        file=$out/nccl-tests-$(echo "$kind" | tr - _).txt
        [ "$kind" != send ] || file=$out/nccl-tests-sendrecv.txt
        near=
        [ ! -f "$file" ] || near=$(awk -v b="$bytes" '$1 + 0 > 0 && NF > 7 {
            d = log($1 / b); d = d < 0 ? -d : d; if (best == "" || d < best) { best = d; t = $6 } }
            END { print t }' "$file")
        say "| $(basename "$1" .json) | $kind | $bytes | ${predicted:--} | $measured | ${near:--} |"
    done <"$out/measured.calls"
}

# Losses of some steps in fp32 on the GPU and on the CPU; 1, 2 and 4 stages on one GPU, and over NCCL.
part_curves() {
    [ -f "$dir/cpu.json" ] || skip "no losses of the CPU (bench/gpu.sh pack makes them)"
    FORELINE_SHARE_GPU=1
    export FORELINE_SHARE_GPU
    hash='' bad=0
    for how in 1:local 2:local 4:local "$(gpus):nccl"; do
        stages=${how%:*} transport=${how#*:}
        short_plan "$out/plan.json" "$stages"
        do_or_tell "$stages stages over $transport" foreline run "$out/plan.json" --device cuda \
            --transport "$transport" --steps "$steps" --warmup 0 \
            -o "$out/curves-$stages-$transport.json" || { bad=$((bad + 1)) && continue; }
        found=$(text parameters_sha256 "$out/curves-$stages-$transport.json")
        same="equal to those of one stage"
        [ "${hash:=$found}" = "$found" ] || { same="OTHER than those of one stage" && bad=$((bad + 1)); }
        say "* $stages stages over $transport: parameters $(echo "$found" | cut -c1-16)... $same"
    done
    losses "$dir/cpu.json" >"$out/cpu.losses"
    losses "$out/curves-1-local.json" >"$out/gpu.losses"
    paste "$out/cpu.losses" "$out/gpu.losses" | awk -v n="$steps" '
        { d = $2 / $1 - 1; d = d < 0 ? -d : d; if (d > worst || NR == 1) worst = d; first = NR == 1 ? $2 : first; last = $2 }
        END { good = NR == n && worst <= 1e-3
              printf "loss %g to %g in %d steps; largest relative difference from the CPU %.2g (limit 1e-3): %s\n",
                     first, last, NR, worst, good ? "ok" : "FAILED"; exit !good }' >"$out/log" || bad=$((bad + 1))
    say "* $short, fp32: $(cat "$out/log")" ""
    [ $bad = 0 ] || fail "$bad of the comparisons failed"
}

# ---- all parts, and the page

now() {
    date +%s
}
run_part() { # run_part NAME LIMIT
    left=$((end - $(now))) limit=$(($2 * patience))
    [ "$limit" -le "$left" ] || limit=$left
    if [ "$limit" -lt 3 ]; then
        outcome "$1" skipped 0 "no time is left of $seconds s"
        return
    fi
    begin=$(now) status=0
    rm -f "$out/$1.md"
    echo "$1 (at most $limit s)" >&2
    timeout -k 5 "$limit" sh "$self" part "$1" "$dir" "$out" >"$out/$1.log" 2>&1 || status=$?
    took=$(($(now) - begin)) why=$(tail -n 1 "$out/$1.log" | cut -c1-300 | tr '|' '/')
    case $status in
        0) outcome "$1" complete $took "" ;;
        77) outcome "$1" skipped $took "$why" ;;
        124 | 137) outcome "$1" stopped $took "its $limit s were over; $why" ;;
        *) outcome "$1" failed $took "$why" ;;
    esac
}
outcome() { # outcome PART WHAT SECONDS WHY
    echo "| $1 | $2 | $3 | $4 |" >>"$out/outcomes.md"
    echo "$1: $2 ($3 s) $4" >&2
}
title() { # title PART
    case $1 in
        machine) echo "Machine" ;;
        selftest) echo "Self-test" ;;
        gpt2) echo "$model in bf16 on one GPU: predicted and measured" ;;
        torch) echo "PyTorch beside it: compiled, vocabulary padded to 50,304" ;;
        calibrate) echo "All GPUs calibrated: curves, interference, launches, power" ;;
        several) echo "Several GPUs over NCCL" ;;
        kernels) echo "Kernels beside the roofline" ;;
        cudnn) echo "Attention by our kernels and by cuDNN" ;;
        nccl) echo "nccl-tests beside our curves" ;;
        large) echo "About a billion parameters on one GPU" ;;
        memcheck) echo "Self-test under compute-sanitizer: memcheck" ;;
        racecheck) echo "Self-test under compute-sanitizer: racecheck" ;;
        curves) echo "Losses in fp32 against the CPU; equal parameters" ;;
    esac
}
page() { # in the order of CONTRIBUTING.md, "How a number gets into docs/results"
    echo "# GPUs: bench/gpu.sh, $(date -u +%F)"
    echo
    echo "    bench/gpu.sh pack BIN WORKERS DIR    # once, elsewhere"
    echo "    bench/gpu.sh run DIR OUT             # on the machine, $(($(now) - end + seconds)) s"
    echo
    echo "Fitted: rates (calibrate) and the profile, each on one GPU before any run; several GPUs are"
    echo "predicted from the profile and the links of the data sheet, and on the platform of calibrate with all of them."
    echo "No run was used for a prediction."
    echo
    echo "| part | outcome | seconds | why |"
    echo "|---|---|---|---|"
    cat "$out/outcomes.md"
    for entry in $parts; do
        part=${entry%:*}
        [ -f "$out/$part.md" ] || continue
        echo
        echo "## $(title "$part")"
        echo
        cat "$out/$part.md"
    done
}
run() {
    gpu=$(nvidia-smi -L 2>&1 | grep '^GPU ' | head -n 1) || true
    [ "$gpu" ] || { echo "bench/gpu.sh: no GPU: $(nvidia-smi -L 2>&1 | head -n 1)" && exit 77; }
    mkdir -p "$out"
    : >"$out/outcomes.md"
    end=$(($(now) + seconds))
    for entry in $parts; do
        run_part "${entry%:*}" "${entry#*:}"
    done
    page >"$out/README.md"
    rm -f "$out"/*.calls "$out/log" "$out/node.xml"
    tar -czf "$out.tar.gz" -C "$(dirname "$out")" "$(basename "$out")"
    echo "$out/README.md and all else in $out.tar.gz" >&2
    ! grep -q '| failed |\|| stopped |' "$out/outcomes.md"
}

case "${1:-}:$#" in
pack:4) pack "$2" "$3" "$4" ;;
run:3)
    self=$0 dir=$2 out=$3
    run
    ;;
part:4)
    part=$2 dir=$3 out=$4
    FORELINE_WORKER=$dir/foreline-worker-cuda
    export FORELINE_WORKER
    "part_$part"
    ;;
*) fail "usage: bench/gpu.sh pack BIN WORKERS DIR, or run DIR OUT, or part NAME DIR OUT" ;;
esac
