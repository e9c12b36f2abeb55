#!/bin/sh
# Every option of a command, in every way of calling it, is obeyed or refused. Usage:
# walk_options.sh FORELINE LIST COMMAND; LIST prints the options of the table of settings.
#
# For each way of calling the command (below) and each of its options:
#   refused  status 2, one line on standard error, nothing on standard output, or
#   obeyed   what the call prints, writes and exits with is another than without the option.
# Of an option's values, other than its default, either one at least is obeyed, or all are refused. Options whose effect no
# output can show on a quiet machine are named in `unseen`, with the reason; those that are about
# what only some inputs have are named in `depends`, and must be obeyed in another of the ways.
set -u
foreline=$1 list=$2 command=$3
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 2
export XDG_CACHE_HOME="$dir/cache" LC_ALL=C
"$list" | grep "^$command " >options
failed=0 obeyed=0 refused=0 hidden=0 ways=0

# ---- inputs, in in/

mkdir in
(
    cd in || exit 2
    cp "$here/cli/import-placement/input/graph.json" .
    python3 "$here/msccl_files.py" msccl && cp msccl/fused.xml algorithm.xml
    cp "$here/cli/import-piper/input/graph.json" piper.json
    cp -r "$here/cli/simulate-capture/input/sums" .
    cp "$here/cli/lab-kernels/input/products.csv" "$here/cli/lab-scoreboard/input/small.json" .
    "$foreline" plan --model gpt-tiny --platform laptop --algorithm balanced --stages 2 -o p.json
    "$foreline" plan --model gpt-tiny --platform laptop --algorithm balanced --stages 2 --replicas 2 -o r.json
    "$foreline" plan --model gpt3-13b --platform two-racks --algorithm balanced --stages 2 --replicas 2 \
        --microbatches 2400 -o big.json
    "$foreline" plan --model gpt-tiny --platform two-racks --algorithm balanced --stages 1 --replicas 8 -o j.json
    t='forward_compute_time=4.0, backward_compute_time=8.0'
    {
        echo "node1 -- Input0 -- $t, activation_size=0.0, parameter_size=0.0"
        echo "node2 -- Conv2d(3, 64) -- $t, activation_size=100000.0, parameter_size=100000.0"
        echo "node3 -- ReLU -- $t, activation_size=1000000.0, parameter_size=0.0"
        echo "node4 -- Linear(10) -- $t, activation_size=1000.0, parameter_size=4000000.0"
        printf '\tnode1 -- node2\n\tnode2 -- node3\n\tnode3 -- node4\n'
    } >graph.txt
    "$foreline" simulate p.json -o a.json --trace t.json
    printf 'p.json,0.5\nr.json,0.4\n' >m.csv
    printf 'p.json,0.3\nr.json,0.4\n' >m2.csv
    "$foreline" run p.json --compute paced --steps 2 --warmup 0 --transport local -o run.json
    "$foreline" run p.json --steps 1 --warmup 0 --transport local --checkpoint ck
    printf 'stages\treplicas\tplan\tsamples_per_s\titeration_s\tbubble_s\n' >t.tsv
    printf '%s\n' '1 1 a 3 1 .1' '1 2 a 4 2 .2' '2 1 b 5 2 .3' '2 2 b 8 3 .5' | tr ' ' '\t' >>t.tsv
    echo 'nic: 1' >prices.yml
    cat >one.yml <<'Y'
model: mlp
platform: laptop
plan.algorithm: balanced
plan.stages: [1, 2]
plan.microbatches: [4, 8]
Y
    sed 's/^model/name: other\n&/' one.yml >other.yml
    "$foreline" sweep other.yml -o other.db
    cat >run.yml <<'Y'
plan: p.json
folder: runs
transport: local
steps: 1
Y
    cat >validate.yml <<'Y'
model: mlp
platform: laptop
plan: {algorithm: balanced, stages: [1, 2]}
engine: [analytic, simgrid, smpi]
Y
    echo '{"parts": [{"ops": []}]}' >split.json
    echo 'the quick brown fox jumps over the lazy dog, again and again and again' >text.txt
    echo localhost >hosts
    printf 'from,to,rate\nrank0,rank1,1e6\n' >traffic.csv
    printf '0 1 5000\n2 1 7000\n' >flows.txt
    for row in '0 9 1 1' '9 0 1 1' '1 1 0 9' '1 1 9 0'; do echo "$row"; done >speeds.txt
    cp "$here/fuzz/corpus/runs/kineto" k.json
    printf 'step,iteration_s\n1,3\n2,5\n' >steps.csv
    printf ' GPU0 GPU1 NIC0\nGPU0 X NV4 PIX\nGPU1 NV4 X PIX\nNIC0 PIX PIX X\n' >node.txt
    printf 'SwitchName=s Nodes=n[1-12]\n' >topology.conf
    echo 'torchrun --nproc_per_node 2 pretrain_gpt.py --num-layers 2 --hidden-size 64 --seq-length 64 \
        --num-attention-heads 4 --vocab-size 256 --micro-batch-size ${MBS:-1}' >launch.sh
) >setup 2>&1

