#!/bin/sh
# What every command of foreline writes for fixed inputs, in files that can be compared between two
# commits.
#
#     bench/behaviour.sh BIN_DIR OUT_DIR [PATTERN]   runs all cases (or those whose name matches the
#                                                    shell PATTERN) with BIN_DIR/foreline
#     bench/behaviour.sh --diff OUT_A OUT_B          compares two such folders, case by case; exit
#                                                    status 1 when a case differs
#
# A case is a few calls of foreline in a folder of its own. OUT_DIR/NNN-name/ has `stdout` and
# `stderr` (of all calls, each after a line "$ foreline ..."), `status` (the exit status of each
# call) and every file that the calls wrote. Calls run in a temporary folder with relative names, so
# that two builds of the same behaviour leave the same bytes; inputs are those of bench/behaviour/,
# examples/ and tests/platforms/bad/ of the script's own repository, for both builds.
#
# What differs between two runs of the same build is replaced by the lines of `normalise` below.
# Calls whose figures are measured times are made through r() or measured(), which keep what does
# not depend on the machine's speed: losses, the hash of the parameters, the exit status. Databases
# of sweeps are left out (they hold times); their rows are kept by --export.
#
# Not run: --device cuda and several machines, which a machine may not have; emulate --check,
# --shell and --dilate auto, which depend on the machine's speed; --launcher env and none, which
# several terminals share; Ctrl-C and workers that die, which depend on the moment. Takes 80 s on 2
# cores with a release build. Needs gnuplot, mpirun and user namespaces (for emulate-netns):
# without them the messages of both builds are compared.
set -u
LC_ALL=C
export LC_ALL

usage() {
    echo "usage: behaviour.sh BIN_DIR OUT_DIR [PATTERN] | behaviour.sh --diff OUT_A OUT_B" >&2
    exit 2
}

# compare A B: each case of either folder, and the first 20 lines of what differs.
compare() {
    { [ -d "$1" ] && [ -d "$2" ]; } || usage
    cases=0 differ=0
    for name in $({ ls "$1"; ls "$2"; } | sort -u); do
        cases=$((cases + 1))
        if [ ! -d "$1/$name" ] || [ ! -d "$2/$name" ]; then
            echo "$name: only in one of the two"
            differ=$((differ + 1))
        elif text=$(diff -r -U 1 "$1/$name" "$2/$name"); then
            echo "$name: equal"
        else
            echo "$name: differs"
            printf '%s\n' "$text" | sed -e '/^diff /d' -e 's/^\([-+]\{3\} [^\t]*\)\t.*/\1/' |
                head -n 20 | cut -c1-200 | sed 's/^/    /'
            differ=$((differ + 1))
        fi
    done
    echo "$cases cases, $differ differ"
    [ "$differ" = 0 ]
}

if [ "${1:-}" = --diff ]; then
    [ $# = 3 ] || usage
    compare "$2" "$3"
    exit
fi
[ $# = 2 ] || [ $# = 3 ] || usage
bin=$(cd "$1" && pwd) || exit 2
[ -x "$bin/foreline" ] || usage
mkdir -p "$2" && out=$(cd "$2" && pwd) || exit 2
pattern=${3:-*}
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
rm -rf "$out"/[0-9]*-*

mkdir "$work/in" "$work/skipped" "$work/bin"
cp "$root"/bench/behaviour/* "$work/in/"
for name in schedules-and-microbatches nvlink-or-pcie which-cluster stragglers; do
    cp "$root/examples/$name/sweep.yml" "$work/in/$name.yml"
done
cp -r "$root/tests/platforms/bad" "$work/in/bad"
HOME=$work XDG_CACHE_HOME=$work/cache TZ=UTC
export HOME XDG_CACHE_HOME TZ
unset RANK WORLD_SIZE MASTER_ADDR MASTER_PORT SLURM_PROCID SLURM_NTASKS COLUMNS
exec </dev/null
number=0 name='' skip=1

# What two runs of the same build do not share, line by line in this order.
cat >"$work/normalise" <<END
# version and commit
s/foreline [0-9]+\.[0-9]+\.[0-9]+( \([^)]*\))?/foreline VERSION/g
# CPU seconds, what is divided by them, and resident memory: as JSON, in the text of plan and bench
s/"(cpu_s|ops_per_s|peak_rss_bytes)": [0-9.e+-]+/"\1": N/g
s/^(CPU time|cpu|peak memory)( +)[0-9].*$/\1\2N/
# the same in a report's table of who computed what, before the dates of its row
s|<td>[^<]*</td>(<td>20[0-9-]{8}T[0-9:]{8}Z</td>)|<td>N</td>\1|
# wall-clock dates, also in the names of the folders of run --config
s/20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z/DATE/g
s/-20[0-9]{6}-[0-9]{6}/-DATE/g
# the machine's load: in reports and in the list of runs of validate
s/^(Load average .*began:).*/\1 N/
s/^(DATE\t[0-9]+\t[^\t]*\t[0-9]+\t)[0-9.]+/\1N/
# where the build has the shipped platforms
s#(^|[ ("])/[^ ]*/([a-z0-9-]+\.xml)#\1SHIPPED/\2#g
# the temporary folder, and the temporary name of a page that lists its own folder
s|$work|TMP|g
s/report\.html\.[A-Za-z0-9]{6}\b/report.html.TEMPORARY/g
# ids of processes
s/process [0-9]+:/process PID:/
# name and kernel of this machine
s/\b$(uname -n)\b/HOST/g
s/$(uname -r)/KERNEL/g
# hashes of a sweep's points, which have the version in them
s/^([0-9]+\t)[0-9a-f]{12}\t/\1HASH\t/
# hashes of files that have one of the above in them; the hash of the parameters stays
/parameters/!s/\b[0-9a-f]{64}\b/SHA256/g
END
normalise() {
    sed -E -i -f "$work/normalise" "$@"
}

# Drop the first message of each execution trace of --export chakra: it is the version and command.
undated() {
    for trace; do
        # Its length is a varint of one or two bytes before it.
        # shellcheck disable=SC2046
        set -- $(od -An -tu1 -N2 "$trace")
        skip_bytes=$((1 + $1))
        [ "$1" -lt 128 ] || skip_bytes=$((2 + $1 - 128 + 128 * $2))
        tail -c +$((skip_bytes + 1)) "$trace" >"$trace.rest" && mv "$trace.rest" "$trace"
    done
}

# Files of the case that is done go to OUT_DIR.
finish() {
    [ "$skip" = 1 ] && return
    find . -name '*.db*' -exec rm -f {} +
    find . -name '*.et' | while IFS= read -r file; do undated "$file"; done
    # shellcheck disable=SC2046
    normalise $(find . -type f -size +0 -exec grep -Il '' {} +)
    cp -r . "$out/$name"
}

# begin NAME: a case begins, in an empty folder.
begin() {
    finish
    number=$((number + 1))
    name=$(printf '%03d-%s' "$number" "$1")
    skip=0
    # shellcheck disable=SC2254
    case $1 in
    $pattern) mkdir "$work/$name" && cd "$work/$name" || exit 2 ;;
    *) skip=1 && cd "$work/skipped" || exit 2 ;;
    esac
}

