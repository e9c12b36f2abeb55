#!/bin/sh
# A run that Ctrl-C stops after some steps writes what it measured, and ends as a process that SIGINT has ended.
# With MILLION=1 also a run of a million steps, which must end at once after its last step.
# Usage: run_interrupt.sh FORELINE
set -u
tool=$1
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 2
export TMPDIR="$dir/tmp"
mkdir tmp
fail() {
    echo "FAIL: $*" >&2
    exit 1
}
"$tool" plan --algorithm balanced --model gpt-tiny:layers=1,hidden=8,heads=1,tokens=4 --platform laptop \
    --microbatches 1 --stages 1 -o p.json >out 2>&1 || fail "plan: $(cat out)"

interrupted() { # interrupted STEP_TO_WAIT_FOR [OPTION...]
    : >err
    every=$1
    shift
    set -- "$every" -o m.json --trace t.json "$@"
    "$tool" run p.json --steps 900000 --loss-every "$@" >out 2>err &
    pid=$!
    until grep -q "^step $1 " err; do
        kill -0 $pid 2>/dev/null || fail "ended: $(cat err)"
        sleep 0.1
    done
    kill -INT $pid
    wait $pid
    status=$?
    [ $status = 130 ] || fail "status $status, expected 130: $(cat err)"
    done=$(sed -n 's/^warning: interrupted after \([0-9]*\) of 900002 steps$/\1/p' err)
    [ -n "$done" ] && [ "$done" -ge "$1" ] || fail "it does not say after how many steps: $(tail -3 err)"
    grep -q "^iteration .*(median of $((done - 2)): " out || fail "no summary: $(head -3 out)"
    [ -s t.json ] || fail "no trace"
    "$tool" simulate p.json --engine analytic -o s.json >out 2>&1 || fail "simulate: $(cat out)"
    "$tool" compare s.json m.json >out 2>&1 || fail "the result is not readable: $(cat out)"
    [ -z "$(ls tmp)" ] || fail "left behind: $(ls tmp)"
}
interrupted 50
! grep -q checkpoint err || fail "speaks of checkpoints that nobody wanted: $(cat err)"
# What is kept of it, and what would have been.
interrupted 50 --checkpoint never
grep -q '^warning: no checkpoint was written; .*--checkpoint-every N' err || fail "no word of a checkpoint: $(cat err)"
interrupted 50 --checkpoint some --checkpoint-every 20
step=$(sed -n 's/^warning: newest checkpoint: step \([0-9]*\); .*--resume some$/\1/p' err)
[ -n "$step" ] && [ -f "some/step-$(printf %08d "$step")/manifest.json" ] || fail "step '$step': $(cat err)"
if [ "${MILLION:-0}" = 1 ]; then
    interrupted 100000
    "$tool" run p.json --steps 1000000 >out 2>err || fail "a million steps: $(cat err)"
    grep -q '^iteration .*(median of 1000000: ' out || fail "a million steps: $(cat out)"
fi

# Before a step was measured there is nothing to write.
"$tool" run p.json --launcher none --steps 3 -o none.json >out 2>err &
pid=$!
until grep -q 'waiting for 1 workers' err; do
    kill -0 $pid 2>/dev/null || fail "ended: $(cat err)"
    sleep 0.1
done
kill -INT $pid
wait $pid
status=$?
[ $status = 130 ] && [ ! -e none.json ] && grep -q 'interrupted.*signal.*2' err ||
    fail "interrupted before it began: $status, $(cat err)"