# ---- a call, and what is seen of it

# Versions, command lines, hashes and times apart.
see() {
    {
        echo "status $status"
        cat out err
        (cd run && find . -type f ! -name '*.db*' | sort | while read -r f; do echo "file $f" && cat "$f"; done)
    } | sed -E '/"command"|machine was not idle|foreline 0\.|^command/d; s/[0-9a-f]{12,64}/H/g; s/20[0-9-]{8}[T-]?[0-9:]{6,8}Z?/T/g; s/CPU time.*//; s/.*cpu_s.*//'
}

call() {
    rm -rf run && mkdir run
    (cd run && eval "timeout 100 '$foreline' $1") >out 2>err </dev/null
    status=$?
}

# Of measured calls: numbers that differ from one base to the next are noise, by their places.
differs() {
    if [ "$kind" = exact ]; then
        ! cmp -s base seen
        return
    fi
    for f in base base2 base3 seen; do tr -s ' \t,:' '\n' <$f >$f.words; done
    awk 'FNR == 1 { file++ }
        file < 4 { n[file] = FNR; if (file > 1 && $0 != word[FNR]) noise[FNR] = 1; else word[FNR] = $0 }
        file == 4 { n[4] = FNR; if (!(FNR in noise) && $0 != word[FNR]) other = 1 }
        END { exit !(other || n[4] != n[1]) }' base.words base2.words base3.words seen.words
}

# ---- values to try

