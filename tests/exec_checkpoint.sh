#!/bin/sh
# Checkpoints: ten steps are five, and five more from the checkpoint, bit for bit, whoever was killed
# in between; a checkpoint that is damaged, incomplete or of another run is refused in one line.
# Usage: exec_checkpoint.sh DIRECTORY_OF_BINARIES DIRECTORY_OF_TEST_BINARIES
set -eu
bin=$(cd "$1" && pwd)
test_bin=$(cd "$2" && pwd)
tool=$bin/foreline
work=$(mktemp -d)
marker=exec-checkpoint-$$-$(basename "$work")
trap 'rm -rf "$work"' EXIT
cd "$work"
unset RANK WORLD_SIZE FORELINE_WORKER

fail() {
    echo "FAIL: $*" >&2
    exit 1
}
plan() { # plan FILE OPTIONS...
    file=$1
    shift
    "$tool" plan --algorithm balanced --platform laptop --microbatches 4 "$@" -o "$file" \
        >plan.out 2>&1 || fail "plan $*: $(cat plan.out)"
}
run() { # run PLAN OPTIONS...: the hash of the parameters
    "$tool" run "$@" --warmup 0 --json >m.json 2>run.err || fail "run $*: $(cat run.err)"
    sed -n 's/.*"parameters_sha256": "\([0-9a-f]*\)".*/\1/p' m.json
}
refused() { # refused TEXT PLAN OPTIONS...: one line with the text
    text=$1
    shift
    status=0
    "$tool" run "$@" --steps 1 --warmup 0 >run.out 2>run.err || status=$?
    [ $status = 1 ] && [ "$(grep -c . run.err)" = 1 ] && grep -q "$text" run.err ||
        fail "expected '$text' of run $*: exit $status, $(cat run.err)"
}
steps() { # steps DIRECTORY: what is in it
    (cd "$1" && echo *)
}
tiny=gpt-tiny:layers=2,hidden=32,heads=2,tokens=32
plan p.json --model $tiny --stages 2 --replicas 2