# f ARGUMENT...: a call; everything that it says is kept.
f() {
    [ "$skip" = 1 ] && return
    echo "$ foreline $*" >>stdout
    echo "$ foreline $*" >>stderr
    "$bin/foreline" "$@" >>stdout 2>>stderr
    echo $? >>status
}

# r ARGUMENT...: a call that measures times; of what it prints the loss and the parameters are kept.
# A run of a few milliseconds may fail on a busy machine because its process ended before it was
# seen to begin: that is tried again.
r() {
    [ "$skip" = 1 ] && return
    echo "$ foreline $*" >>stdout
    echo "$ foreline $*" >>stderr
    for _ in 1 2 3 4 5; do
        "$bin/foreline" "$@" >printed 2>said
        code=$?
        grep -q 'exited with status 0' said || break
    done
    echo "$code" >>status
    grep -E '^(engine|loss|parameters) |"(loss|parameters_sha256)": ' printed >>stdout
    grep -vE '^step |not idle|not comparable|at the same time|flop/s$' said >>stderr
    rm printed said
}

# measured FILE...: keep of a real run's measurement what does not depend on the machine's speed.
measured() {
    for file; do
        [ -f "$file" ] && sed -n -i -E -e '/"(format|version|engine|plan|model|platform)": /p' \
            -e '/"(loss|parameters_sha256|microbatches|fits)": /p' "$file"
    done
}

# hashed PLAN MEASUREMENT: does the measurement name the plan's SHA-256?
hashed() {
    [ "$skip" = 1 ] && return
    if grep -q "\"plan_sha256\": \"$(sha256sum "$1" | cut -d' ' -f1)\"" "$2"; then
        echo "plan_sha256 in $2 is that of $1" >>stdout
    else
        echo "plan_sha256 in $2 is not that of $1" >>stdout
    fi
}

# p FILE OPTION...: the plan of an algorithm that does not search.
p() {
    plan=$1
    shift
    f plan --algorithm balanced -o "$plan" "$@"
}

# summed FILE...: of a file too large to keep only a checksum and its size.
summed() {
    for file; do
        [ -f "$file" ] && normalise "$file" && cksum "$file" >>stdout && rm "$file"
    done
}

all="model topology plan simulate run emulate sweep calibrate compare validate plot report bench"
schedules="sequential gpipe 1f1b zb-h1 pipedream"

# The words about the program itself.
begin help
f help
f --help
f -h
f
f help plan
begin version
f --version
begin manual
f manual
f manual nonsense
for command in $all; do
    begin "help-$command"
    f "$command" --help
    f "$command" -h
    f manual "$command"
done

# Models.
begin model-list
f model list
f model list --json
for model in mlp gpt-tiny gpt2-small gpt2-xl gpt3-13b bert-base rtransformer rmoe rswitch \
    vtransformer vmoe two-chains; do
    begin "model-show-$model"
    f model show "$model"
done
begin model-show-overrides
f model show gpt-tiny:layers=2,hidden=64,heads=2,flash=1,tied=1,dtype=bf16
f model show mlp:layers=1,tokens=8 --json
f model show rmoe:experts=4,top_k=1,capacity=0,einsum=0,layers=2
f model show vswitch:layers=2,classes=3
f model show two-chains:ops=5
begin model-import-placement
f model show ../in/placement.json
f model import ../in/placement.json --minibatch-size 8 --device V100 -o model.json
f model show model.json --json
begin model-import-piper
f model show ../in/piper.json
f model import ../in/piper.json -o model.json
f model import ../in/piper-split-only.json -o split.json
begin model-import-pipedream
f model show ../in/graph.txt --minibatch-size 32
f model import ../in/graph.txt --minibatch-size 32 --device V100 -o model.json
f model import ../in/chain.txt -o chain.json
f model show - <../in/graph.txt
begin model-import-foreline
f model show ../in/model.json
f model import ../in/model.json -o model.json
f model import ../in/model.json --output -
begin model-errors
f model
f model nothing
f model show
f model show gpt2-smol
f model show gpt-tiny:layer=3
f model show gpt-tiny:layers=0
f model show gpt-tiny:layers=many
f model show nowhere.json
f model list extra
f model import nowhere.json -o out.json
for file in broken.json loop.json graph-unknown-node.json faults.txt cycle.txt colour-cycle.json \
    malformed-plan.json bandwidth.yml; do
    f model import "../in/$file" -o out.json
done
f model import ../in/model.json
begin model-profile
r model profile mlp:layers=1,hidden=32 --repeats 1 -o model.json --graph graph.txt
[ "$skip" = 1 ] || {
    sed -i -E 's/[0-9.]+e?-?[0-9]*(, |\])/N\1/g' model.json
    sed -i -E 's/_time=[0-9.e-]+/_time=N/g' graph.txt
}
f model profile nowhere.json
f model profile gpt2-small:hidden=65

# Platforms.
begin topology-list
f topology list
f topology generate list
for platform in dgx-a100-x2 dgx-h100-x4 hidup-8xv100 laptop pipedream-a two-racks; do
    begin "topology-shipped-$platform"
    f topology show "$platform"
    f topology show "$platform" --json
    f topology show "$platform" --matrix matrix.tsv
    f topology draw "$platform" -o picture.svg
