#!/bin/sh
# The whole loop on small models: the same plan file is predicted by both engines and run for real;
# the loss falls; final parameters are bit-identical for 1, 2, 3 and 4 workers and both schedules;
# compare pairs what belongs together. Usage: loop.sh FORELINE
set -u
tool=$1
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 2
failed=0
complain() {
    echo "$*"
    failed=1
}
must() {
    "$@" >>log 2>&1 || {
        complain "failed: $*"
        tail -n 5 log
    }
}

for model in gpt-tiny:layers=2,hidden=32,tokens=32 gpt-tiny:layers=2,hidden=32,tokens=32,tied=1 \
    bert-base:layers=2,hidden=32,heads=4,tokens=16,vocabulary=300 mlp:layers=3,hidden=32; do
    first=""
    for stages in 1 2 3 4; do
        for schedule in gpipe 1f1b; do
            plan=plan-$stages-$schedule.json
            must "$tool" plan --algorithm balanced --model "$model" --platform laptop --stages $stages --schedule $schedule \
                --microbatches 4 --microbatch-size 2 -o "$plan"
            must "$tool" run "$plan" --steps 20 --warmup 0 --learning-rate 0.003 -o run.json
            sha=$(sed -n 's/.*"parameters_sha256": "\([0-9a-f]*\)".*/\1/p' run.json)
            [ ${#sha} = 64 ] || complain "$model $plan: no hash of the parameters"
            first=${first:-$sha}
            [ "$sha" = "$first" ] || complain "$model $plan: parameters $sha, expected $first"
            sed -n 's/^  "loss": //p' run.json | tr -d ' []' | tr ',' '\n' | sed '/^$/d' | awk -v m="$model" '
                { v[NR] = $1 }
                END { if (NR != 20 || !(v[19] + v[20] < v[1] + v[2])) {
                          print m ": loss of " NR " steps does not fall: " v[1] " " v[NR]; exit 1 } }' ||
                failed=1
        done
    done
done

# The other schedules end with the same parameters: halves of backwards, several stages on a device.
for model in gpt-tiny:layers=2,hidden=32,tokens=32 gpt-tiny:layers=2,hidden=32,tokens=32,tied=1; do
    first=""
    for shape in "--stages 1" "--stages 2 --schedule sequential" "--stages 3 --schedule zb-h1" \
        "--stages 4 --chunks 2 --schedule interleaved" "--stages 6 --chunks 3 --schedule interleaved" \
        "--stages 4 --chunks 2 --schedule breadth-first" "--stages 4 --schedule zb-v" \
        "--stages 4 --schedule dualpipe-v"; do
        # shellcheck disable=SC2086
        must "$tool" plan --algorithm balanced --model "$model" --platform laptop $shape --microbatches 4 -o shape.json
        must "$tool" run shape.json --steps 3 --warmup 0 -o run.json
        sha=$(sed -n 's/.*"parameters_sha256": "\([0-9a-f]*\)".*/\1/p' run.json)
        first=${first:-$sha}
        [ "$sha" = "$first" ] || complain "$model $shape: parameters $sha, expected $first"
    done
done
model=gpt-tiny:layers=2,hidden=32,tokens=32
must "$tool" plan --algorithm balanced --model "$model,tied=1" --platform laptop --stages 2 --replicas 2 --zero 1 \
    --schedule zb-v --microbatches 4 -o tied.json
"$tool" run tied.json --steps 1 -o no.json 2>error && complain "tied copies on one device were summed with ZeRO"
grep -q "share parameters in stages 0 and 1 of one device, .*with ZeRO" error ||
    complain "no word on tied copies: $(cat error)"

# Prediction and measurement of one plan file are paired by its hash; engines agree on a chain.
plan=plan-2-1f1b.json
must "$tool" simulate $plan --engine analytic -o a.json
must "$tool" simulate $plan --engine simgrid --trace s.trace.json -o s.json
must "$tool" run $plan --steps 3 -o m.json --trace m.trace.json
must "$tool" compare a.json s.json m.json
"$tool" compare a.json s.json m.json --json >compare.json || complain "compare --json failed"
grep -q '"measured_s"' compare.json || complain "compare pairs nothing"
for t in s m; do
    grep -o '"name": "[0-9][A-Z_]*[0-9]*"' $t.trace.json | sort >$t.names
done
cmp s.names m.names || complain "simulated and real trace name different ops"

# A profile has no numerics: paced ops, real bytes.
cat >graph.txt <<'P'
node1 -- Input0 -- forward_compute_time=0.0, backward_compute_time=0.0, activation_size=1000.0, parameter_size=0.0
node2 -- Conv2d(3, 64) -- forward_compute_time=4.0, backward_compute_time=8.0, activation_size=200000.0, parameter_size=7000.0
node3 -- ReLU(inplace) -- forward_compute_time=1.0, backward_compute_time=1.0, activation_size=200000.0, parameter_size=0.0
node4 -- Linear(10) -- forward_compute_time=3.0, backward_compute_time=6.0, activation_size=400.0, parameter_size=90000.0
	node1 -- node2
	node2 -- node3
	node3 -- node4
P
must "$tool" plan --algorithm balanced --model graph.txt --platform laptop --stages 2 --replicas 2 --microbatches 8 -o paced.json
must "$tool" run paced.json --steps 2 -o paced.m.json
"$tool" run paced.json --compute real -o no.json 2>error && complain "a profile was computed for real"
grep -q -- '--compute paced' error || complain "no hint at --compute paced: $(cat error)"
[ -e no.json ] && complain "a failed run has written a measurement"
exit $failed