ten=$(run p.json --steps 10)
[ ${#ten} = 64 ] || fail "no parameters_sha256"

# Five and five; the schedule does not matter, and nor does the transport.
run p.json --steps 5 --checkpoint a >five
[ "$(steps a)" = step-00000005 ] || fail "checkpoints: $(steps a)"
[ "$(run p.json --steps 5 --resume a)" = "$ten" ] || fail "5 + 5 steps are not 10"
plan gpipe.json --model $tiny --stages 2 --replicas 2 --schedule gpipe
[ "$(run gpipe.json --steps 5 --resume a)" = "$ten" ] || fail "5 + 5 steps by another schedule"
if command -v mpirun >/dev/null && [ -x "$bin/foreline-worker-mpi" ]; then
    [ "$(run p.json --steps 5 --resume a --transport mpi)" = "$ten" ] || fail "5 + 5 steps over mpi"
else
    echo "not tried over mpi: it is not installed"
fi
plan sgd.json --model $tiny --stages 2 --optimizer sgd
sgd=$(run sgd.json --steps 4)
run sgd.json --steps 2 --checkpoint s >two
[ "$(run sgd.json --steps 2 --resume s)" = "$sgd" ] || fail "2 + 2 steps of sgd"

# Each rank keeps what it has: shards, ZeRO's parts, the newest of several versions.
for shape in "--stages 2 --tensor-parallel 2" "--stages 2 --replicas 2 --zero 1 --bucket 8KiB" \
    "--stages 1 --replicas 4 --zero 2" "--stages 2 --replicas 2 --zero 3" \
    "--stages 1 --replicas 4 --zero 3 --zero-group 2" "--stages 1 --replicas 2 --zero 3 --zero-keep" \
    "--stages 2 --schedule pipedream" "--stages 2 --recompute full"; do
    # shellcheck disable=SC2086 # words
    plan shape.json --model $tiny $shape
    four=$(run shape.json --steps 4 --transport local)
    rm -rf shape
    run shape.json --steps 2 --transport local --checkpoint shape >two
    [ "$(run shape.json --steps 2 --resume shape)" = "$four" ] || fail "2 + 2 steps of $shape"
done
plan zero.json --model $tiny --stages 2 --replicas 2 --zero 1
plan more.json --model $tiny --stages 2 --replicas 2 --zero 1 --bucket 8KiB
run zero.json --steps 1 --checkpoint zero >one
refused "does not fit the plan: stages, replicas, ZeRO" more.json --resume zero

# Every third step and the last; the newest two stay.
run p.json --steps 7 --checkpoint b --checkpoint-every 3 >seven
[ "$(steps b)" = "step-00000006 step-00000007" ] || fail "checkpoints: $(steps b)"
[ "$(run p.json --steps 3 --resume b --checkpoint b)" = "$ten" ] || fail "7 + 3 steps"
[ "$(steps b)" = "step-00000007 step-00000010" ] || fail "checkpoints: $(steps b)"

# A worker is killed in step 4: the checkpoint before it counts, and nothing of another is left.
status=0
FAIL="1 steady 9" FORELINE_WORKER=$test_bin/failing_worker_tcp "$tool" run p.json --steps 10 \
    --warmup 0 --checkpoint c --checkpoint-every 2 >run.out 2>run.err || status=$?
[ $status = 1 ] && grep -q 'killed by signal 9' run.err || fail "not killed: $(cat run.err)"
[ "$(steps c)" = "step-00000002 step-00000004" ] || fail "checkpoints: $(steps c)"
[ "$(run p.json --steps 6 --resume c)" = "$ten" ] || fail "resumed after kill -9"

# The launcher is killed, wherever it is: what it leaves can be gone on from.
EXEC_CHECKPOINT=$marker "$tool" run p.json --steps 100000 --warmup 0 --checkpoint d --checkpoint-every 1 \
    >run.out 2>run.err &
launcher=$!
tries=0
# Step 3 or a later one: step 3 itself is removed as soon as step 5 is there.
until ls d/step-*/manifest.json 2>/dev/null | grep -qv '^d/step-0000000[12]/'; do
    tries=$((tries + 1))
    [ $tries -lt 6000 ] || fail "no checkpoint: $(cat run.err)"
    sleep 0.02
done
kill -9 $launcher
wait $launcher 2>/dev/null || true
tries=0
while grep -lqzsx "EXEC_CHECKPOINT=$marker" /proc/[0-9]*/environ; do # its workers end, too
    tries=$((tries + 1))
    [ $tries -lt 600 ] || fail "left behind by a dead launcher"
    sleep 0.1
done
run p.json --steps 2 --resume d --checkpoint d >resumed # and cleans up
newest=$(steps d)
newest=${newest##*-}
newest=$((1$newest - 100000000))
[ "$(cat resumed)" = "$(run p.json --steps $newest)" ] || fail "resumed after the launcher's death"

# The launcher is stopped twice, and continued: the ranks wait for it, with no more than the two newest
# checkpoints and two that nobody has counted yet, and then go on, whatever carries their messages.
stopped() { # stopped TRANSPORT: 300 steps with a checkpoint each, and five more
    "$tool" run p.json --steps 300 --warmup 0 --checkpoint "stop-$1" --checkpoint-every 1 \
        --transport "$1" >run.out 2>run.err &
    launcher=$!
    for after in 60 120; do
        tries=0
        until [ "$(ls "stop-$1" 2>/dev/null | tail -n 1 | sed 's/step-0*//;s/^$/0/')" -ge $after ] 2>/dev/null; do
            tries=$((tries + 1))
            [ $tries -lt 6000 ] || fail "$1: no step $after: $(cat run.err)"
            sleep 0.02
        done
        kill -STOP $launcher
        sleep 1
        [ "$(ls "stop-$1" | wc -l)" -le 4 ] || fail "$1, launcher stopped: $(ls "stop-$1" | wc -l) steps"
        kill -CONT $launcher
    done
    wait $launcher || fail "$1: $(cat run.err)"
    [ "$(steps "stop-$1")" = "step-00000299 step-00000300" ] || fail "checkpoints: $(steps "stop-$1")"
    [ "$(run p.json --steps 5 --resume "stop-$1")" = "$whole" ] || fail "$1: 300 + 5 steps are not 305"
    rm -r "stop-$1"
}
whole=$(run p.json --steps 305 --transport local)
stopped tcp
stopped local
if command -v mpirun >/dev/null && [ -x "$bin/foreline-worker-mpi" ]; then
    stopped mpi
fi

# A step without manifest does not count, and a directory is not overwritten.
mkdir a/step-00000009
cp a/step-00000005/rank-* a/step-00000009
[ "$(run p.json --steps 5 --resume a)" = "$ten" ] || fail "an incomplete checkpoint was used"
refused 'a: already .*checkpoint.*5' p.json --checkpoint a
refused 'nowhere: no complete checkpoint' p.json --resume nowhere
refused '/dev/null: Not a directory\|/dev/null: File exists' p.json --checkpoint /dev/null
# Links in a checkpoint's folder lead nowhere: whoever may write there cannot have another folder's files
# replaced or removed. A link that the user names is followed.
mkdir -p links victim files/step-00000001 theirs/step-00000001 beside/step-00000001
cp a/step-00000005/* victim
before=$(cat victim/* | cksum)
for k in 1 2 3; do ln -s ../victim links/step-0000000$k; done
refused 'step-00000001: symbolic link' p.json --checkpoint links
ln -s ../../victim/rank-0000.ckpt files/step-00000001/rank-0000.ckpt
refused 'rank-0000.ckpt: symbolic link' p.json --checkpoint files
[ "$(cat victim/* | cksum)" = "$before" ] || fail "files behind a link were changed: $(ls victim)"
ln -s a/step-00000005 latest
[ "$(run p.json --steps 5 --resume latest)" = "$ten" ] || fail "a link that the user names is not followed"

# Folders of other programs that are called like ours keep what is in them.
echo weights | tee theirs/step-00000001/rank-0000.ckpt beside/step-00000001/rank-0000.pt >beside/step-00000001/rank-1.ckpt
echo '{"theirs": 1}' >beside/step-00000001/manifest.json.old
cp -r beside kept
refused 'rank-0000.ckpt: exists and is not a foreline checkpoint' p.json --checkpoint theirs
[ "$(cat theirs/step-00000001/rank-0000.ckpt)" = weights ] || fail "another program's file was replaced"
run p.json --steps 4 --checkpoint beside --checkpoint-every 1 >/dev/null
diff -r kept/step-00000001 beside/step-00000001 || fail "other programs' files: $(ls beside/*)"

# A folder that takes no files is noticed before the first step.
[ ! -d /sys/kernel ] || refused 'kernel/manifest.json: ' p.json --checkpoint /sys/kernel

# Paced ranks have no numbers to keep: the command says so before anything runs.
status=0
"$tool" run p.json --compute paced --checkpoint e >run.out 2>run.err || status=$?
[ $status = 2 ] && grep -q 'checkpoint.*--compute.*paced' run.err ||
    fail "--checkpoint with --compute paced: exit $status, $(cat run.err)"

# Other runs' checkpoints.
plan other.json --model gpt-tiny:layers=2,hidden=16,heads=2,tokens=32 --stages 2 --replicas 2
refused 'checkpoint.* another model' other.json --resume a
plan other.json --model $tiny --stages 2 --replicas 2 --optimizer sgd
refused "optimizer 'adam', but the plan has 'sgd'" other.json --resume a
plan other.json --model $tiny --stages 2
refused 'checkpoint.*4.*2' other.json --resume a
plan other.json --model $tiny --stages 4
refused 'does not fit the plan: stages' other.json --resume a

# Damage.
damage() { # damage TEXT: of the copy x
    refused "$1" p.json --resume x
    rm -r x
}
begin() {
    cp -r a/step-00000005 x
    file=x/rank-0002.ckpt
}
begin
size=$(wc -c <$file)
truncate -s $((size - 100)) $file
damage 'rank-0002.ckpt: truncated'
begin
printf 'x' | dd of=$file bs=1 seek=$((size - 100)) conv=notrunc 2>/dev/null
damage 'rank-0002.ckpt.*damaged.*SHA-256'
begin
printf 'x' | dd of=$file bs=1 seek=30 conv=notrunc 2>/dev/null
damage 'rank-0002.ckpt: damaged: the SHA-256 of its head'
begin
cp x/rank-0000.ckpt $file
damage 'rank-0002.ckpt.*manifest'
begin
rm $file
damage 'rank-0002.ckpt: No such file'
begin
echo '{"format": "foreline-checkpoint", "version": 1' >x/manifest.json
damage 'manifest.json:2'
echo "10 steps = 5 + 5 steps: $ten"
