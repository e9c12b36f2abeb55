#!/bin/sh
# Runs whose ranks are threads of one process: TCP's parameters bit for bit, and whatever ends the
# process or one of its ranks, one line says so and nothing is left.
# Usage: exec_local.sh DIRECTORY_OF_BINARIES
set -eu
tool=$(cd "$1" && pwd)/foreline
work=$(mktemp -d)
marker=exec-local-$$-$(basename "$work")
trap 'rm -rf "$work"' EXIT
cd "$work"
unset RANK WORLD_SIZE FORELINE_WORKER

fail() {
    echo "FAIL: $*" >&2
    exit 1
}
plan() { # plan OPTIONS...: p.json
    "$tool" plan --algorithm balanced --model gpt-tiny:layers=2,hidden=32,heads=2,tokens=32 \
        --platform laptop --microbatches 4 "$@" -o p.json >plan.out 2>&1 ||
        fail "plan $*: $(cat plan.out)"
}
run() { # run OPTIONS...: the hash of the parameters
    "$tool" run p.json "$@" --steps 3 --warmup 0 --json >m.json 2>run.err ||
        fail "run $*: $(cat run.err)"
    sed -n 's/.*"parameters_sha256": "\([0-9a-f]*\)".*/\1/p' m.json
}

for shape in "--stages 1" "--stages 2" "--stages 4 --schedule gpipe" "--stages 3 --schedule zb-h1" \
    "--stages 2 --tensor-parallel 2" "--stages 1 --replicas 4 --zero 3" \
    "--stages 1 --replicas 2 --zero 1 --bucket 8KiB" "--stages 2 --replicas 2" \
    "--stages 1 --replicas 3" "--stages 4 --schedule zb-v" \
    "--stages 4 --replicas 2 --schedule dualpipe"; do
    plan $shape
    tcp=$(run)
    local=$(run --transport local)
    [ ${#tcp} = 64 ] && [ "$tcp" = "$local" ] || fail "$shape: tcp $tcp, local $local"
    grep -q '"engine": "local"' m.json || fail "engine: $(grep engine m.json)"
done
run --transport local --compute paced >/dev/null
grep -q '"engine": "local-paced"' m.json || fail "engine: $(grep engine m.json)"

# Started by somebody else: one line, once.
: >hand.err
"$tool" run p.json --transport local --launcher none --steps 3 --warmup 0 --json >hand.json \
    2>hand.err &
launcher=$!
tries=0
while [ "$(wc -l <hand.err)" -lt 2 ]; do
    tries=$((tries + 1))
    [ $tries -lt 1200 ] || fail "no line: $(cat hand.err)"
    sleep 0.05
done
line=$(sed -n 's/^  \(FORELINE_LAUNCHER=.*\)/\1/p' hand.err)
sh -c "exec env $line" || fail "by hand: $(cat hand.err)"
wait $launcher || fail "by hand: $(cat hand.err)"
grep -q "$local" hand.json || fail "by hand: $(grep sha256 hand.json)"

# A rank that cannot begin says why, once.
expect() { # expect TEXT COMMAND...: exit status 1 and this one line
    text=$1
    shift
    status=0
    "$@" >run.out 2>run.err || status=$?
    [ $status = 1 ] && [ "$(wc -l <run.err)" = 1 ] && grep -q "$text" run.err ||
        fail "expected '$text': exit $status, $(cat run.err)"
}
expect '^foreline run: /nowhere/text: No such file' \
    "$tool" run p.json --transport local --text /nowhere/text
expect 'exited.*status.*127\|No.*such.*file' \
    env FORELINE_WORKER=/nowhere/worker "$tool" run p.json --transport local

# The process killed, stopped, the launcher killed.
worker() { # pid of this test's worker
    for d in /proc/[0-9]*; do
        [ "$(cat "$d/comm" 2>/dev/null)" = foreline-worker ] || continue
        if cat "$d/environ" 2>/dev/null | tr '\0' '\n' | grep -q "^EXEC_LOCAL=$marker"; then
            echo "${d#/proc/}"
        fi
    done
}
begin() { # a long run in the background, in its steps
    EXEC_LOCAL=$marker "$tool" run p.json --transport local --steps 100000 --timeout 2s --loss-every 1 \
        >run.out 2>run.err &
    launcher=$!
    tries=0
    while [ -z "$(worker)" ]; do
        tries=$((tries + 1))
        [ $tries -lt 1200 ] || fail "the worker does not start: $(cat run.err)"
        sleep 0.1
    done
    tries=0
    until grep -q '^step ' run.err; do # all ranks are in their steps
        tries=$((tries + 1))
        [ $tries -lt 1200 ] || fail "no step: $(cat run.err)"
        sleep 0.1
    done
}
gone() {
    tries=0
    while [ -n "$(worker)" ]; do
        tries=$((tries + 1))
        [ $tries -lt 600 ] || fail "left behind: $(worker)"
        sleep 0.1
    done
}
ended() { # ended TEXT: the launcher has failed with this one line, and everything is gone
    status=0
    wait $launcher || status=$?
    [ $status = 1 ] && [ "$(grep -vc '^step ' run.err)" = 1 ] && grep -q "$1" run.err ||
        fail "expected '$1': exit $status, $(grep -v '^step ' run.err)"
    gone
}
plan --stages 2 --replicas 2
begin
[ "$(worker | wc -l)" = 1 ] || fail "not one process: $(worker)"
kill -9 "$(worker)"
ended '^foreline run: .*all 4 .*signal 9, rank 0 '
begin
kill -STOP "$(worker)"
ended '^foreline run: rank [0-3] .* timeout: no heartbeat for'
begin
kill -9 $launcher
wait $launcher 2>/dev/null || true
gone
echo "local equals tcp: $local"
