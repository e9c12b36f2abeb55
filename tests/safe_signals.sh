#!/bin/sh
# INT, TERM, HUP and QUIT end a run, an emulation, a plot and a sweep of runs soon, and nothing is left: no
# process, no temporary file, no file half-written. Usage: safe_signals.sh FORELINE
set -u
foreline=$1
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 2
export XDG_CACHE_HOME="$dir/cache" TMPDIR="$dir/tmp" MARKER="$dir"
unset XDG_RUNTIME_DIR
mkdir tmp out
printf '#!/bin/sh\nexec sleep 100\n' >worker # one that never joins: files stay until then
chmod +x worker
export FORELINE_WORKER="$dir/worker"

fail() {
    echo "FAIL: $*"
    exit 1
}
processes() { # what still runs of ours
    grep -lzsx "MARKER=$dir" /proc/[0-9]*/environ | sed 's|/proc/\([0-9]*\)/.*|\1|' |
        grep -vx "$$" | while read -r pid; do
        case $(readlink "/proc/$pid/exe") in */foreline* | */sleep) echo "$pid" ;; esac
    done
}
wait_for() { # wait_for WHAT TEST...: at most 20 s
    awaited=$1
    shift
    tries=0
    until "$@"; do
        tries=$((tries + 1))
        [ $tries -lt 500 ] || fail "$awaited"
        sleep 0.02
    done
}
some() { [ -n "$(ls -A tmp)" ]; }
gone() { [ -z "$(processes)" ] && [ -z "$(ls -A tmp)" ]; }
ends() { # ends SIGNAL COMMAND...: the signal, once there is a temporary file
    signal=$1
    shift
    timeout -s KILL 60 "$foreline" "$@" >printed 2>&1 &
    pid=$!
    wait_for "$signal $*: it never begins: $(cat printed)" some
    child=$(cat "/proc/$pid/task/$pid/children") || fail "$signal $*: it has ended: $(cat printed)"
    began=$(date +%s)
    # shellcheck disable=SC2086 # timeout has one child
    kill "-$signal" $child 2>/dev/null || fail "$signal $*: it has ended: $(cat printed)"
    wait $pid
    status=$?
    case $signal-$status in # of a process that the signal has ended, as shells say it
    HUP-129 | INT-130 | QUIT-131 | TERM-143) ;;
    *) fail "$signal $*: exit status $status" ;;
    esac
    took=$(($(date +%s) - began))
    [ $took -lt 5 ] || fail "$signal $*: $took s to end"
    wait_for "$signal $*: left behind" gone
    [ -z "$(ls -A out)" ] || fail "$signal $*: half-written: $(ls -A out)"
}

"$foreline" plan --model mlp --platform laptop --algorithm balanced --stages 2 --microbatches 4 -o p.json \
    >printed 2>&1 || fail "plan: $(cat printed)"
printf 'model: mlp\nplatform: laptop\nplan: {algorithm: balanced, stages: 2, microbatches: [2, 4, 8, 16]}\n' >sweep.yml
printf 'engine: tcp\n' >>sweep.yml
for signal in INT TERM HUP QUIT; do
    ends $signal run p.json --steps 900000 -o out/m.json
done
for signal in TERM HUP; do
    ends $signal run p.json --transport local --steps 900000 -o out/m.json
    ends $signal sweep sweep.yml -o sweep.db
done
echo done
