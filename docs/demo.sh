#!/bin/sh
# The loop on one machine: calibrate, plan, predict with both engines, run for real, compare, plot;
# then a cluster that is not there. Usage: docs/demo.sh BIN_DIR [OUTPUT_DIR]
set -eu
PATH=$(cd "$1" && pwd):$PATH
out=${2:-out}
mkdir -p "$out"
cd "$out"

step() {
    printf '\n== %s\n' "$1"
}

step "measure this machine (2 ranks, all busy at once)"
# --force: also on a busy machine, which it says
foreline calibrate --device cpu --ranks 2 --force -o here.xml

step "three plans of gpt-tiny on it: predict each, then run the same file for real"
plan() { # name, options
    name=$1
    shift
    foreline plan --algorithm balanced --model gpt-tiny --platform here.xml -o "$name.json" \
        "$@" >"$name.txt"
    foreline simulate "$name.json" --engine analytic -o "$name.analytic.json" >/dev/null
    foreline simulate "$name.json" --engine simgrid -o "$name.simgrid.json" \
        --trace "$name.simgrid.trace.json" >/dev/null
}
plan pipeline-1f1b --stages 2 --microbatches 8 --microbatch-size 2
plan pipeline-gpipe --stages 2 --microbatches 4 --microbatch-size 4 --schedule gpipe
plan data-parallel --stages 1 --replicas 2 --microbatches 8 --microbatch-size 2
for name in pipeline-1f1b pipeline-gpipe data-parallel; do
    foreline run "$name.json" --steps 15 --warmup 3 -o "$name.measured.json" \
        --trace "$name.measured.trace.json" >"$name.run.txt"
    echo "$name: $(grep '^loss' "$name.run.txt")"
done

step "predicted against measured"
set --
for name in pipeline-1f1b pipeline-gpipe data-parallel; do
    set -- "$@" "$name.analytic.json" "$name.simgrid.json" "$name.measured.json"
done
foreline compare "$@"

step "gpt2-small on two racks that are not here: 16 GPUs, every shape of plan"
foreline plan --model gpt2-small --platform two-racks -o two-racks.json
foreline simulate two-racks.json --trace two-racks.trace.json -o two-racks.measurement.json

foreline plot timeline pipeline-1f1b.measured.trace.json -o timeline.svg
foreline plot timeline two-racks.trace.json -o two-racks.svg
foreline plot scatter "$@" -o scatter.svg
foreline plot bars "$@" -o bars.svg

step "done; everything is in $out/"
echo "timeline.svg, two-racks.svg, scatter.svg, bars.svg: open in a browser
*.trace.json: open https://ui.perfetto.dev and drop the file on it
*.json: plans and measurements; see docs/reference/formats.md"
