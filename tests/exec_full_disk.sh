#!/bin/sh
# A disk that is full: where the results go, where checkpoints go, where workers read the program.
# Each time one line, exit status 1 and nothing half-written. Needs a file system of its own, in a
# name space of its own. Usage: exec_full_disk.sh DIRECTORY_OF_BINARIES
set -eu
bin=$(cd "$1" && pwd)
if [ "${2:-}" != inside ]; then
    unshare --user --map-root-user --mount true 2>/dev/null || {
        echo "skipped: no user name spaces here, and so no file system to fill"
        exit 77
    }
    exec unshare --user --map-root-user --mount "$0" "$bin" inside
fi
tool=$bin/foreline
work=$(mktemp -d)
trap 'umount "$work/disk"; rm -rf "$work"' EXIT
cd "$work"
unset RANK WORLD_SIZE FORELINE_WORKER
mkdir disk
mount -t tmpfs -o size=256k none disk

fail() {
    echo "FAIL: $*" >&2
    exit 1
}
refused() { # refused TEXT OPTIONS...: one line with the text, and the disk is as it was
    text=$1
    shift
    before=$(ls -A disk)
    status=0
    "$tool" run p.json --steps 2 --warmup 0 "$@" >run.out 2>run.err || status=$?
    [ $status = 1 ] && [ "$(grep -vc '^warning' run.err)" = 1 ] && grep -q "$text" run.err ||
        fail "expected '$text' of run $*: exit $status, $(cat run.err)"
    [ "$(ls -A disk)" = "$before" ] || fail "run $*: left behind: $(ls -AR disk)"
}
"$tool" plan --algorithm balanced --model gpt-tiny:layers=2,hidden=32,heads=2,tokens=32 \
    --platform laptop --microbatches 4 --stages 2 --replicas 2 -o p.json >plan.out 2>&1 ||
    fail "plan: $(cat plan.out)"

# Room for head and tables of checkpoints, but not for the parameters.
mkdir disk/c
refused 'rank [0-3] .*rank-000[0-3].ckpt: No space left on device' --checkpoint disk/c
[ -z "$(ls -A disk/c)" ] || fail "left of a checkpoint: $(find disk)"
rmdir disk/c

dd if=/dev/zero of=disk/full bs=1k 2>/dev/null || true
refused 'disk/m.json: No space left on device' -o disk/m.json
refused 'disk/t.json: No space left on device' --trace disk/t.json
refused 'disk/d.bin: No space left on device' --batch-tokens disk/d.bin
TMPDIR=$work/disk
export TMPDIR
refused 'foreline-tmp-.*: No space left on device'
echo "a full disk is said so, and left as it was"
