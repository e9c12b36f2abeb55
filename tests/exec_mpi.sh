#!/bin/sh
# Runs over MPI: the parameters are those of the TCP runs, bit for bit, whoever starts the workers;
# and whatever kills or stops a rank, one line says so and nothing is left.
# Usage: exec_mpi.sh DIRECTORY_OF_BINARIES
set -eu
bin=$(cd "$1" && pwd)
tool=$bin/foreline
command -v mpirun >/dev/null && [ -x "$bin/foreline-worker-mpi" ] || {
    echo "skipped: Open MPI is not installed, or was not when this was built"
    exit 77
}
work=$(mktemp -d)
marker=exec-mpi-$$-$(basename "$work")
trap 'rm -rf "$work"' EXIT
cd "$work"
unset RANK WORLD_SIZE FORELINE_WORKER

fail() {
    echo "FAIL: $*" >&2
    exit 1
}
tiny=gpt-tiny:layers=2,hidden=32,heads=2,tokens=32
plan() { # plan FILE OPTIONS...
    file=$1
    shift
    "$tool" plan --algorithm balanced --model $tiny --platform laptop --microbatches 4 "$@" \
        -o "$file" >plan.out 2>&1 || fail "plan $*: $(cat plan.out)"
}
run() { # run PLAN OPTIONS...: the hash of the parameters
    "$tool" run "$@" --steps 3 --warmup 0 --json >m.json 2>run.err || fail "run $*: $(cat run.err)"
    sed -n 's/.*"parameters_sha256": "\([0-9a-f]*\)".*/\1/p' m.json
}

