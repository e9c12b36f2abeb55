#!/bin/sh
# The run command end to end: equal parameters however the model is cut, a loss that falls, and
# nothing left of a run whose worker is killed.  Usage: exec_run.sh DIRECTORY_OF_BINARIES
set -eu
bin=$(cd "$1" && pwd)
work=$(mktemp -d)
marker=exec-run-$$-$(basename "$work")
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "FAIL: $*" >&2
    exit 1
}

tiny=gpt-tiny:layers=2,hidden=32,heads=2,tokens=32
plan() { # plan FILE OPTIONS...
    file=$1
    shift
    "$bin/foreline" plan --algorithm balanced --model $tiny --platform laptop --microbatches 4 "$@" -o "$file" \
        >plan.out 2>&1 || fail "plan $*: $(cat plan.out)"
}
field() { # field KEY FILE: the number or string after a key
    sed -n "s/.*\"$1\": *\"\{0,1\}\([^\",}]*\).*/\1/p" "$2" | head -n 1
}

# One to four workers, both schedules: the same bits.
expected=
for stages in 1 2 3 4; do
    for schedule in gpipe 1f1b; do
        plan p.json --stages $stages --schedule $schedule
        "$bin/foreline" run p.json --steps 3 --warmup 0 --json >m.json 2>run.err ||
            fail "run of $stages stages: $(cat run.err)"
        hash=$(field parameters_sha256 m.json)
        [ ${#hash} = 64 ] || fail "no parameters_sha256 in $(cat m.json)"
        [ "${expected:=$hash}" = "$hash" ] || fail "$stages stages, $schedule: $hash, not $expected"
    done
done

# Twenty steps: the loss falls. Replicas agree with each other, or the run would fail.
plan p.json --stages 2 --replicas 2
"$bin/foreline" run p.json --steps 20 --warmup 0 -o m.json --trace t.json >run.out 2>run.err ||
    fail "training: $(cat run.err)"
grep -q traceEvents t.json || fail "no trace"
awk '/^loss/ { sub(",", "", $2); exit !($4 + 0 < $2 - 0.5) }' run.out || fail "loss: $(cat run.out)"

# The trace names what the simulated one names, the sums over replicas too.
"$bin/foreline" simulate p.json --engine simgrid --trace s.json >/dev/null 2>&1 ||
    fail "simulate --trace"
for t in s t; do
    grep -o '"name": "[0-9][A-Z_]*[0-9]*"' $t.json | sort >$t.names
done
cmp s.names t.names || fail "simulated and real trace name different ops"
grep -q ALLREDUCE t.names || fail "no all-reduce in the trace"

# Losses on request, and the data: every token is predicted by the one before it.
"$bin/foreline" run p.json --steps 4 --warmup 1 --loss-every 2 --dtype fp32 --batch-tokens d.bin \
    >run.out 2>run.err || fail "--loss-every: $(cat run.err)"
[ "$(sed -n 's/^step \([0-9]*\) of 5: .* loss [0-9.]*$/\1/p' run.err | tr '\n' ' ')" = "2 4 " ] ||
    fail "--loss-every 2: $(cat run.err)"
grep -q 'mean .*deviation .*5th percentile .*95th ' run.out || fail "statistics: $(cat run.out)"
grep -q 'predicted   measured' run.out || fail "memory: $(cat run.out)"
od -An -v -t d4 -w256 d.bin | awk ' # a microbatch of 32 tokens and 32 targets in a line
    { for (t = 1; t < 32; t++) if ($(32 + t) != $(t + 1) || $t < 1 || $t > 255) exit 1 }
    END { exit NR != 5 * 4 }' || fail "--batch-tokens"
"$bin/foreline" run p.json --steps 4 --warmup 1 --batch-tokens e.bin >run.out 2>run.err
cmp d.bin e.bin || fail "the data of a second run differ"

# A plan for a framework's kernels: that is whose times a prediction and a paced run have, not one that foreline computes.
"$bin/foreline" plan --algorithm balanced --model $tiny --platform laptop --stages 2 --framework compiled -o f.json \
    >plan.out 2>&1 || fail "--framework compiled: $(cat plan.out)"
for compute in real paced; do
    "$bin/foreline" run f.json --steps 1 --warmup 0 --compute $compute --json >m.json 2>run.err || fail "$(cat run.err)"
    framework=$(field framework m.json)
    [ "$framework" = "$([ $compute = real ] || echo compiled)" ] || fail "--compute $compute: framework $framework"
done

# Paced: no numerics, no hash, but it runs.
"$bin/foreline" run p.json --steps 1 --compute paced --json >m.json 2>run.err ||
    fail "paced: $(cat run.err)"
[ "$(field engine m.json)" = tcp-paced ] || fail "engine $(field engine m.json)"

# What cannot be: one line, and the exit status of usage and failure.
status=0
"$bin/foreline" run p.json --compute imaginary 2>run.err || status=$?
[ $status = 2 ] || fail "--compute imaginary: exit $status"
status=0
"$bin/foreline" run nowhere.json 2>run.err || status=$?
[ $status = 1 ] && [ "$(wc -l <run.err)" = 1 ] || fail "missing plan: exit $status, $(cat run.err)"
status=0
"$bin/foreline" run p.json --text nowhere.txt 2>run.err || status=$?
[ $status = 1 ] && grep -q nowhere.txt run.err || fail "missing text: exit $status, $(cat run.err)"

status=0
"$bin/foreline" run p.json --dtype bf16 2>run.err || status=$?
[ $status = 2 ] && grep -q 'dtype=bf16' run.err ||
    fail "--dtype bf16: exit $status, $(cat run.err)"
status=0
"$bin/foreline" run p.json -o nowhere/m.json 2>run.err || status=$?
[ $status = 1 ] && [ "$(wc -l <run.err)" = 1 ] && grep -q '^foreline run: nowhere/m.json: .*folder' run.err ||
    fail "no place for the output: exit $status, $(cat run.err)"

# Kill a worker in the middle.
workers() { # pids of this test's workers
    for d in /proc/[0-9]*; do
        case $(cat "$d/comm" 2>/dev/null) in
        foreline-worker)
            if cat "$d/environ" 2>/dev/null | tr '\0' '\n' | grep -q "^EXEC_RUN=$marker"; then
                echo "${d#/proc/}"
            fi
            ;;
        esac
    done
}
plan p.json --stages 2
EXEC_RUN=$marker "$bin/foreline" run p.json --steps 100000 --loss-every 1 >run.out 2>run.err &
launcher=$!
tries=0
while [ "$(workers | wc -l)" -lt 2 ]; do
    tries=$((tries + 1))
    [ $tries -lt 1200 ] || fail "workers do not start: $(cat run.err)"
    sleep 0.1
done
tries=0
until grep -q '^step ' run.err; do # all ranks are in their steps
    tries=$((tries + 1))
    [ $tries -lt 1200 ] || fail "no step: $(cat run.err)"
    sleep 0.1
done
victim=$(workers | tail -n 1)
kill -9 "$victim"
status=0
wait $launcher || status=$?
[ $status = 1 ] || fail "killed worker: exit $status"
grep -q "^foreline run: rank [01] .* killed by signal 9" run.err || fail "message: $(cat run.err)"
[ "$(grep -vc '^step ' run.err)" = 1 ] || fail "more than one line: $(cat run.err)"
[ -z "$(workers)" ] || fail "left behind: $(workers)"
echo "equal parameters for 1 to 4 workers: $expected"
