#!/bin/sh
# The pictures of docs/reference/plots.md, from plans that are predicted here; the scatter is of
# docs/results/validation/netns. Usage: docs/plots/make.sh BIN_DIR
set -eu
PATH=$(cd "$1" && pwd):$PATH
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

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

# The same pipeline without and with noise, and 512 ranks of one.
foreline simulate 1f1b.json --engine simgrid --jitter 20% --trace noise.trace.json >/dev/null 2>&1
cp 1f1b.trace.json quiet.trace.json
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

foreline plot scatter validation/*.json -o scatter.png
foreline plot timeline many.trace.json -o timeline-many.png
foreline plot timeline 1f1b.trace.json --from 40ms --to 80ms --ranks 0-3 -o timeline-part.png
foreline plot timeline quiet.trace.json noise.trace.json --ranks 0,2,4,6 -o timeline-two.png
foreline plot throughput schedules.tsv --x schedule --by microbatches -o words.png
foreline model profile vgg:depth=11,side=32,width=4,hidden=32,classes=256 --graph graph.txt \
    -o profiled.json >/dev/null
foreline plot profile graph.txt -o profile.png
foreline plan --model unet --platform two-racks --stages 4 --microbatches 16 --microbatch-size 1 \
    --schedule 1f1b --candidates cuts.tsv -o unet.json >/dev/null 2>&1
foreline plot graph unet.json -o graph.png
foreline plot candidates cuts.tsv -o candidates.png
foreline plot bars ./*.analytic.json ./*.simgrid.json -o bars.png
foreline topology show two-racks --matrix two-racks.tsv >/dev/null
foreline plot throughput sweep.tsv -o throughput.png
foreline plot speedup sweep.tsv -o speedup.png
foreline plot regret sweep.tsv -o regret.png
foreline plot heatmap sweep.tsv --x nic --y plan -o heatmap.png
foreline plot heatmap two-racks.tsv -o matrix.png
foreline plot timeline 1f1b.trace.json -o timeline.png
foreline plot breakdown 1f1b.analytic.json 1f1b.simgrid.json gpipe.simgrid.json \
    tensor.simgrid.json -o breakdown.png
foreline plot memory gpipe.simgrid.json -o memory.png
foreline plot links 1f1b.simgrid.json -o links.png
foreline topology draw rail:nodes=128,rack=32,oversubscription=2 -o topology.png
foreline sweep "$here/../../bench/behaviour/bandwidth.yml" >/dev/null
foreline plot throughput bandwidth.db --x platform.nic.bandwidth --where devices=32 --xlabel 'port of a node (Gb/s)' -o bandwidth.png
cp ./*.png "$here"
