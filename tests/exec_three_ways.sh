#!/bin/sh
# One plan of two stages and two replicas by `foreline run`, by mpirun and by four processes with
# torchrun's environment: the same plan hash, the same parameters; and what goes wrong in processes
# that nobody else looks after ends them all.
# Usage: exec_three_ways.sh DIRECTORY_OF_BINARIES
set -eu
bin=$(cd "$1" && pwd)
tool=$bin/foreline
work=$(mktemp -d)
marker=three-ways-$$
trap 'rm -rf "$work"' EXIT
cd "$work"
unset RANK WORLD_SIZE FORELINE_WORKER
export TMPDIR="$work/tmp"
mkdir tmp
# Below the ports that the kernel gives to connections: one of those may be in use at any moment.
port=$((10000 + $$ % 20000))

fail() {
    echo "FAIL: $*" >&2
    exit 1
}
field() { # field KEY FILE
    sed -n "s/.*\"$1\": *\"\([^\"]*\)\".*/\1/p" "$2"
}
hashes() { # hashes FILE: of the plan and of the parameters
    echo "$(field plan_sha256 "$1") $(field parameters_sha256 "$1")"
}
"$tool" plan --algorithm balanced --model gpt-tiny:layers=2,hidden=32,heads=2,tokens=32 \
    --platform laptop --microbatches 4 --stages 2 --replicas 2 -o p.json >plan.out 2>&1 ||
    fail "plan: $(cat plan.out)"