done
for spec in dragonfly+:groups=2,leaves=2,nodes=1,gpus=2,nics=2 dragonfly+:groups=3,mesh=1 \
    fat-tree:nodes=8,gpus=2,edge=2,pod=2,oversubscription=2,core=3 fat-tree:nodes=4,nics=8 \
    leaf-spine:nodes=4,gpus=2,rack=2,oversubscription=2,nic=100Gbps mesh mesh:gpus=4,link=10GBps \
    node node:gpus=2,type=V100 nvl:domains=2,gpus=4 rail:nodes=3,gpus=4,rack=2,oversubscription=4 \
    torus:x=3,y=2,z=2 torus:x=4,y=1,gpus=2,type=GH200 wan wan:sites=3,nodes=1,gpus=2,latency=5ms; do
    begin "topology-family-$(echo "$spec" | tr ':=,' '---')"
    f topology generate "$spec"
    f topology generate "$spec" -o platform.xml
    f topology show platform.xml
    f topology show "$spec" --json --matrix matrix.tsv
    f topology draw "$spec" -o picture.svg
    f topology check platform.xml "$spec"
done
begin topology-gpus
for type in V100 A100 H100 H200 B200 GB200 GH200 MI300X RTX3090 RTX4090 V100-FP32 CPU; do
    f topology generate "node:gpus=2,type=$type"
done
begin topology-systems
f topology check dgx-a100-pod dgx-h100-pod nvl72-8 pipedream-b selene-like
f topology show dgx-a100-pod
f topology show nvl72-8 --json
for system in alps-like llama3-16k rail-16k nvl72-8; do
    f topology generate $system -o $system.xml
    summed $system.xml