values() { # NAME TYPE WORDS
    case $command-$1 in
        validate-algorithm) echo "uniform balanced,uniform" && return ;;
        simulate-platform) echo "two-racks@\*.bandwidth=1Gbps laptop@\*.latency=9us" && return ;;
        simulate-model) echo "gpt-tiny:tokens=64 gpt3-13b:tokens=1024" && return ;;
        plan-data-parallel) echo "3 12" && return ;; # 2 is said by --replicas
        *-algorithm-file) echo ../in/algorithm.xml && return ;;
        *-prices) echo ../in/prices.yml && return ;;
        *-network-model) echo "lv08 smpi" && return ;;
        *-ns3) echo "mtu=1500" && return ;;
        *-flows) echo ../in/flows.txt && return ;;
        *-engines) echo "analytic simgrid,ns3" && return ;;
        bench-largest) echo "64KiB 2MiB" && return ;;
        *-paths) echo "ecmp spray adaptive" && return ;; # ideal is the default of most platforms
        *-algorithm) echo "uniform metis dp optimal hierarchical" && return ;;
        plot-output | topology-output) echo "o.svg" && return ;;
        validate-output | scoreboard-output | scoreboard-plans) echo "o2" && return ;;
        *-output | *-strategy | *-trace | *-timeline | *-matrix | *-graph | *-batch-tokens | *-log | *-candidates) echo "new.out" && return ;;
        validate-[srtcm]*s | validate-tensor-parallel | validate-microbatch-size) [ "$2" = text ] &&
            { [ "$1" = schedules ] && echo "gpipe 1f1b,gpipe" || echo "1,2 2 4"; } && return ;;
        calibrate-from) echo "../in/m2.csv" && return ;;
        calibrate-fit) echo "products memory" && return ;;
        calibrate-largest) echo 64KiB && return ;;
        kernels-gpu) echo "A100 H100" && return ;;
        *-score) echo ../in/split.json && return ;;
        *-explain) echo ../in/p.json && return ;;
        *-recompute-modules) echo "mlp core_attn,layernorm" && return ;;
        *-split-at) echo "h0.ln2 h1.linear" && return ;;
        *-machines) echo "2 2,2" && return ;;
        *-bandwidth) echo "1e6 1e5,1e4" && return ;;
        *-hierarchy) echo "2,2" && return ;;
        *-slow) echo "0=2 link:rank0-tcp=2@0" && return ;;
        *-fail) echo "rank0-tcp@0.0001" && return ;;
        *-kill) echo "0@0.0001" && return ;;
        *-inject-failures) echo "1,1s" && return ;;
        *-start) echo "p=2ms j=1us" && return ;;
        *-background) echo ../in/traffic.csv && return ;;
        *-storage) echo "disk peer shared:rate=5MBps" && return ;;
        *-candidates) echo new.tsv && return ;;
        *-inject-failures) echo "1,1s" && return ;;
        *-reserve) echo "0 15GiB 50%" && return ;;
        measurement-plan) echo ../in/p.json && return ;;
        *-operators) echo ../in/sums/operators.json dry && return ;;
        simulate-export | bench-export) echo goal=new.goal && return ;;
        *-config) echo ../in/run.yml && return ;;
        topology-gpu) echo "A100 H100" && return ;;
        topology-nic) echo "100Gbps 10GBps" && return ;;
        topology-node) echo ../in/node.txt && return ;;
        topology-fabric) echo ../in/topology.conf && return ;;
        *-hosts) echo ../in/hosts && return ;;
        *-launcher) echo false && return ;;
        *-limit) echo measure=700 && return ;;
        *-address) echo 127.0.0.1 && return ;;
        *-text) echo ../in/text.txt && return ;;
        *-checkpoint) echo ck && return ;;
        *-resume) echo ../in/ck && return ;;
        *-dilate) echo "0 50 auto" && return ;;
        *-shell) echo rank0 && return ;;
        *-set) echo "MBS=2" && return ;;
        *-shard) echo 1/2 && return ;;
        *-x | *-by) echo "replicas plan" && return ;;
        *-y | *-value) echo "bubble_s iteration_s" && return ;;
        plot-label) echo a=A compute=C 0=zero && return ;;
        *-title | *label) echo some words && return ;;
        plot-facet) echo stages && return ;;
        plot-order) echo value b && return ;;
        *-font) echo Serif:9 && return ;;
        *-where) echo stages=1 && return ;;
        plot-ranks) echo 0 && return ;;
        plot-size) echo 640x480 && return ;;
        plot-log) echo xy && return ;;
        *-question) echo why && return ;;
        *-hint) echo "h0.linear=full x=F" && return ;;
        *-learning-rate-policy) echo exponential:factor=0.5 step:epoch=1,every=1,factor=0.5 && return ;;
        *-speeds) echo ../in/speeds.txt && return ;;
        *-series) echo new.csv && return ;;
        measurement-device) echo A100 && return ;;
        *-model) echo gpt2-small && return ;;
        *-platform) echo two-racks && return ;;
        model-device) echo "cpu cuda other" && return ;;
    esac
    case $2 in
        count) echo "1 2 3 12" ;;
        real) echo "0.5 3" ;;
        share) echo "5% 50%" ;;
        time) echo "1ns 1us 5s" ;;
        bytes) echo "1KiB 64KiB 100B" ;;
        word | number) echo "$3" | tr '|' ' ' ;;
        text) case $3 in *'|'*) echo "$3" | tr '|' ' ' ;; esac ;;
    esac
}

# ---- options whose effect is not seen

unseen() { # NAME
    case $command-$1 in
        run-timeout | validate-timeout) echo "how long is waited for a worker that is silent" ;;
        run-unbound) echo "which cores ranks use is seen in times only (test_team.c has their cores)" ;;
        run-dtype) echo "fp32 is what models say that a CPU can run; bf16 is refused there" ;;
        run-warmup | validate-warmup | emulate-warmup) echo "steps that are not measured" ;;
        plan-time-limit) echo "for searches that take longer" ;;
        sweep-workers) echo "the result does not depend on it (tests/sweep.sh)" ;;
        plan-workers) echo "the result does not depend on it (tests/plan_workers.sh)" ;;
        *-limit) echo "for what is late or large (tests/limits.sh)" ;;
        calibrate-transport) echo "messages over another take another time (exec_calibrate.sh)" ;;
        calibrate-repeats) echo "how many are timed is seen in times only" ;;
        calibrate-largest) echo "without --table it is seen in times only (exec_calibrate.sh)" ;;
        sweep-add) echo "for databases of other experiments (options.sh)" ;;
        scoreboard-seed) echo "which runs --layers is fitted to (test_published_fit.c)" ;;
        sweep-retry) echo "for points that failed (tests/sweep.sh)" ;;
        *) return 1 ;;
    esac
}