"$tool" run p.json --steps 3 --json >run.json 2>run.err || fail "foreline run: $(cat run.err)"
expected=$(hashes run.json)
[ ${#expected} = 129 ] || fail "hashes: $expected"

# Four processes; the last ones first.
plan=p.json
rank() { # rank N OPTIONS...: replaces this (sub)shell
    number=$1
    shift
    export RANK="$number" WORLD_SIZE=4 LOCAL_RANK="$number" MASTER_ADDR=localhost MASTER_PORT=$port
    exec env THREE_WAYS=$marker "$tool" run "$plan" --launcher env "$@"
}
all() { # all OPTIONS...: outputs N.out, N.err, exit statuses in $statuses
    pids=
    for r in 3 2 1 0; do
        (rank $r "$@" >$r.out 2>$r.err) &
        pids="$! $pids"
    done
}
collect() {
    statuses=
    for pid in $pids; do
        status=0
        wait "$pid" || status=$?
        statuses="$statuses$status"
    done
}
left() { # what still runs
    grep -lzsx "THREE_WAYS=$marker" /proc/[0-9]*/environ | sed 's|/proc/\([0-9]*\)/.*|\1|'
}
nothing_left() {
    tries=0
    while [ -n "$(left)$(ls -A tmp)" ]; do
        tries=$((tries + 1))
        [ $tries -lt 600 ] || fail "$1: left behind: $(left) $(ls -A tmp)"
        sleep 0.1
    done
}
all --steps 3 --json
collect
[ "$statuses" = 0000 ] || fail "torchrun's environment: exits $statuses, $(cat ?.err)"
[ "$(hashes 0.out)" = "$expected" ] || fail "torchrun's environment: $(hashes 0.out), not $expected"
[ "$(cat 1.out 2.out 3.out | wc -c)" = 0 ] || fail "other ranks than 0 print: $(cat 1.out)"
nothing_left "torchrun's environment"

# As under torchrun, whose agent has the port: here another run's rank 0 that waits for the others.
(rank 0 --steps 3 >waiting.out 2>waiting.err) &
waiting=$!
tries=0
until grep -q ":$(printf %04X "$port") 00000000:0000 0A" /proc/net/tcp; do # it listens
    tries=$((tries + 1))
    [ $tries -lt 1200 ] || fail "rank 0 does not wait: $(cat waiting.err)"
    sleep 0.1
done
grep -q "0100007F:$(printf %04X "$port") 00000000:0000 0A" /proc/net/tcp ||
    fail "listens elsewhere than at MASTER_ADDR: $(grep ":$(printf %04X "$port") 00000000:0000 0A" /proc/net/tcp)"
status=0
(rank 0 --steps 3 >second.out 2>second.err) || status=$?
[ $status = 1 ] && [ "$(grep -c . second.err)" = 1 ] &&
    grep -q "launcher at 127.0.0.1:$port: Address already in use" second.err ||
    fail "port in use: exit $status, $(cat second.err)"
TORCHELASTIC_USE_AGENT_STORE=True
export TORCHELASTIC_USE_AGENT_STORE
all --steps 3 --json
collect
unset TORCHELASTIC_USE_AGENT_STORE
[ "$statuses" = 0000 ] || fail "beside torchrun's agent: exits $statuses, $(cat ?.err)"
[ "$(hashes 0.out)" = "$expected" ] || fail "beside torchrun's agent: $(hashes 0.out)"
kill -TERM $waiting
wait $waiting && fail "a run that was told to stop succeeded"
grep -q 'interrupted.*signal.*15' waiting.err || fail "interrupted: $(cat waiting.err)"
nothing_left "the waiting one"

# Two processes of two ranks each, as on two machines; the second one first.
halves() { # halves OPTIONS...
    pids=
    for r in 2 0; do
        (rank $r --local-ranks 2 "$@" >$r.out 2>$r.err) &
        pids="$! $pids"
    done
}
halves --steps 3 --json
collect
[ "$statuses" = 00 ] || fail "two processes: exits $statuses, $(cat 0.err 2.err)"
[ "$(hashes 0.out)" = "$expected" ] || fail "two processes: $(hashes 0.out), not $expected"
[ ! -s 2.out ] || fail "the second process prints $(cat 2.out)"
nothing_left "two processes"
status=0
(rank 2 --local-ranks 3) 2>run.err || status=$?
[ $status = 2 ] && grep -q -e '--local-ranks 3 .* rank 2 .* 4 ranks' run.err ||
    fail "three of two ranks: exit $status, $(cat run.err)"

# mpirun starts the same command, over tcp and mpi.
if command -v mpirun >/dev/null && [ -x "$bin/foreline-worker-mpi" ]; then
    root=
    [ "$(id -u)" = 0 ] && root=--allow-run-as-root
    for transport in tcp mpi; do
        # shellcheck disable=SC2086
        MASTER_PORT=$port mpirun $root -np 4 --oversubscribe --bind-to none --mca btl tcp,self \
            "$tool" run p.json --launcher env --transport $transport --steps 3 --json \
            >mpi.json 2>mpi.err || fail "mpirun -np 4, $transport: $(cat mpi.err)"
        [ "$(hashes mpi.json)" = "$expected" ] || fail "mpirun, $transport: $(hashes mpi.json)"
    done
else
    echo "not tried under mpirun: it is not installed"
fi

# A worker is killed, or stopped: all four processes end.
worker_of() { # worker_of RANK: its pid
    for pid in $(left); do
        [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = foreline-worker ] &&
            grep -qzx "RANK=$1" "/proc/$pid/environ" && echo "$pid"
    done
}
for signal in KILL STOP; do
    for victim in 0 2; do
        all --steps 100000 --timeout 2s --loss-every 1
        tries=0
        while [ -z "$(worker_of $victim)" ]; do
            tries=$((tries + 1))
            [ $tries -lt 1200 ] || fail "workers do not start: $(cat ?.err)"
            sleep 0.05
        done
        tries=0
        until grep -q '^step ' 0.err; do # all ranks are in their steps
            tries=$((tries + 1))
            [ $tries -lt 1200 ] || fail "no step: $(cat ?.err)"
            sleep 0.1
        done
        kill -$signal "$(worker_of $victim)"
        collect
        [ "$statuses" = 1111 ] || fail "$signal of rank $victim: exits $statuses"
        grep -q "^foreline run: rank $victim ([^ ]* on $(hostname))" 0.err ||
            fail "$signal of rank $victim: $(cat 0.err)"
        [ "$(grep -vc '^step ' 0.err)" = 1 ] || fail "$signal of rank $victim: $(cat 0.err)"
        nothing_left "$signal of rank $victim"
    done
done

# The second rank of a process.
halves --steps 100000 --timeout 2s --loss-every 1
tries=0
until grep -q '^step ' 0.err && [ -n "$(worker_of 3)" ]; do
    tries=$((tries + 1))
    [ $tries -lt 1200 ] || fail "no step: $(cat ?.err)"
    sleep 0.1
done
kill -KILL "$(worker_of 3)"
collect
[ "$statuses" = 11 ] || fail "rank 3 of two processes killed: exits $statuses"
grep -q '^foreline run: rank 3 ' 0.err || fail "rank 3 of two processes killed: $(cat 0.err)"
nothing_left "the second rank of a process"

# What does not fit together.
status=0
RANK=0 WORLD_SIZE=3 MASTER_PORT=$port "$tool" run p.json --launcher env 2>run.err || status=$?
[ $status = 1 ] && grep -q 'WORLD_SIZE is 3, .* 4 ranks' run.err ||
    fail "WORLD_SIZE: exit $status, $(cat run.err)"
status=0
"$tool" run p.json --launcher env 2>run.err || status=$?
[ $status = 2 ] && grep -q "WORLD_SIZE.* is set" run.err || fail "no RANK: $(cat run.err)"
sed 's/"microbatch_size": *1/"microbatch_size": 2/' p.json >q.json
cmp -s p.json q.json && fail "the other plan is the same"
pids=
for r in 3 2 1 0; do
    [ $r = 2 ] && plan=q.json
    (rank $r --steps 3 >$r.out 2>$r.err) &
    pids="$! $pids"
    plan=p.json
done
collect
[ "$statuses" = 1111 ] && grep -q '^foreline run: rank 2 .* has microbatch size 2, but rank 0 has 1$' 0.err ||
    fail "another plan: exits $statuses, $(cat ?.err)"
nothing_left "another plan"
for r in 1 3; do # every shell says why, in rank 0's words
    grep -q 'rank 2 .* has microbatch size 2, but rank 0 has 1$' $r.err || fail "rank $r does not know why: $(cat $r.err)"
done
echo "the same by foreline run, mpirun and torchrun's environment: $expected"
