#!/bin/sh
# Options where they mean nothing are refused in one line with status 2, in every command; what is
# misspelt gets the nearest word. Usage: options.sh FORELINE
set -u
. "$(dirname "$0")/message.sh"
foreline=$1
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 2
export XDG_CACHE_HOME="$dir/cache"
failed=0

# refuse "WORDS IN THE MESSAGE" ARGUMENT...
refuse() {
    words=$1
    shift
    "$foreline" "$@" >out 2>err </dev/null
    status=$?
    if [ $status -ne 2 ] || [ "$(wc -l <err)" -ne 1 ] || ! grep -q -- "$(pattern "$words")" err || [ -s out ]; then
        echo "foreline $*: status $status, $(cat err)"
        failed=1
    fi
}

"$foreline" plan --model mlp --platform laptop --algorithm balanced --stages 2 -o p.json \
    >/dev/null 2>&1 || exit 1
plan='plan --model mlp --platform laptop'

refuse '--finalists --algorithm auto balanced' $plan --algorithm balanced --finalists 3
refuse '--time-limit --algorithm auto' $plan --algorithm uniform --time-limit 1s
refuse '--executable --algorithm auto' $plan --algorithm uniform --executable
refuse '--launchable --algorithm' $plan --algorithm uniform --launchable
refuse '--launchable launched' $plan --launchable
refuse '--machines --algorithm' $plan --machines 4
refuse '--score --algorithm' $plan --score split.json
refuse '--split-at --algorithm manual balanced' $plan --algorithm balanced --split-at relu1
refuse '--batch 6 match 4 microbatches of 2' $plan --batch 6 --microbatches 4 --microbatch-size 2
refuse '--batch 6 multiple --microbatches 4' $plan --batch 6 --microbatches 4
refuse '--sequence-parallel needs' $plan --algorithm balanced --sequence-parallel
refuse '--stages --objective pipedream' \
    plan --model g.txt --objective pipedream --stages 2
refuse '--schedule -o FILE' \
    plan --model g.txt --objective pipedream --schedule gpipe
refuse '--platform -o FILE' \
    plan --model g.json --objective piper --platform laptop
refuse '--hierarchy --objective piper' \
    plan --model g.json --objective piper --hierarchy 2
refuse '--json --score' \
    plan --model g.json --objective placement --score s.json --json
refuse '--json --explain' plan --explain p.json --json
refuse '--stages --explain' plan --explain p.json --stages 2
refuse '--json --algorithm list' plan --algorithm list --json
refuse '--stages 0 least 1' $plan --stages 0
refuse '--tensor-paralel-size mean --tensor-parallel' $plan --tensor-paralel-size 2
refuse '--tp the plan file defines foreline plan --tp' simulate p.json --tp 2
refuse '--micro-batch-size the plan file defines' run p.json --micro-batch-size 2
"$foreline" plan --help all | grep -q -- --limit && { echo "help has --limit" && failed=1; }

refuse '--links --json' simulate p.json --json --links 2
refuse '--seed --jitter' simulate p.json --seed 3
refuse '--text --compute paced' run p.json --compute paced --text a.txt
refuse '--dtype --compute paced' run p.json --compute paced --dtype fp32
refuse '--dry-run --config' run p.json --dry-run
refuse '--table --json' calibrate --table --json
refuse '--curves -o' calibrate --curves
refuse '--transport --device cuda' calibrate --device cuda --transport tcp
refuse '--model --device cpu' calibrate --model mlp
refuse '--json import' model import f --json -o m.json
refuse '--batch show' model show mlp --batch 2
refuse '--output list' model list -o m.json
refuse '--matrix draw' topology draw laptop --matrix m -o p.svg
refuse '--json check' topology check laptop --json
refuse '--json generate' topology generate list --json
refuse '--gpu import --platform' topology import x.log --platform laptop --gpu H100 -o x.xml
refuse '--json import --platform' topology import x.log --platform laptop --json -o x.xml
if [ -x "${foreline%/*}/foreline-lab" ]; then
    refuse '--json --fit' lab scoreboard x.json --fit --json
    refuse '--cross-validate --layers' lab scoreboard x.json --layers 8 --cross-validate