depends() { # NAME
    case $command-$1 in
        *-collective | *-nccl-protocols) echo "plans without replicas and shards have no collectives" ;;
        plan-bandwidth) echo "without transfers it is that of gradients only" ;;
        plan-expert-parallel) echo "models without experts have none to spread" ;;
        plan-stages) echo "--split-at says how many there are" ;;
        plan-granularity) echo "the best cut at ops is one at layers often (options.sh: every algorithm obeys)" ;;
        plan-executable) echo "most plans can be run" ;;
        plan-compat-cpsc526) echo "the cost matrix differs where there are several levels" ;;
        plan-rank-order) echo "plans of one stage or one replica have one order" ;;
        plan-placement) echo "two stages lie alike in most orders of a small platform" ;;
        plan-seed) echo "of the plan file, and of heuristic algorithms" ;;
        plot-order) echo "an order that words have already, and numbers" ;;
        plot-note) echo "pictures without a note" ;;
        simulate-fail-on-oom) echo "plans that fit" ;;
        simulate-no-fold) echo "short iterations are never folded" ;;
        *) return 1 ;;
    esac
}

# ---- the walk

complain() {
    echo "foreline $1: $2"
    sed 's/^/    /' err | head -3
    failed=1
}

try() { # BASE NAME TYPE WORDS DEFAULT
    with=0 without=0
    bare=$(echo "$1" | sed -E "s/ --$2 [^ ]+//")
    own=$(echo "$1" | sed -nE "s/.* --$2 ([^ ]+).*/\\1/p")
    tried=$([ "$3" = flag ] && echo - || values "$2" "$3" "$4")
    [ "$tried" ] || complain "$1 --$2" "walk_options.sh has no value of it"
    for value in $tried; do
        option="--$2" && [ "$3" = flag ] || option="--$2 $value"
        case $bare in
            *' -- '*) line="${bare%% -- *} $option -- ${bare#* -- }" ;;
            *) line="$bare $option" ;;
        esac
        call "$line"
        see >seen
        if [ $status -eq 2 ]; then
            [ "$(wc -l <err)" -eq 1 ] && [ ! -s out ] || complain "$line" "a refusal is one line"
            grep -q 'has no effect with' err && break # whatever the value is
        elif differs; then
            with=1 && break
        elif [ "$value" = "$5" ] || [ "$value" = "$own" ] || [ "$2$value" = zero0 ] ||
            [ "$2$value" = expert-parallel1 ] || [ "$2$value" = context-parallel1 ]; then
            : # what it is without the option
        else
            without=$((without + 1)) same=$line
        fi
    done
    if [ $with -gt 0 ]; then
        obeyed=$((obeyed + 1)) && echo "$2" >>was_obeyed
    elif [ $without -eq 0 ]; then
        refused=$((refused + 1))
    elif depends "$2" >/dev/null; then
        hidden=$((hidden + 1)) && echo "$2" >>must_be_obeyed
    elif unseen "$2" >/dev/null; then
        hidden=$((hidden + 1))
    else
        complain "$same" "neither obeyed nor refused"
    fi
}

# way exact|measured CALL: all options, on top of that call or instead of what it says of them.
way() {
    kind=$1 ways=$((ways + 1))
    for f in base base2 base3; do
        call "$2"
        see >$f
        [ "$kind" = measured ] || break
    done
    [ "$status" -eq "${3:-0}" ] || complain "$2" "the call itself: status $status"
    while read -r _ name type default words; do
        try "$2" "$name" "$type" "${words:-}" "$default"
    done <options
}

