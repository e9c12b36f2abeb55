#!/bin/sh
# Ending a run ends its ranks and nobody else, whatever numbers processes have: ranks in a PID namespace
# of their own say numbers that are bystanders' outside. Usage: safe_processes.sh FORELINE
set -u
foreline=$1
if [ "${2-}" != inside ]; then
    # a namespace of ours, so that bystanders have the small numbers that ranks will say
    unshare --pid --fork --mount-proc true 2>/dev/null || {
        echo "skipped: no PID namespaces here"
        exit 77
    }
    exec unshare --pid --fork --mount-proc "$0" "$foreline" inside
fi
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 2
export XDG_CACHE_HOME="$dir/cache" TMPDIR="$dir"
bystanders=""
for _ in 1 2 3 4 5 6 7 8 9 10 11 12; do
    setsid sleep 1000 &
    bystanders="$bystanders $!"
done
fail() {
    echo "FAIL: $*"
    exit 1
}
check() { # check WHAT: all bystanders live, and no worker does
    for pid in $bystanders; do
        grep -q sleep "/proc/$pid/comm" 2>/dev/null || fail "$1: bystander $pid is gone"
    done
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        # comm is cut to 15 letters
        left=$(cat /proc/[0-9]*/comm 2>/dev/null | grep -c '^foreline-worker') || return 0
        sleep 0.2
    done
    fail "$1: $left workers are left"
}
cat >start <<'END'
#!/bin/sh
# What a cluster's launcher does: all ranks, each with its number.
for rank in 0 1; do
    RANK=$rank WORLD_SIZE=2 "$@" &
done
wait
END
chmod +x start
"$foreline" plan --algorithm balanced --model mlp --platform laptop --stages 2 --microbatches 2 -o p.json >out 2>&1 ||
    fail "plan: $(cat out)"

# run SIGNAL LAUNCHER: ends a run that goes on, started so.
run() {
    : >err
    "$foreline" run p.json --steps 1000000 --warmup 0 --loss-every 1 --launcher "$2" >out 2>err &
    tool=$!
    for _ in $(seq 100); do
        grep -q 'step 1 ' err && break
        sleep 0.1
    done
    grep -q 'step 1 ' err || fail "$2: no step: $(cat err)"
    kill -s "$1" $tool
    wait $tool
    check "$2, SIG$1"
}
numbers=$(unshare --pid --fork --mount-proc sh -c "\"$dir/start\" sh -c 'echo \$\$; sleep 0.2'") || fail "no namespace"
for number in $numbers; do
    case " $bystanders " in
    *" $number "*) met=yes ;;
    esac
done
[ "${met-}" = yes ] || fail "ranks in a namespace have no bystander's number: $numbers in $bystanders"
inner="unshare --pid --fork --mount-proc"
run INT "$dir/start"
run INT "$inner $dir/start"
run TERM "unshare --pid --fork $dir/start"
run KILL "$inner $dir/start"
# shellcheck disable=SC2086 # words
echo "bystanders $bystanders live; ranks said $(echo $numbers)"
