#!/bin/sh
# Runs as files: the folder they leave, by every way of starting workers; faults. Usage: run_config.sh FORELINE
set -u
foreline=$1
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 2
export XDG_CACHE_HOME="$dir/cache"

fail() {
    echo "$*"
    exit 1
}

config() {
    printf 'name: try\nmodel: mlp\nplatform: laptop\nplan: {algorithm: balanced, stages: 2, microbatches: 4}\n'
    printf 'folder: runs\ncompute: paced\nsteps: 2\nwarmup: 1\n%s' "$1"
}

# left FOLDER FILE...: exactly these.
left() {
    folder=$1
    shift
    ls "$folder" | tr '\n' ' ' >have
    printf '%s ' "$@" >want
    cmp -s have want || fail "$folder: $(cat have)"
}

config '' >run.yml
"$foreline" run --config run.yml --dry-run >plan || fail "dry run: $?"
[ ! -e runs ] || fail "a dry run makes something"
grep -q 'foreline plan --model mlp --platform laptop --algorithm=balanced' plan || fail "$(cat plan)"
grep -q 'foreline run plan.json --compute=paced --steps=2 --warmup=1 -o' plan || fail "$(cat plan)"

if command -v git >/dev/null; then
    git init -q . && git add run.yml &&
        git -c user.name=a -c user.email=a@b commit -qm first && echo '# changed' >>run.yml || fail git
fi
"$foreline" run --config run.yml >out 2>note || fail "tcp: $(cat note)"
folder=$(ls -d runs/try-*)
left "$folder" command config.yml git machines measurement.json outcome output.log.0 output.log.1 \
    plan.json trace.json
cmp run.yml "$folder/config.yml" || fail "config.yml is no copy"
[ "$(cat "$folder/outcome")" = 'done' ] || fail "$(cat "$folder/outcome")"
for rank in 0 1; do
    grep -q "^rank $rank of 2 on .*device paced, transport tcp, 3 steps" "$folder/output.log.$rank" ||
        fail "log: $(cat "$folder/output.log.$rank")"
    [ "$(tail -n 1 "$folder/output.log.$rank")" = 'done' ] || fail "log $rank has no end"
done
if command -v git >/dev/null; then
    [ "$(head -n 1 "$folder/git")" = "$(git rev-parse HEAD)" ] || fail "revision"
    grep -q '^+# changed' "$folder/git" || fail "diff"
fi
"$foreline" run "$folder/plan.json" --compute paced --steps 1 >/dev/null 2>&1 || fail "plan.json does not run"

# Another way of starting them; another folder in the same second.
config 'transport: local
' >local.yml
"$foreline" run --config local.yml >out 2>note || fail "local: $(cat note)"
grep -q '^all ranks on' runs/*/output.log || fail "local: no log"
if command -v mpirun >/dev/null && [ -x "$(dirname "$foreline")/foreline-worker-mpi" ]; then
    config 'transport: mpi
' >mpi.yml
    "$foreline" run --config mpi.yml >out 2>note || fail "mpi: $(cat note)"
    [ "$(cat runs/*/output.log.1 | grep -c 'transport mpi')" = 1 ] || fail "mpi: no log of rank 1"
else
    echo "not tried: transport mpi"
fi
# Any words that start the command line once per rank; srun's stand-in.
cat >start <<'END'
#!/bin/sh
RANK=0 WORLD_SIZE=2 "$@" &
RANK=1 WORLD_SIZE=2 "$@"
wait
END
chmod +x start
config "name: words
launcher: $dir/start
" | sed 1d >words.yml
"$foreline" run --config words.yml >out 2>note || fail "launcher: $(cat note)"
left "$(ls -d runs/words-*)" command config.yml git machines measurement.json outcome output.log.0 \
    output.log.1 plan.json trace.json

# refuses WHAT LINE TEXT: with that message, and no folder.
refuses() {
    rm -rf bad-*
    "$foreline" run --config bad.yml >out 2>note && fail "$1 is taken"
    grep -q "$2" note || fail "$1: $(cat note)"
    [ "$(wc -l <note)" = 1 ] || fail "$1: $(cat note)"
    ls -d bad-* 2>/dev/null && fail "$1: a folder"
    return 0
}
printf 'plan: %s\nstepz: 3\n' "$folder/plan.json" >bad.yml
refuses 'an unknown setting' "bad.yml:2: no setting is called 'stepz'"
printf 'plan: %s\nsteps: [3, 4]\n' "$folder/plan.json" >bad.yml
refuses 'a list' 'bad.yml:2: steps: a list'
printf 'plan: %s\nsteps: few\n' "$folder/plan.json" >bad.yml
refuses 'a word' "bad.yml:2: steps: 'few' is not a whole number"
printf 'plan: nowhere.json\n' >bad.yml
refuses 'no plan' 'nowhere.json: No such file'
printf 'steps: 3\n' >bad.yml
refuses 'nothing to run' 'plan is needed'
printf 'model: mlp\nplatform: laptop\nlauncher: env\n' >bad.yml
refuses 'launcher env' 'one process starts all'
printf 'name: ../x\nmodel: mlp\nplatform: laptop\n' >bad.yml
refuses 'a folder elsewhere' "name: '../x' is no name for a file"

# A run that fails leaves what there is, and why.
printf 'name: fails\nmodel: mlp\nplatform: laptop\nplan.stages: 64\nplan.algorithm: balanced\n' >bad.yml
"$foreline" run --config bad.yml >out 2>note && fail "64 stages on 2 devices"
grep -q "$(sed 's/foreline run: //' note | cut -c1-30)" fails-*/outcome || fail "$(cat fails-*/outcome)"
echo "folders of tcp, local, mpirun and words; eight faults"