done
f topology draw dgx-h100-pod -o large.svg
begin topology-variants
f topology check two-racks@devices=6 'leaf-spine:nodes=8,type=V100@nic.bandwidth=1Gbps,devices=16'
f topology show two-racks@uplink.bandwidth=1Gbps,devices=12
f topology check two-racks@uplnk.bandwidth=1Gbps
f topology check two-racks@devices=99
f topology check two-racks@devices=0
f topology check two-racks@uplink=3
f topology check two-racks@nic.bandwidth=0Gbps
begin topology-bad-files
for file in ../in/bad/*.xml; do
    f topology check "$file"
done
f topology check ../in/bad/no-doctype.xml two-racks ../in/bad/zero-speed.xml
begin topology-errors
f topology
f topology nothing
f topology show
f topology show two-rax
f topology show nowhere.xml
f topology show ../in/negative.xml
f topology check ../in/empty.xml
f topology generate rail:nodes=many
f topology generate rail:nodes=0
f topology generate rail:noodles=1
f topology generate ring
f topology generate node:type=A1000
f topology draw two-racks
f topology draw two-racks -o picture.pie
f topology list --jason

# Plans: what each algorithm does with the same model.
begin plan-algorithms
f plan --algorithm list
for algorithm in balanced hierarchical uniform metis; do
    begin "plan-$algorithm"
    for stages in 2 4; do
        f plan --algorithm $algorithm --model gpt2-small --platform two-racks --stages $stages \
            --replicas 2 --microbatches 8 -o $stages.json
    done
    f plan --algorithm $algorithm --model gpt-tiny --platform laptop --stages 3 --json
    f plan --algorithm $algorithm --model bert-base --platform hidup-8xv100 -o all.json
    f plan --algorithm $algorithm --model ../in/placement.json --platform laptop \
        --stages 2 -o dag.json
    f plan --algorithm $algorithm --model vmoe --platform two-racks --stages 4 --replicas 4 \
        --expert-parallel 2 -o experts.json
    f plan --algorithm $algorithm --model gpt-tiny --platform laptop --stages 2 \
        --tensor-parallel 2 -o shards.json
    f simulate shards.json --engine analytic --ranks 0 --links 0
done
begin plan-manual
f plan --model mlp:layers=2 --platform laptop --split-at h1.linear,h0.gelu \
    --microbatches 4 -o p.json
f plan --algorithm manual --model gpt-tiny --platform laptop --split-at h2.ln1 -o q.json
f plan --algorithm manual --model gpt-tiny --platform laptop -o n.json
f plan --model mlp:layers=2 --platform laptop --split-at h1.linear --stages 3
f plan --model mlp:layers=2 --platform laptop --split-at h1.lineal
begin plan-auto-laptop
f plan --model gpt-tiny --platform laptop -o p.json
f plan --explain p.json
f plan --model gpt-tiny --platform laptop --executable --finalists 3 --batch 16 -o e.json
begin plan-auto-two-racks
f plan --model gpt2-small --platform two-racks --finalists 4 -o p.json
f plan --explain p.json
f simulate p.json --ranks 0 --links 3
begin plan-auto-constraints
f plan --model gpt2-small --platform dgx-a100-x2 --finalists 2 --stages 4 --schedule interleaved
f plan --model gpt2-small --platform dgx-a100-x2 --finalists 2 --replicas 8 --microbatch-size 2
f plan --model gpt2-small --platform dgx-a100-x2 --finalists 2 --tensor-parallel 2 --zero 1
f plan --model gpt2-small --platform dgx-a100-x2 --finalists 2 --microbatches 16 --recompute full
f plan --model gpt2-small --platform dgx-a100-x2 --finalists 2 --batch 64 --optimizer sgd --json
begin plan-auto-memory
f plan --model gpt2-xl --platform node:gpus=4,type=V100 --batch 16 --finalists 3 -o p.json
f plan --explain p.json
begin plan-auto-experts
f plan --model vmoe --platform leaf-spine:nodes=2,gpus=4 --batch 64 --finalists 3 -o p.json
begin plan-explain
p p.json --model gpt2-small --platform two-racks --stages 4 --microbatches 4
f plan --explain p.json
f plan --explain p.json --json
f plan --explain ../in/malformed-plan.json
f plan --explain nowhere.json
begin plan-ignored-options
p p.json --model gpt-tiny --platform laptop --batch 6
p q.json --model gpt-tiny --platform laptop --finalists 3
p r.json --model gpt-tiny --platform laptop --stages 2 --time-limit 1s --executable --hierarchy 2,2
f plan --model gpt-tiny --platform laptop --batch 6 --microbatch-size 4
begin plan-errors
f plan
f plan --model gpt-tiny
f plan --platform laptop
f plan --model gpt-tiny --platform laptop --stages two
f plan --model gpt-tiny --platform laptop --stages -1
f plan --model gpt-tiny --platform laptop --stagse 2
f plan --model
f plan --model gpt-tiny --platform laptop extra
f plan --model gpt-tiny --platform laptop --algorithm magic
f plan --model gpt-tiny --platform laptop --objective magic
f plan --model gpt2-smol --platform laptop
f plan --model gpt-tiny --platform two-rax
p p.json --model gpt-tiny --platform laptop --schedule zigzag
p p.json --model gpt-tiny --platform laptop --optimizer adamw
p p.json --model gpt-tiny --platform laptop --recompute some
p p.json --model gpt-tiny --platform laptop --zero 4
p p.json --model gpt-tiny --platform laptop --bucket 5
p p.json --model gpt-tiny --platform laptop --stages 3 --replicas 2
p p.json --model gpt-tiny --platform laptop --stages 1 --replicas 4 --microbatches 2
p p.json --model gpt-tiny --platform laptop --stages 2 --chunks 2
p p.json --model gpt-tiny --platform laptop --stages 2 --schedule interleaved --microbatches 3 \
    --chunks 2
p p.json --model gpt-tiny --platform laptop --tensor-parallel 3
p p.json --model gpt-tiny --platform laptop --expert-parallel 2 --replicas 2 --stages 1
p p.json --model gpt-tiny:layers=1 --platform dgx-h100-x4 --stages 32
p p.json --model gpt-tiny --platform ../in/negative.xml
p p.json --model gpt-tiny --platform ../in/empty.xml
p p.json --model ../in/broken.json --platform laptop
p p.json --model ../in/loop.json --platform laptop
p p.json --model ../in/faults.txt --platform laptop
p nowhere/p.json --model gpt-tiny --platform laptop

# Objectives of published tools.
begin objective-placement
for algorithm in ideals noncontiguous metis; do
    f plan --objective placement --model ../in/placement.json \
        --algorithm $algorithm -o $algorithm.json
    f plan --objective placement --model ../in/placement.json --algorithm $algorithm \
        --devices 3 --json
done
f plan --objective placement --model ../in/placement.json --memory 1MiB
f plan --objective placement --model ../in/placement.json --score ../in/placement-split.json
f plan --objective placement --model gpt-tiny
begin objective-pipedream
f plan --objective pipedream --model ../in/graph.txt --machines 2,2 --bandwidth 1e10,1e9 -o p.json
f plan --objective pipedream --model ../in/graph.txt --machines 4 --bandwidth 1e3 \
    --charge-activations
f plan --objective pipedream --model ../in/graph.txt --machines 2 --bandwidth 1e9 --straight --json
f plan --objective pipedream --model ../in/chain.txt --machines 3 --bandwidth 1e9 --memory 1GB
f plan --objective pipedream --model ../in/graph.txt
f plan --objective pipedream --model gpt-tiny --machines 2 --bandwidth 1e9
begin objective-cpsc526
f plan --objective cpsc526 --model two-chains:ops=33 --platform two-racks -o p.json
for algorithm in local hierarchical exhaustive; do
    f plan --objective cpsc526 --model two-chains:ops=9 --platform laptop --algorithm $algorithm
    f plan --objective cpsc526 --model two-chains:ops=9 --hierarchy 2,2 --algorithm $algorithm \
        --json
done
f plan --objective cpsc526 --model two-chains:ops=41 --devices 4 --seed 3
f plan --objective cpsc526 --model two-chains --platform hidup-8xv100 --algorithm hierarchical
f plan --objective cpsc526 --model two-chains:ops=21 --platform laptop --compat-cpsc526
f plan --objective cpsc526 --model two-chains:ops=5 --platform laptop \
    --score ../in/cpsc526-split.json
f plan --objective cpsc526 --model two-chains:ops=5 --platform laptop --hierarchy 2,2
begin objective-piper
f plan --objective piper --model ../in/piper.json --devices 4 --memory 8GiB --bandwidth 25GiBps \
    --batch 8 -o p.json
f plan --objective piper --model ../in/piper.json --devices 2 --batch 4 --json
f plan --objective piper --model ../in/piper.json --devices 2 --memory 1KiB
f plan --objective piper --model ../in/piper-split-only.json --devices 2
f plan --objective piper --model gpt-tiny --devices 2
begin objective-pippy
for algorithm in milp sizesplit; do
    f plan --objective pippy --model gpt-tiny --stages 4 --algorithm $algorithm -o $algorithm.json
    f plan --objective pippy --model ../in/graph.txt --stages 2 --algorithm $algorithm --json
done
f plan --objective pippy --model bert-base --stages 4
f plan --objective pippy --model ../in/placement.json --stages 2
f plan --objective pippy --model gpt-tiny
begin objective-errors
f plan --objective magic --model ../in/graph.txt
f plan --objective pippy --model gpt-tiny --stages 2 --algorithm balanced
f plan --objective placement --model nowhere.json
f plan --objective placement --model ../in/graph-unknown-node.json
f plan --objective cpsc526 --model two-chains:ops=5 --platform laptop --score nowhere.json
f plan --objective cpsc526 --model two-chains:ops=5 --platform laptop \
    --score ../in/placement-split.json

# Schedules: the plan, both predictions, and the program in the words of GOAL.
for schedule in $schedules interleaved breadth-first; do
    begin "schedule-$schedule"
    chunks=1
    case $schedule in interleaved | breadth-first) chunks=2 ;; esac
    p p.json --model gpt2-small --platform two-racks --stages $((4 * chunks)) --chunks $chunks \
        --replicas 2 --microbatches 8 --microbatch-size 2 --schedule "$schedule"
    f simulate p.json --engine analytic -o analytic.json --export goal=program.goal
    f simulate p.json --engine simgrid -o simgrid.json --trace trace.json
    hashed p.json simgrid.json
    f emulate p.json
done

# Ways to spread a model.
begin parallel-data
for zero in 0 1 2 3; do
    p zero$zero.json --model gpt2-small --platform two-racks --stages 2 --replicas 4 \
        --microbatches 8 --zero $zero
    f simulate zero$zero.json --engine analytic --export goal=zero$zero.goal
    f simulate zero$zero.json --links 2
    p bucket$zero.json --model gpt2-small --platform two-racks --stages 1 --replicas 4 \
        --microbatches 8 --zero $zero --bucket 25MiB
    f simulate bucket$zero.json --ranks 1 --export goal=bucket$zero.goal
done
begin parallel-tensor
p t.json --model gpt2-small --platform two-racks --stages 2 --tensor-parallel 4 --microbatches 4
f simulate t.json --engine analytic --export goal=t.goal
f simulate t.json -o t.simgrid.json
p s.json --model gpt2-small --platform two-racks --stages 2 --tensor-parallel 4 --microbatches 4 \
    --sequence-parallel --zero 1
f simulate s.json --engine analytic --export goal=s.goal
f simulate s.json
begin parallel-experts
p e.json --model rmoe:experts=4,layers=2,hidden=64,heads=2 --platform two-racks --stages 2 \
    --replicas 4 --expert-parallel 4 --microbatches 8
f simulate e.json --engine analytic --export goal=e.goal
f simulate e.json
p d.json --model rmoe:experts=4,capacity=0,einsum=0,layers=2,hidden=64,heads=2 \
    --platform two-racks --stages 1 --replicas 4 --tensor-parallel 2 --sequence-parallel \
    --expert-parallel 2 --microbatches 4
f simulate d.json
begin parallel-recompute
for mode in none selective full; do
    p $mode.json --model gpt2-small --platform two-racks --stages 4 --microbatches 4 \
        --recompute $mode
    f simulate $mode.json --engine analytic --links 0
done
begin parallel-interleaved-everything
p p.json --model gpt2-medium --platform dgx-a100-x2 --stages 4 --chunks 2 --schedule interleaved \
    --replicas 4 --tensor-parallel 2 --sequence-parallel --recompute selective --zero 1 \
    --microbatches 16 --bucket 50MB --optimizer sgd --seed 7
f simulate p.json -o m.json --trace t.json
f simulate p.json --engine analytic --json

# Predictions.
begin simulate-collectives
p p.json --model gpt2-small --platform two-racks --stages 1 --replicas 16 --microbatches 16
for collective in auto ring tree hierarchical switch direct; do
    f simulate p.json --engine analytic --ranks 0 --links 0 --collective $collective
    f simulate p.json --engine simgrid --ranks 0 --links 2 --collective $collective
    f simulate p.json --engine analytic --ranks 0 --links 0 --collective $collective \
        --export goal=$collective.goal
    summed $collective.goal
done
f simulate p.json --ranks 0 --links 0 --nccl-protocols
f simulate p.json --engine analytic --ranks 0 --links 0 --nccl-protocols --collective tree
begin simulate-options
p p.json --model gpt2-small --platform two-racks --stages 2 --replicas 2 --microbatches 8
f simulate p.json --ranks 0 --links 0
f simulate p.json --ranks 99 --links 99
f simulate p.json --json
f simulate p.json --engine analytic --json -o m.json --trace t.json
f simulate p.json --output m2.json --links 1
begin simulate-perturbed
p p.json --model gpt2-small --platform two-racks --stages 2 --replicas 2 --microbatches 8
f simulate p.json --engine analytic --jitter 5% --seed 3 --slow r0n0g1=1.5,stage:0=1.1
f simulate p.json --engine analytic --jitter 0.05 --seed 4 --ranks 1
f simulate p.json --engine simgrid --jitter 5% --seed 3 --slow 2=1.5 --json
f simulate p.json --slow link:r0n0-01=2
f simulate p.json --slow link:r0n0-01=2@1ms,r0n0g1=2@3ms
begin simulate-faults
p p.json --model gpt2-small --platform two-racks --stages 2 --microbatches 4
f simulate p.json --engine analytic --kill r0n0g1@1ms
f simulate p.json --kill 1@1ms
f simulate p.json --fail r0n0-01@5ms
f simulate p.json --fail r0n0-01@5s
f simulate p.json --kill 7@1ms
f simulate p.json --fail nothing@1ms
f simulate p.json --kill 1
f simulate p.json --engine analytic --fail r0n0-01@5ms
begin simulate-folded
p p.json --model gpt2-small --platform two-racks --stages 2 --replicas 2 --microbatches 4000
for engine in analytic simgrid; do
    f simulate p.json --engine $engine --links 2
    f simulate p.json --engine $engine --json --no-fold
done
f simulate p.json --engine analytic --ranks 0 --links 0 --jitter 1%
begin simulate-out-of-memory
p p.json --model gpt2-xl:tokens=4096 --platform two-racks --stages 2 --microbatches 8 \
    --microbatch-size 64
f simulate p.json --engine analytic
f simulate p.json --engine analytic --fail-on-oom -o m.json --trace t.json
begin simulate-export
p p.json --model gpt-tiny --platform two-racks --stages 2 --replicas 2 --microbatches 2
f simulate p.json --engine analytic --export goal=p.goal
f simulate p.json --engine analytic --export atlahs=a.goal
f simulate p.json --engine analytic --export chakra=et
f simulate p.json --export paje=x
f simulate p.json --export goal
f simulate p.json --export goal=nowhere/p.goal
begin simulate-imported
for model in placement.json piper.json graph.txt empty.json; do
    f plan --model ../in/$model --platform laptop --stages 2 --algorithm uniform --microbatches 4 \
        -o $model.plan
    f simulate $model.plan --engine analytic
    f simulate $model.plan
done
begin simulate-large
p p.json --model gpt3-13b --platform dgx-h100-pod --stages 8 --replicas 8 --tensor-parallel 8 \
    --microbatches 64 --recompute selective --zero 1
f simulate p.json --engine analytic --ranks 2 --links 3
f simulate p.json --ranks 2 --links 3
begin simulate-moe-of-hidup
for model in rmoe:experts=16 vswitch:experts=16,group=32; do
    p p.json --model $model --platform hidup-8xv100 --stages 1 --replicas 8 --microbatches 8 \
        --microbatch-size 32 --expert-parallel 8
    f simulate p.json --engine analytic --ranks 1 --links 1
    f simulate p.json --ranks 1 --links 1
done
begin simulate-errors
p p.json --model gpt-tiny --platform laptop --stages 2
f simulate
f simulate nowhere.json
f simulate ../in/malformed-plan.json -o m.json --trace t.json
f simulate ../in/incomplete-plan.json
f simulate ../in/placement.json
f simulate ../in/bandwidth.yml
f simulate p.json p.json
f simulate p.json --engine magic
f simulate p.json --collective star
f simulate p.json --jitter much
f simulate p.json --slow 1.3
f simulate p.json --slow rank9=1.3
f simulate p.json --slow rank1=1.3,rank1=2
f simulate p.json --slow rank1=0
f simulate p.json --ranks few
f simulate p.json -o nowhere/m.json
f simulate p.json --trace nowhere/t.json
f simulate p.json --flod

# Real runs, of which losses and parameters are the same on every machine of one kind.
begin run-transports
p p.json --model gpt-tiny:layers=2,hidden=32,tokens=32 --platform laptop --stages 2 --replicas 2 \
    --microbatches 4
for transport in tcp local mpi; do
    r run p.json --transport $transport --steps 3 --warmup 1 -o $transport.json
    hashed p.json $transport.json
    measured $transport.json
done
begin run-schedules
for schedule in $schedules interleaved breadth-first; do
    chunks=1
    case $schedule in interleaved | breadth-first) chunks=2 ;; esac
    p "$schedule.json" --model mlp --platform laptop --stages $((2 * chunks)) --chunks $chunks \
        --microbatches 4 --schedule "$schedule"
    r run "$schedule.json" --transport local --steps 3 --warmup 0 -o "$schedule.m.json"
    measured "$schedule.m.json"
done
begin run-parallel
for options in '--stages 1 --replicas 4 --zero 1' '--stages 1 --replicas 4 --zero 2' \
    '--stages 1 --replicas 4 --zero 3' '--stages 1 --replicas 4 --bucket 64KiB' \
    '--stages 2 --tensor-parallel 2' '--stages 2 --tensor-parallel 2 --sequence-parallel' \
    '--stages 2 --recompute full' '--stages 2 --recompute selective' \
    '--stages 1 --replicas 2 --tensor-parallel 2 --zero 1' '--stages 4 --optimizer sgd --seed 5'; do
    # shellcheck disable=SC2086
    p p.json --model gpt-tiny:layers=2,hidden=32,tokens=32 --platform laptop \
        --microbatches 4 $options
    r run p.json --transport local --steps 2 --warmup 0
    r run p.json --transport tcp --steps 2 --warmup 0 -o m.json
    measured m.json
done
begin run-executable
for algorithm in balanced uniform hierarchical metis; do
    for stages in 2 4; do
        for shards in 2 4; do
            f plan --algorithm $algorithm --model gpt-tiny --platform node:gpus=16,type=CPU \
                --stages $stages --tensor-parallel $shards --microbatches 4 -o p.json
            r run p.json --transport local --steps 1 --warmup 0
        done
    done
done
# Of several ranks that refuse, any may be the first to say so.
[ "$skip" = 1 ] || sed -i '/^foreline run: /d' stderr
begin run-experts
p p.json --model rmoe:experts=4,layers=2,hidden=32,heads=2,tokens=16,vocabulary=256 \
    --platform laptop --stages 1 --replicas 4 --expert-parallel 4 --microbatches 4
r run p.json --transport local --steps 2 --warmup 0
r run p.json --compute paced --steps 1 --warmup 0 -o m.json
measured m.json
begin run-options
p p.json --model mlp --platform laptop --stages 2 --microbatches 4
r run p.json --steps 4 --warmup 0 --learning-rate 0.01 --loss-every 2 --batch-tokens tokens
summed tokens
r run p.json --compute paced --steps 1
r run p.json --steps 2 --text ../in/stragglers.yml --json
r run p.json --steps 2 --launcher 'mpirun --allow-run-as-root --oversubscribe -n 2'
r run p.json --steps 2 --dtype fp32 --timeout 20s --log log
[ "$skip" = 1 ] || rm -f log.*
echo 'localhost slots=2' >hosts
r run p.json --steps 2 --transport mpi --hosts hosts
begin run-checkpoint
p p.json --model mlp --platform laptop --stages 2 --microbatches 4
r run p.json --steps 4 --warmup 0 --checkpoint kept --checkpoint-every 2
r run p.json --steps 2 --warmup 0 --resume kept
r run p.json --steps 6 --warmup 0
r run p.json --resume nowhere
[ "$skip" = 1 ] || summed kept/*/*.ckpt
begin run-config
f run --config ../in/run.yml --dry-run
p plan.json --model mlp --platform laptop --stages 2 --microbatches 4
f run --config ../in/run-plan.yml --dry-run
f run --config ../in/run-wrong.yml
f run --config nowhere.yml
f run --config ../in/bandwidth.yml --dry-run
r run --config ../in/run.yml
[ "$skip" = 1 ] || {
    (cd runs/* && ls && cat config.yml outcome output.log.0) >>stdout
    mv runs/*/plan.json made.json && rm -r runs
}
begin run-errors
p p.json --model gpt-tiny --platform laptop --stages 2
f run
f run nowhere.json
f run ../in/malformed-plan.json
f run p.json --transport pigeon
f run p.json --transport local --hosts h
f run p.json --transport nccl
f run p.json --device tpu
f run p.json --dtype bf16
f run p.json --steps 0
f run p.json --steps many
f run p.json --text nowhere.txt
f run p.json --learning-rate fast
f run p.json --compute sometimes
f run p.json --launcher true --transport local
p big.json --model gpt2-small --platform ../in/negative.xml
f run big.json
p foreign.json --model ../in/placement.json --platform laptop --stages 2
f run foreign.json --compute real --steps 1

# The executor on simulated networks.
begin emulate-smpi
p p.json --model gpt2-small --platform two-racks --stages 2 --replicas 2 --microbatches 4 --zero 1
f emulate p.json -o m.json --trace t.json
f emulate p.json --json
p t.json --model gpt2-small --platform two-racks --stages 2 --tensor-parallel 2 --microbatches 4 \
    --recompute full
f emulate t.json --engine smpi
f simulate t.json
begin emulate-netns
p p.json --model mlp --platform laptop --stages 2 --microbatches 2
r emulate p.json --engine netns --steps 1 --warmup 0 --dilate 100 -o m.json
measured m.json
# shellcheck disable=SC2016
f emulate --platform laptop --ranks 1 --dilate 1000 -- sh -c 'echo rank $RANK of $WORLD_SIZE'
begin emulate-errors
p p.json --model gpt-tiny --platform laptop --stages 2
f emulate
f emulate nowhere.json
f emulate ../in/malformed-plan.json
f emulate p.json --engine magic
f emulate p.json --engine netns --transport pigeon
f emulate p.json --engine netns --slow nothing=2
f emulate --platform laptop
f emulate --platform nowhere.xml -- true

# Sweeps.
example() {
    begin "sweep-$1"
    f sweep "../in/$1.yml" --list
    f sweep "../in/$1.yml"
    f sweep "../in/$1.yml" --export tsv
    f report "$1.db"
}
example schedules-and-microbatches
f plot throughput schedules-and-microbatches.db -o throughput.svg
example nvlink-or-pcie
f plot throughput nvlink-or-pcie.db --where model=gpt2-xl:dtype=bf16 -o throughput.svg
f plot regret nvlink-or-pcie.db --where model=gpt2-xl:dtype=bf16,engine=simgrid -o regret.svg
example bandwidth
f plot throughput bandwidth.db --x platform.nic.bandwidth --where devices=32,engine=simgrid \
    -o throughput.svg
f plot speedup bandwidth.db --x devices --where platform.nic.bandwidth=100Gbps -o speedup.svg
f plot heatmap bandwidth.db --x devices --y platform.nic.bandwidth --value samples_per_s \
    --where plan.stages=1 -o heatmap.svg
example which-cluster
f plot throughput which-cluster.db --by engine --where plan.stages=1,plan.tensor-parallel=1,plan.zero=1 \
    -o throughput.svg
example stragglers
f plot throughput stragglers.db -o throughput.svg
begin sweep-memory
f sweep ../in/sweep-memory.yml --list
f sweep ../in/sweep-memory.yml -o m.db --workers 1
f sweep ../in/sweep-memory.yml -o m.db --export tsv
f sweep ../in/sweep-memory.yml -o m.db --export csv
f sweep ../in/sweep-memory.yml -o m.db --retry
begin sweep-noise
f sweep ../in/sweep-noise.yml -o n.db
f sweep ../in/sweep-noise.yml -o n.db --export tsv
begin sweep-shards
f sweep ../in/sweep-memory.yml -o m.db --shard 1/2
f sweep ../in/sweep-memory.yml -o m.db --shard 2/2
f sweep ../in/sweep-memory.yml -o m.db
f sweep ../in/sweep-memory.yml -o m.db --shard 3/2
begin sweep-plans
p p.json --model gpt2-small --platform two-racks --stages 16
p q.json --model gpt2-small --platform two-racks --stages 1 --replicas 16 --microbatches 16
[ "$skip" = 1 ] || cp ../in/sweep-plans.yml .
f sweep sweep-plans.yml
f sweep sweep-plans.yml --export tsv
f report sweep-plans.db --question 'Which plan?' -o page.html
begin sweep-engines
f sweep ../in/sweep-engines.yml -o e.db
f sweep ../in/sweep-engines.yml -o e.db --export tsv
begin sweep-errors
wrong() {
    [ "$skip" = 1 ] && return
    printf '%b' "$1" >wrong.yml
    f sweep wrong.yml
}
wrong 'model: gpt2-small\nplatform: two-racks\nplan.schedule: [1f1b, 2f2b]\n'
wrong 'model: gpt2-small\nplatform: two-racks\nengine: fast\n'
wrong 'model: gpt2-small\nplatform: two-racks\nnoise: 100%\n'
wrong 'model: gpt2-small\n\tplatform: two-racks\n'
wrong 'model: gpt2-smal\nplatform: two-racks\n'
wrong 'model: gpt2-small\nplatform: rail\nplatform.noodles: [1, 2]\n'
wrong 'model: gpt2-small\nplatform: two-racks\nplatform.uplnk.bandwidth: [1Gbps, 2Gbps]\n'
wrong 'model: gpt2-small\nplatform: two-racks\ndevices:\n  - 8\n  - 99\n'
wrong 'model: gpt2-small\nplatform: two-racks\nplan:\n  stages: many\n'
wrong 'model: gpt2-small\nplatform: two-racks\nplan: [no.json]\n'
wrong 'model: gpt2-small\nplatform: two-racks\njitter: much\n'
wrong 'model: gpt2-small\n'
wrong 'model: gpt2-small\nplatform: two-racks\nmodle: mlp\n'
wrong 'model: gpt2-small\nplatform: two-racks\nplan: {stages: 2, stagse: 2}\n'
f sweep
f sweep nowhere.yml
f sweep ../in/stragglers.yml --export xml
f sweep ../in/stragglers.yml --workers few
f sweep ../in/stragglers.yml -o nowhere/s.db

# Validation. SimGrid's MPI is the engine whose runs are the same on every machine.
begin validate-smpi
f validate --model gpt-tiny --platform laptop --stages 1,2 --schedules gpipe,1f1b --microbatches 4 \
    --engine smpi --repeats 1 -o v
f validate --model gpt-tiny --platform laptop --stages 1,2 --schedules gpipe,1f1b --microbatches 4 \
    --engine smpi --repeats 1 -o v
f validate --model bert-base --platform two-racks --stages 2,99 --replicas 2 --microbatches 4 \
    --algorithm balanced,uniform --engine smpi --repeats 1 \
    --fail-above 10% -o w
begin validate-plans
for stages in 1 2 4; do
    p $stages.json --model mlp --platform laptop --stages $stages --microbatches 4
done
f validate 1.json 2.json 4.json --engine smpi --repeats 2 --seed 3 -o v
begin validate-local
r validate --model mlp --platform laptop --stages 1,2 --microbatches 4 --engine local --steps 2 \
    --repeats 1 -o v
[ "$skip" = 1 ] || {
    measured v/measured/*.json
    rm v/*.svg v/*.tsv v/report.md
}
begin validate-measurements
for stages in 1 2 4; do
    p $stages.json --model mlp --platform laptop --stages $stages --microbatches 4
    f emulate $stages.json -o $stages.m.json
done
f validate --measurements 1.m.json 2.m.json 4.m.json
f validate --measurements 1.m.json 2.m.json 4.m.json -o v
f validate --measurements 1.m.json nowhere.json
begin validate-errors
f validate
f validate --model gpt-tiny --platform laptop
f validate --model gpt-tiny --platform laptop --stages 1,two -o d
f validate --model gpt-tiny --platform laptop --engine fast -o d
f validate --model gpt2-xl --platform laptop --stages 1,2 --microbatches 4 -o d
f validate --measurements ../in/malformed-plan.json
f validate --model gpt-tiny --platform laptop --stages 1,2 -o d
f validate ../in/malformed-plan.json -o e
f validate --model gpt-tiny --platform laptop --schedules zigzag --engine smpi -o f

# The demonstration of docs/demo.sh, on a platform that does not depend on the machine.
begin demo
demo() {
    file=$1
    shift
    p "$file.json" --model gpt-tiny --platform laptop "$@"
    f simulate "$file.json" --engine analytic -o "$file.analytic.json"
    f simulate "$file.json" --engine simgrid -o "$file.simgrid.json" --trace "$file.trace.json"
    f emulate "$file.json" -o "$file.smpi.json"
    r run "$file.json" --steps 5 --warmup 1 -o "$file.measured.json"
    measured "$file.measured.json"
}
demo pipeline-1f1b --stages 2 --microbatches 8 --microbatch-size 2
demo pipeline-gpipe --stages 2 --microbatches 4 --microbatch-size 4 --schedule gpipe
demo data-parallel --stages 1 --replicas 2 --microbatches 8 --microbatch-size 2
set --
for file in pipeline-1f1b pipeline-gpipe data-parallel; do
    set -- "$@" $file.analytic.json $file.simgrid.json $file.smpi.json
done
f compare "$@"
f compare "$@" --json
f plan --model gpt2-small --platform two-racks -o two-racks.json
f simulate two-racks.json --trace two-racks.trace.json -o two-racks.measurement.json
f plot timeline pipeline-1f1b.trace.json -o timeline.svg
f plot timeline two-racks.trace.json -o two-racks.svg
f plot scatter "$@" -o scatter.svg
f plot bars "$@" -o bars.svg

# Comparisons, pictures and pages of simulated results.
begin compare
p p.json --model mlp --platform laptop --stages 2 --microbatches 4
f simulate p.json --engine analytic -o a.json
f emulate p.json -o m.json
f compare a.json m.json
f compare a.json m.json m.json --json
f compare a.json
f compare
f compare a.json nowhere.json
f compare a.json p.json
f compare m.json m.json
begin plot-kinds
p p.json --model gpt2-small --platform two-racks --stages 2 --replicas 2 --microbatches 4
f simulate p.json -o m.json --trace t.json
f simulate p.json --engine analytic -o a.json
f emulate p.json -o e.json
f plot timeline t.json -o timeline.svg
f plot breakdown m.json a.json -o breakdown.svg
f plot memory m.json -o memory.svg
f plot links m.json -o links.svg
f plot scatter m.json a.json e.json -o scatter.svg
f plot bars m.json a.json e.json -o bars.svg
f topology show two-racks --matrix matrix.tsv
f plot heatmap matrix.tsv -o heatmap.svg
f plot heatmap ../in/table.tsv --x nodes --y plan --value samples_per_s -o values.svg
f plot throughput ../in/table.tsv -o throughput.svg
f plot throughput ../in/table.tsv --x nodes --y tokens_per_s --by plan --where nodes=2 -o where.svg
f plot speedup ../in/table.tsv -o speedup.svg
f plot regret ../in/table.tsv -o regret.svg
f plot bars m.json -o bars.png
begin plot-errors
f plot
f plot pie ../in/table.tsv -o x.svg
f plot throughput ../in/table.tsv
f plot throughput ../in/table.tsv -o x.pie
f plot throughput nowhere.tsv -o x.svg
f plot throughput ../in/table.tsv --x colour -o x.svg
f plot throughput ../in/table.tsv --where nodes=77 -o x.svg
f plot heatmap ../in/table.tsv -o x.svg
f plot timeline ../in/table.tsv -o x.svg
f plot bars ../in/malformed-plan.json -o x.svg
begin report-directory
p p.json --model gpt2-small --platform two-racks --stages 2 --replicas 2 --microbatches 4
[ "$skip" = 1 ] || mkdir results results/more
f simulate p.json -o results/m.json --trace results/t.json
f simulate p.json --engine analytic -o results/more/a.json
f emulate p.json -o results/more/e.json
[ "$skip" = 1 ] || cp p.json ../in/table.tsv results/
f report results
f report results -o page.html --question 'What is the case?'
begin report-errors
[ "$skip" = 1 ] || mkdir empty
f report
f report empty
f report nowhere
f report nowhere.db
f report ../in/bandwidth.yml

# Speed, of which the predictions are kept; calibration, of which the file's structure is.
begin bench
for workload in ring pipe; do
    for engine in analytic simgrid; do
        f bench $workload --ranks 32 --engine $engine
        f bench $workload --ranks 16 --engine $engine --platform two-racks --json
    done
done
f bench
f bench pipes
f bench pipe --ranks 17
f bench ring --ranks 32 --platform two-racks
begin calibrate
r calibrate --force --ranks 2 --repeats 1 -o here.xml --matrix matrix.tsv
[ "$skip" = 1 ] || {
    sed -i -E 's/[0-9.]+(e[-+]?[0-9]+)?(flop|f|B|Bps|s|%)\b/N\2/g' here.xml
    cut -f 1,2 matrix.tsv >pairs && rm matrix.tsv
}
f calibrate extra
f calibrate --ranks none
f calibrate --transport pigeon
f calibrate --device tpu

# Options that no command has, and operands that are none, once for each command.
begin unknown-command
f magic
f plann
f --magic
begin unknown-options
for command in $all; do
    f "$command" --nonsense
    f "$command" --output
done
finish
cd / || exit 2
echo "$number cases in $out"