plan='plan --model gpt-tiny --platform laptop'
case $command in
    bench)
        way exact "bench ring --ranks 16"
        way exact "bench pipe --engine simgrid --platform two-racks --ranks 16"
        way measured "bench collectives --repeats 1"
        way measured "bench overlap --repeats 1"
        way measured "bench shards --repeats 1 --largest 64KiB --model tmlp:layers=1,batch=8,seq=8,hidden=32"
        way exact "bench algorithms --platform torus:x=2,y=2"
        network='--platform leaf-spine:nodes=4,gpus=1,rack=2,spines=3,nic=1Gbps'
        way exact "bench network --engines analytic --largest 1MiB $network"
        way exact "bench network --flows ../in/flows.txt $network"
        way exact "bench tradeoff --model gpt-tiny --platform leaf-spine:nodes=4,gpus=1,rack=2,spines=3,paths=ecmp --ranks 4"
        ;;
    calibrate)
        way measured "calibrate --repeats 1"
        way exact "calibrate --from ../in/m.csv --fit memory,products"
        ;;
    compare)
        way exact "compare ../in/a.json ../in/run.json"
        way exact "compare ../in/p.json ../in/r.json"
        ;;
    emulate)
        way exact "emulate ../in/p.json"
        way exact "emulate ../in/r.json"
        way exact "emulate --check"
        if [ "${EMULATE:-}" ]; then
            way measured "emulate ../in/p.json --engine netns --steps 2 --warmup 0 --dilate 50"
            way exact "emulate --platform laptop --dilate 50 -- true"
        fi
        ;;
    kernels) way exact "lab kernels ../in/products.csv --dtype bf16" ;;
    measurement)
        way exact "measurement import ../in/k.json"
        way exact "measurement import ../in/steps.csv"
        ;;
    model)
        way exact "model list"
        way exact "model show mlp"
        way exact "model import ../in/graph.txt -o m.json"
        way measured "model profile mlp -o m.json --repeats 1"
        ;;
    plan)
        way exact "$plan --algorithm balanced --stages 2"
        way exact "$plan --algorithm uniform --replicas 2 --stages 2"
        way exact "$plan --split-at h0.ln1"
        way exact "$plan --finalists 2"
        way exact "plan --model vmoe --platform laptop --finalists 2 --replicas 2 --expert-parallel 2"
        way exact "plan --explain ../in/p.json"
        way exact "plan export ../in/p.json --to megatron"
        way exact "plan import ../in/launch.sh"
        way exact "plan import ../in/launch.sh --platform two-racks -o o.json"
        way exact "plan --algorithm list"
        way exact "plan --objective pippy --model mlp --stages 2"
        way exact "plan --objective pippy --model mlp --stages 2 -o o.json"
        way exact "plan --objective pipedream --model ../in/graph.txt --machines 3 --bandwidth 1e9"
        way exact "plan --objective pipedream --model ../in/graph.txt --devices 3 --charge-activations -o o.json"
        way exact "plan --objective cpsc526 --model mlp --devices 4"
        way exact "plan --objective cpsc526 --model two-chains:ops=5 --hierarchy 2,2 -o o.json"
        way exact "plan --objective hidup --model tmlp:layers=2"
        way exact "plan --objective hidup --model tmlp:layers=2,batch=8 --compat-hidup --noise 80%"
        way exact "plan --objective hidup --model tmlp:layers=2,batch=8 --platform laptop -o o.json"
        way exact "plan --objective placement --model ../in/graph.json"
        way exact "plan --objective piper --model ../in/piper.json"
        ;;
    plot)
        way exact "plot throughput ../in/t.tsv -o x.svg"
        way exact "plot heatmap ../in/t.tsv --x stages --y replicas -o x.svg"
        way exact "plot bars ../in/a.json ../in/run.json -o x.svg"
        way exact "plot timeline ../in/t.json -o x.svg"
        way exact "plot profile ../in/graph.txt -o x.svg"
        way exact "plot graph ../in/p.json -o x.svg"
        ;;
    report)
        way exact "report ../in/other.db -o o.html"
        mkdir in/folder && cp in/a.json in/folder
        way exact "report ../in/folder -o o.html"
        ;;
    run)
        way measured "run ../in/p.json --transport local --steps 3 --warmup 0"
        way measured "run ../in/r.json --transport tcp --steps 3 --warmup 0"
        way measured "run ../in/r.json --compute paced --steps 2 --warmup 0"
        ;;
    scoreboard)
        way exact "lab scoreboard ../in/small.json"
        way exact "lab scoreboard ../in/small.json --fit"
        ;;
    simulate)
        way exact "simulate ../in/p.json"
        way exact "simulate ../in/p.json --engine analytic"
        way exact "simulate ../in/p.json --json"
        way exact "simulate ../in/big.json"
        way exact "simulate ../in/sums --platform laptop --engine analytic"
        way exact "simulate ../in/j.json ../in/j.json --place spread"
        ;;
    sweep)
        way exact "sweep ../in/one.yml"
        way exact "sweep ../in/one.yml --list"
        ;;
    topology)
        way exact "topology list"
        way exact "topology show laptop"
        way exact "topology draw laptop -o x.svg"
        way exact "topology check laptop two-racks"
        way exact "topology generate rail:nodes=2,gpus=2,type=H100"
        way exact "topology generate list"
        way exact "topology import ../in/topology.conf"
        way exact "topology discover"
        ;;
    validate)
        way exact "validate --model mlp --platform laptop --stages 1,2 --engine smpi --repeats 1 -o o"
        way measured "validate ../in/p.json --engine local --compute paced --steps 1 --repeats 1 -o o"
        way exact "validate ../in/validate.yml -o o"
        way exact "validate --measurements ../in/run.json -o o"
        ;;
    *) echo "walk_options.sh has no way of calling foreline $command" && exit 1 ;;
esac
touch was_obeyed must_be_obeyed
for name in $(sort -u must_be_obeyed); do
    grep -qx -- "$name" was_obeyed || { echo "$command --$name: obeyed in none of the ways" && failed=1; }
done
[ $obeyed -gt 0 ] || failed=1
echo "$command: $ways ways, $obeyed options obeyed, $refused refused, $hidden not seen"
exit $failed