fi
refuse '--dilate PLAN --engine smpi' emulate p.json --dilate 2
refuse '--steps PLAN --engine smpi' emulate p.json --steps 2
refuse '--json --check' emulate --check --json
refuse 'operands --check 1' emulate --check plan.json
refuse 'needs --platform' emulate --check --ranks 3
refuse '--pid --platform' emulate --platform laptop --pid 4 -- true

refuse '--checkpoint --compute paced' run p.json --compute paced --checkpoint d
"$foreline" simulate p.json -o a.json >/dev/null 2>&1 || exit 1
refuse '--x measurements' plot bars a.json --x stages -o x.svg
refuse '--ranks measurements' plot bars a.json --ranks 0 -o x.svg
refuse '--x traces' plot timeline a.json --x stages -o x.svg
refuse 'got 0 s timelines begin' plot timeline a.json --to 0s -o x.svg
refuse '--value table' plot throughput t.tsv --value stages -o x.svg

# What the model cannot do is infeasible, status 1, in one line that names the option.
infeasible() {
    words=$1
    shift
    "$foreline" "$@" >out 2>err </dev/null
    status=$?
    if [ $status -ne 1 ] || [ "$(wc -l <err)" -ne 1 ] || ! grep -q -- "$(pattern "$words")" err || [ -s out ]; then
        echo "foreline $*: status $status, $(cat err)"
        failed=1
    fi
}
layers='plan --model gpt2-small --platform two-racks --recompute full --recompute-layers'
infeasible '--recompute-layers 13: no stage has more than 12' $layers 13
infeasible '--recompute-layers 12: no stage has more than' $layers 12 --algorithm balanced --stages 2
infeasible '--expert-parallel 3 does not divide the 8 experts of mixtral-8x7b' \
    plan --model mixtral-8x7b --platform two-racks --expert-parallel 3 --replicas 3
infeasible '--expert-parallel 2: mlp has no experts' $plan --replicas 2 --expert-parallel 2
infeasible '--expert-imbalance needs experts without a capacity limit, which model mlp' $plan --expert-imbalance 1.5
infeasible '--expert-imbalance needs experts without a capacity limit, which model vmoe' \
    plan --model vmoe --platform two-racks --expert-imbalance 1.5
infeasible '--context-parallel 64 at most 16' \
    plan --model gpt2-small --platform two-racks --context-parallel 64

# equal kinds of mistakes, equal status: a value that is nothing, or that says nothing beside the others
refuse '--stages is given twice' $plan --stages 2 --stages 3
refuse '--stages is given twice' $plan --stages=2 --algorithm balanced --stages 2
refuse '--zero needs --replicas' $plan --algorithm balanced --zero 1
refuse '--zero needs --replicas' $plan --replicas 1 --zero 1
refuse '--bucket needs --replicas' $plan --algorithm uniform --bucket 1MiB
refuse '--expert-parallel must divide --replicas' $plan --algorithm balanced --expert-parallel 2
refuse '--expert-parallel must divide --replicas' $plan --replicas 3 --expert-parallel 2
refuse '--expert-imbalance needs --expert-parallel' $plan --algorithm balanced --expert-imbalance 2
refuse '--expert-imbalance needs --expert-parallel' $plan --expert-parallel 1 --expert-imbalance 2
refuse '--expert-imbalance: 0.5' $plan --replicas 2 --expert-parallel 2 --expert-imbalance 0.5
refuse '--chunks --schedule' $plan --schedule 1f1b --chunks 2
refuse '--context-parallel must divide --replicas' $plan --algorithm balanced --context-parallel 64
refuse 'stages device' $plan --schedule zb-v --stages 3
refuse '3 2 chunks --stages 6' $plan --chunks 2 --stages 3
refuse '--stages -1 least 1' $plan --stages -1
refuse "--stages '2.5' number" $plan --stages 2.5
refuse '--p2p-scatter needs --tensor-parallel' $plan --algorithm balanced --p2p-scatter
refuse '--p2p-scatter needs --stages' $plan --stages 1 --p2p-scatter
refuse '--p2p-scatter --sequence-parallel' \
    $plan --tensor-parallel 2 --sequence-parallel --p2p-scatter
