#!/bin/sh
# The gallery docs/plots/README.md and its pictures, from plans that are predicted here; the scatter
# is of docs/results/validation/netns. With FOLDER, each in the three styles, to look at; with
# --inputs only what they are drawn from, in this folder (tests/run_commands.py).
# Usage: docs/plots/make.sh BIN_DIR [FOLDER | --inputs]
set -eu
PATH=$(cd "$1" && pwd):$PATH
here=$(cd "$(dirname "$0")" && pwd)
inputs=$([ "${2:-}" != --inputs ] || echo only)
if [ ! "$inputs" ]; then
    folder=${2:+$(mkdir -p "$2" && cd "$2" && pwd)}
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    cd "$work"
fi

plan() { # name, options
    name=$1
    shift
    foreline plan --algorithm balanced --model gpt2-small --microbatches 16 --microbatch-size 4 \
        "$@" -o "$name.json" >/dev/null 2>&1
}
field() {
    sed -n "s/^ *\"$1\": \([0-9.e+-]*\),*$/\1/p" "$2" | head -n 1
}

# Eight V100 in four nodes: four plans at seven network bandwidths.
printf 'nic\tplan\tsamples_per_s\titeration_s\n' >sweep.tsv
for nic in 1Gbps 5Gbps 10Gbps 25Gbps 50Gbps 100Gbps 200Gbps; do
    for ways in 1 2 4 8; do
        plan p --platform "leaf-spine:nodes=4,gpus=2,type=V100,nic=$nic" \
            --stages $((8 / ways)) --replicas $ways
        foreline simulate p.json --engine analytic -o m.json >/dev/null
        printf '%s\t%s\t%s\t%s\n' $nic "$((8 / ways)) stages x $ways" \
            "$(field samples_per_s m.json)" "$(field iteration_s m.json)" >>sweep.tsv
    done
done

plan 1f1b --platform two-racks --stages 4 --replicas 2
plan gpipe --platform two-racks --stages 8 --replicas 2 --schedule gpipe
plan tensor --platform two-racks --stages 4 --tensor-parallel 4
for name in 1f1b gpipe tensor; do
    for engine in analytic simgrid; do
        foreline simulate $name.json --engine $engine --trace $name.trace.json \
            -o $name.$engine.json >/dev/null 2>&1
    done
done

# 512 ranks of one pipeline.
foreline plan --algorithm balanced --model gpt2-small --platform rail:nodes=64,gpus=8,type=V100 \
    --stages 16 --replicas 32 --microbatches 256 --microbatch-size 8 -o many.json >/dev/null 2>&1
foreline simulate many.json --engine analytic --trace many.trace.json >/dev/null 2>&1

# Schedules are words.
printf 'schedule\tmicrobatches\tsamples_per_s\n' >schedules.tsv
for schedule in gpipe 1f1b zb-h1 zb-v; do
    for m in 8 16 32; do
        foreline plan --algorithm balanced --model gpt2-small --platform two-racks --stages 4 \
            --replicas 2 --schedule $schedule --microbatches $m -o s.json >/dev/null 2>&1
        foreline simulate s.json --engine analytic -o m.json >/dev/null 2>&1
        printf '%s\t%s\t%s\n' $schedule $m "$(field samples_per_s m.json)" >>schedules.tsv
    done
done

# 24 plans as their validation has left them: its table, made measurements again.
mkdir validation
grep -v '^#' "$here/../results/validation/netns/results.tsv" | tr -d ' ' |
    while IFS='	' read -r name engine _ _ measured _ _ _ _ simgrid _; do
        for of in "$engine:$measured" "simgrid:$simgrid"; do
            sed "/\"plan_sha256\"/d; s/\"engine\": \"[^\"]*\"/\"engine\": \"${of%:*}\"/
                s/\"plan\": \"[^\"]*\"/\"plan\": \"$name.json\"/
                s/\"iteration_s\": [0-9.e-]*/\"iteration_s\": ${of#*:}/" \
                1f1b.simgrid.json >"validation/$name.${of%:*}.json"
        done
    done

foreline model profile vgg:depth=11,side=32,width=4,hidden=32,classes=256 --graph graph.txt \
    -o profiled.json >/dev/null 2>&1
foreline plan --model unet --platform two-racks --stages 4 --microbatches 16 --microbatch-size 1 \
    --schedule 1f1b --candidates cuts.tsv -o unet.json >/dev/null 2>&1
foreline topology show two-racks --matrix two-racks.tsv >/dev/null
foreline sweep "$here/../../bench/behaviour/bandwidth.yml" >/dev/null
[ ! "$inputs" ] || exit 0

# ---- pictures

# A picture, on the page with the command that draws it; with FOLDER also in each style there.
draw() { # NAME COMMAND...
    name=$1
    shift
    call=foreline
    for word in "$@"; do
        case $word in *[\ \(]*) word="'$word'" ;; esac
        call="$call $word"
    done
    foreline "$@" -o "$name.png"
    printf '\n![%s](%s.png)\n\n    %s\n' "$name" "$name" "$call -o $name.png" >>README.md
    for style in ${folder:+paper slide web}; do
        foreline "$@" --style "$style" -o "$folder/$name-$style.png"
    done
}
heading() {
    printf '\n## %s\n' "$*" >>README.md
}
cat >README.md <<'END'
# Gallery

One figure of each kind with its command; [plots](../reference/plots.md) explains them. `docs/plots/make.sh` draws them.
END

heading Tables
draw throughput plot throughput sweep.tsv
draw words plot throughput schedules.tsv --x schedule --by microbatches
draw facets plot throughput bandwidth.db --x platform.nic.bandwidth --by plan.stages --facet devices
draw speedup plot speedup sweep.tsv
draw regret plot regret sweep.tsv
draw heatmap plot heatmap sweep.tsv --x nic --y plan
draw matrix plot heatmap two-racks.tsv
draw candidates plot candidates cuts.tsv

heading Measurements
draw bars plot bars 1f1b.analytic.json 1f1b.simgrid.json gpipe.analytic.json gpipe.simgrid.json
draw breakdown plot breakdown 1f1b.simgrid.json gpipe.simgrid.json tensor.simgrid.json
draw memory plot memory gpipe.simgrid.json
draw links plot links 1f1b.simgrid.json
draw scatter plot scatter validation/*.json

heading Traces
draw timeline plot timeline 1f1b.trace.json
draw timeline-many plot timeline many.trace.json

heading Models and platforms
draw profile plot profile graph.txt
draw graph plot graph unet.json
draw topology topology draw rail:nodes=128,rack=32,oversubscription=2

heading Styles
printf '\nThe first figure with `--style paper`, `slide` and `web`:\n\n' >>README.md
for style in paper slide web; do
    foreline plot throughput sweep.tsv --style $style -o "style-$style.png"
    printf '![%s](style-%s.png)\n' $style $style >>README.md
done
sed -i 's|plot scatter validation/[^>]*-o|plot scatter validation/*.json -o|' README.md

foreline plot throughput bandwidth.db --x platform.nic.bandwidth --where devices=32 \
    --label platform.nic.bandwidth='Port of a node' --style paper --note none -o bandwidth.png
"$here/shrink.py" ./*.png
cp ./*.png README.md "$here"