# One, two and four ranks, two stages of two replicas, shards, ZeRO: TCP's bits.
for shape in "--stages 1" "--stages 2" "--stages 4" "--stages 2 --replicas 2" \
    "--stages 2 --tensor-parallel 2" "--stages 1 --replicas 4 --zero 3"; do
    plan p.json $shape --schedule 1f1b
    tcp=$(run p.json)
    mpi=$(run p.json --transport mpi)
    [ ${#tcp} = 64 ] && [ "$tcp" = "$mpi" ] || fail "$shape: tcp $tcp, mpi $mpi"
    grep -q '"engine": "mpi"' m.json || fail "engine: $(grep engine m.json)"
done

# The same plan started by other hands: our mpirun line, a user's, and processes one by one.
root=
[ "$(id -u)" = 0 ] && root=--allow-run-as-root
own="mpirun $root -n 4 --oversubscribe --bind-to none --mca btl tcp,self --mca btl_tcp_if_include lo"
[ "$(run p.json --transport mpi --launcher "$own")" = "$mpi" ] || fail "--launcher mpirun"
echo "localhost slots=4" >hosts
[ "$(run p.json --transport mpi --hosts hosts)" = "$mpi" ] || fail "--hosts"
by_hand() { # by_hand TRANSPORT: sets $line to what every rank is
    : >hand.err
    "$tool" run p.json --transport "$1" --launcher none --steps 3 --warmup 0 --json \
        >hand.json 2>hand.err &
    launcher=$!
    tries=0
    while [ "$(wc -l <hand.err)" -lt 2 ]; do
        tries=$((tries + 1))
        [ $tries -lt 1200 ] || fail "no line: $(cat hand.err)"
        sleep 0.05
    done
    line=$(sed -n 's/^  \(FORELINE_LAUNCHER=.*\)/\1/p' hand.err)
}
by_hand mpi
echo "exec env $line" >rank.sh
$own sh rank.sh >hand.out 2>&1 || fail "mpirun by hand: $(cat hand.out)"
wait $launcher || fail "by hand: $(cat hand.err)"
grep -q "$mpi" hand.json || fail "by hand: $(grep sha256 hand.json)"
by_hand tcp
for rank in 0 1 2 3; do # as torchrun sets them
    RANK=$rank WORLD_SIZE=4 LOCAL_RANK=$rank sh -c "exec env $line" &
done
wait $launcher || fail "torchrun's variables: $(cat hand.err)"
grep -q "$tcp" hand.json || fail "torchrun's variables: $(grep sha256 hand.json)"
wait

# What is missing is said in one line.
expect() { # expect TEXT COMMAND...: exit status 1 and this one line
    text=$1
    shift
    status=0
    "$@" >run.out 2>run.err || status=$?
    [ $status = 1 ] && [ "$(wc -l <run.err)" = 1 ] && grep -q "$text" run.err ||
        fail "expected '$text': exit $status, $(cat run.err)"
}
expect 'mpirun.*workers' env PATH=/nowhere "$tool" run p.json --transport mpi
expect 'nosuchlauncher not found' "$tool" run p.json --transport mpi --launcher "nosuchlauncher -n 4"
expect 'launcher.*status' \
    env FORELINE_WORKER=/nowhere/worker "$tool" run p.json --transport mpi
mkdir -p lonely/bin && cp "$tool" lonely/bin/foreline && ln -s "$(dirname "$tool")/../lib" lonely/lib &&
    ln -s "$(dirname "$tool")/../share" lonely/share
expect 'foreline-worker-mpi not found in' lonely/bin/foreline run p.json --transport mpi
rm -r lonely

# A rank killed, a rank stopped, the launcher killed.
workers() { # pids of this test's workers
    for d in /proc/[0-9]*; do
        case $(cat "$d/comm" 2>/dev/null) in
        foreline-worker | mpirun)
            if cat "$d/environ" 2>/dev/null | tr '\0' '\n' | grep -q "^EXEC_MPI=$marker"; then
                echo "${d#/proc/}"
            fi
            ;;
        esac
    done
}
ranks() {
    for pid in $(workers); do
        [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = mpirun ] || echo "$pid"
    done
}
begin() { # begin N: a long run of N ranks in the background, in its steps
    plan p.json --stages "$1"
    EXEC_MPI=$marker "$tool" run p.json --transport mpi --steps 100000 --timeout 2s --loss-every 1 \
        >run.out 2>run.err &
    launcher=$!
    tries=0
    while [ "$(ranks | wc -l)" -lt "$1" ]; do
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
}
ended() { # ended TEXT: the launcher has failed with this one line, and everything is gone
    status=0
    wait $launcher || status=$?
    [ $status = 1 ] && [ "$(grep -vc '^step ' run.err)" = 1 ] && grep -q "$1" run.err ||
        fail "expected '$1': exit $status, $(grep -v '^step ' run.err)"
    tries=0
    while [ -n "$(workers)" ]; do
        tries=$((tries + 1))
        [ $tries -lt 600 ] || fail "left behind: $(workers)"
        sleep 0.1
    done
}
begin 2
kill -9 "$(ranks | tail -n 1)"
ended '^foreline run: rank [01] .* killed by signal 9'
begin 3
kill -STOP "$(ranks | tail -n 1)"
ended '^foreline run: rank [012] .* timeout: no heartbeat for'
killed() { # the launcher; everything else ends by itself
    kill -9 $launcher
    wait $launcher 2>/dev/null || true
    end=$(($(date +%s) + 60))
    while [ -n "$(workers)" ]; do
        [ "$(date +%s)" -lt $end ] || fail "left behind by a dead launcher: $(workers)"
        sleep 0.1
    done
}
begin 2
killed
# Before the ranks have met it: they find its door shut, and do not try for 20 s + 1.5 --timeout + 2 s, here 112 s.
mkdir slow
printf '#!/bin/sh\nsleep 1\nexec "%s" "$@"\n' "$bin/foreline-worker-mpi" >slow/foreline-worker-mpi
chmod +x slow/foreline-worker-mpi
EXEC_MPI=$marker FORELINE_WORKER=$PWD/slow/foreline-worker-mpi \
    "$tool" run p.json --transport mpi --steps 100000 --timeout 60s >run.out 2>run.err &
launcher=$!
until [ "$(ranks | wc -l)" -ge 2 ]; do
    kill -0 $launcher || fail "workers do not start: $(cat run.err)"
    sleep 0.1
done
killed
# Too few descriptors for mpirun, for the launcher or for both: what was made for the run goes, although removing takes some, too.
mkdir tmp
for most in 9 10 11 12; do
    status=0
    (ulimit -n $most && TMPDIR=$PWD/tmp exec "$tool" run p.json --transport mpi --steps 2) >run.out 2>run.err || status=$?
    [ $status = 1 ] && [ -z "$(ls tmp)" ] || fail "$most descriptors: exit $status, left $(ls tmp), $(cat run.err)"
done
echo "mpi equals tcp: $mpi"