refuse '--reduce-dtype needs --replicas' $plan --algorithm balanced --reduce-dtype bf16
refuse '--algorithm manual needs --split-at, or --stages' $plan --algorithm manual
refuse '--split-at --layers-per-stage' $plan --split-at nope --layers-per-stage 2 --stages 2
refuse '--layers-per-stage --algorithm manual uniform' $plan --algorithm uniform --layers-per-stage 2
refuse "has no op 'nope'" $plan --split-at nope
refuse '--devices --machines' \
    plan --model g.txt --objective pipedream --machines 4 --devices 8
refuse "objective piper has no algorithm 'milp'" plan --model g.json --objective piper --algorithm milp
refuse "unknown 'foo'" simulate p.json --slow foo=2
refuse "platform link 'foo'" simulate p.json --fail foo@1
refuse "kill unknown '9'" simulate p.json --kill 9@1
refuse '.svg, .png, .pdf or .tsv' plot bars a.json -o x.gif
refuse '--dtype bf16 the plan is for' run p.json --dtype bf16
refuse '--loss-every --compute paced' run p.json --compute paced --loss-every 1
refuse 'p.json not a command' emulate p.json --platform laptop
refuse "unknown algorithm 'foo'" validate --model mlp --platform laptop --algorithm foo -o v
refuse '--device --engine smpi' validate p.json -o v --engine smpi --device cpu
[ ! -e v ] || failed=1
printf 'name: %s\nmodel: mlp\nplatform: laptop\nplan.algorithm: balanced\n' one >one.yml
sed s/one/two/ one.yml >two.yml
"$foreline" sweep one.yml -o one.db >/dev/null 2>&1 || exit 1
refuse "none called 'two'" sweep two.yml -o one.db
"$foreline" sweep two.yml -o one.db --add >/dev/null 2>&1 || failed=1
"$foreline" sweep two.yml -o one.db >/dev/null 2>&1 || failed=1

# Every algorithm cuts at layers where it is told to (names of an mlp's layers begin with h0.linear, h1.linear, ...),
# and at ops where that is better or asked for; a cut by hand is refused.
cuts() { # cuts OPTIONS...: the ops that stages after the first begin with
    "$foreline" $plan --stages 4 "$@" 2>&1 | awk '$1 ~ /^[1-9]$/ { print $3 }'
}
for algorithm in $("$foreline" plan --algorithm list | awk '!/--objective/ && $1 !~ /^(manual|auto)$/ { print $1 }'); do
    layers=$(cuts --algorithm "$algorithm" --granularity layer) ops=$(cuts --algorithm "$algorithm" --granularity op)
    if [ "$(echo "$layers" | grep -c '^h[0-9]*\.linear$')" -ne 3 ] || [ "$layers" = "$ops" ]; then
        echo "--granularity with $algorithm: layer" $layers ", op" $ops
        failed=1
    fi
done
"$foreline" $plan --split-at h1.gelu --granularity layer >out 2>err && failed=1
[ "$(wc -l <err)" = 1 ] && grep -q "$(pattern "stage cannot begin 'h1.gelu' layer")" err || failed=1

refuse "did you mean '--schedule'?" $plan --schedul gpipe
refuse "did you mean 'gpipe'?" $plan --schedule gpip
refuse "did you mean 'balanced'?" $plan --algorithm balancd
refuse "did you mean 'gpt2-small'?" plan --model gpt2-smal --platform laptop
refuse "did you mean 'laptop'?" plan --model mlp --platform laptp
refuse "did you mean 'layers'?" plan --model gpt2-small:layer=6 --platform laptop
refuse "did you mean 'simgrid'?" simulate p.json --engine simgird
refuse "did you mean 'ring'?" simulate p.json --collective rin
refuse "did you mean 'local'?" run p.json --transport locl
refuse "did you mean 'pipe'?" bench pip
"$foreline" simulat 2>err || [ $? -eq 2 ] && grep -q "did you mean 'simulate'?" err || failed=1
refuse "did you mean 'bars'?" plot bar a.json -o x.svg
exit $failed
