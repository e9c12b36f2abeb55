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

# pasted OPTIONS...: the printed commands, as a script in a folder of their own, leave the parameters of the run
# of the same options.
PATH=$(dirname "$(realpath "$foreline")"):$PATH
hash_of() { sed -n 's/.*"parameters_sha256": "\([0-9a-f]*\)".*/\1/p' "$1"; }
pasted() {
    rm -rf fresh && mkdir fresh
    "$foreline" run "$@" --dry-run >fresh/script 2>note || fail "$* --dry-run: $(cat note)"
    (cd fresh && sh -e script >out 2>note) || fail "pasted: $(cat fresh/script fresh/note)"
    "$foreline" run "$@" >out 2>note || fail "$*: $(cat note)"
    [ -n "$(hash_of fresh/measurement.json)" ] || fail "pasted: no parameters"
    [ "$(hash_of fresh/measurement.json)" = "$(hash_of "$(ls -td "$runs"/*/ | head -n 1)measurement.json")" ] ||
        fail "pasted: other parameters: $(cat fresh/script)"
}
runs=beside
mkdir 'a b'
printf 'hello, here is some text to be learned by a small model, of no great length.\n%.0s' 1 2 3 4 5 6 >'a b/words.txt'
printf "model: 'gpt-tiny:layers=2,hidden=32,tokens=16'\nplatform: laptop\nfolder: beside\ntext: words.txt\n" >'a b/x.yml'
printf 'plan: {stages: 2, microbatches: 2, executable: true}\nsteps: 2\nwarmup: 0\n' >>'a b/x.yml'
pasted --config 'a b/x.yml' --transport local --learning-rate 0.3
"$foreline" plan --model mlp --platform laptop --algorithm balanced --stages 2 --microbatches 2 -o 'a b/ours.json' >out 2>note
printf 'plan: ours.json\nfolder: beside\nsteps: 2\ntimeout: 50s\n' >'a b/y.yml'
pasted --config 'a b/y.yml' --transport local
rm -rf fresh beside out note

if command -v git >/dev/null; then
    git init -q . && git add run.yml &&
        git -c user.name=a -c user.email=a@b commit -qm first && echo '# changed' >>run.yml || fail git
fi
"$foreline" run --config run.yml >out 2>note || fail "tcp: $(cat note)"
folder=$(ls -d runs/try-*)
left "$folder" command config.yml git machines measurement.json outcome output.log.0 output.log.1 \
    plan.json terminate trace.json
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
    output.log.1 plan.json terminate trace.json

# A driver file of PipeDream's runtime, as its own are, with a model of ours.
mkdir -p theirs/driver_configs theirs/models/tiny
echo '{"module_to_stage_map": [0, 1, 1], "stage_to_rank_map": {"0": [0, 1, 2], "1": [3]}}' >theirs/models/tiny/conf.json
driver() { # driver MACHINES MORE...: theirs/driver_configs/four.yml
    printf "'log_directory': 'runs'\n'module': 'models.tiny.gpus=4'\n'data_dir': '/data/imagenet/'\n"
    printf "'config_file': 'models/tiny/conf.json'\n'container': 'pytorch:19.05-py3'\n'machines': [%s]\n" "$1"
    shift
    printf "'batch_size': 2\n'learning_rate': 0.01\n'weight_decay': 0.0005\n'print_frequency': 2\n"
    printf "'compress_activations': False\n'learning_rate_policy': 'polynomial'\n"
    printf "'model_type': 'image_classification'\n'distributed_backend': 'gloo'\n"
    printf '%s\n' "$@"
}
tiny='model: "gpt-tiny:layers=2,hidden=32,tokens=32"' split='plan.split-at: h1.ln1' yml=theirs/driver_configs/four.yml
here="'localhost:0', 'localhost:1', 'localhost:2', 'localhost:3'"
driver "$here" "epochs: 6" "$tiny" "$split" >$yml
"$foreline" run --config $yml --dry-run >plan 2>note || fail "driver: $(cat note)"
for word in "plan import $(realpath theirs/models/tiny/conf.json) --model=gpt-tiny" '--platform=node:gpus=4' \
    '--microbatch-size=2 --optimizer=sgd:momentum=0.9,decay=0.0005' 'plan.json .*--hosts=localhost:4' \
    '--learning-rate=0.01' '--learning-rate-policy=polynomial:epoch=1,epochs=6' --loss-every=2 --steps=6 --transport=tcp; do
    grep -qe "$word" plan || fail "driver: no $word: $(cat plan)"
done
"$foreline" run --config $yml >out 2>note || fail "driver: $(cat note)"
folder=$(ls -d runs/four-*)
left "$folder" command config.yml driver.yml git machines measurement.json outcome output.log.0 output.log.1 \
    output.log.2 output.log.3 plan.json terminate trace.json
cmp $yml "$folder/driver.yml" || fail "driver.yml is no copy"
mkdir bin && mv "$folder" 'runs/of four' && folder='runs/of four'
printf '#!/bin/sh\necho elsewhere\n' >bin/uname
printf '#!/bin/sh\n[ "$1" = "%s" ] && shift && PATH="%s" exec sh -c "$*"\n' "$(uname -n)" "$PATH" >bin/ssh
chmod +x bin/uname bin/ssh
for path in "$PATH" "$dir/bin:$PATH"; do # here, and from elsewhere
    PATH=$path sh "$folder/terminate" | grep -q 'is over' || fail "terminate of a run that is over"
done
"$foreline" plan import theirs/models/tiny/conf.json --model gpt-tiny:layers=2,hidden=32,tokens=32 --split-at h1.ln1 \
    --platform node:gpus=4 --microbatch-size 2 --optimizer sgd:momentum=0.9,decay=0.0005 -o by_hand.json >note 2>&1 &&
    "$foreline" run by_hand.json --learning-rate 0.01 --learning-rate-policy polynomial:epochs=6 --steps 6 \
        --transport local -o by_hand.out >out 2>>note || fail "by hand: $(cat note)"
[ "$(hash_of by_hand.out)" = "$(hash_of "$folder/measurement.json")" ] || fail "driver: other parameters"

runs=runs
pasted --config $yml

# Inputs are not pipelined: no stage begins a minibatch before the one before it is done. Without weights of
# two versions the losses are those of one rank, which are not those of a pipeline.
losses() { sed -n 's/^ *"loss[a-z_]*": *//p' "$(ls -td runs/*/ | head -n 1)measurement.json"; }
straight() { # straight NAME MORE...: a run of two stages, of a rank each
    name=$1
    shift
    driver "'localhost:0', 'localhost:1'" 'epochs: 4' "$tiny" "$split" "name: $name" "$@" >$yml
    sed -i "s/conf.json/straight.json/" $yml
    pasted --config $yml
}
echo '{"module_to_stage_map": [0, 1, 1], "stage_to_rank_map": {"0": [0], "1": [1]}}' >theirs/models/tiny/straight.json
straight turns 'no_input_pipelining: True'
grep -q -- ' --no-input-pipelining ' fresh/script || fail "no_input_pipelining: $(cat fresh/script)"
turns=$(losses)
straight piped 'no_input_pipelining: False'
piped=$(losses)
[ -n "$turns" ] && [ "$turns" != "$piped" ] || fail "no_input_pipelining changes nothing: $turns"
echo '{"module_to_stage_map": [0, 0, 0], "stage_to_rank_map": {"0": [0]}}' >theirs/models/tiny/straight.json
driver "'localhost:0'" 'epochs: 4' "$tiny" "$split" 'name: single' | sed "s/conf.json/straight.json/" >$yml
"$foreline" run --config $yml >out 2>note || fail "one rank: $(cat note)"
[ "$turns" = "$(losses)" ] || fail "no_input_pipelining: $turns, one rank: $(losses)"

# Without a conf one rank has all, on one device.
driver "'localhost:0'" 'epochs: 2' "$tiny" 'name: alone' | grep -v config_file >theirs/driver_configs/one.yml
"$foreline" run --config theirs/driver_configs/one.yml >out 2>alone || fail "one rank: $(cat alone)"
grep -q "^loss" out || fail "one rank: $(cat out)"

# The script in the folder ends a run, with all workers.
driver "$here" 'epochs: 900000' "$tiny" "$split" 'name: endless' >$yml
: >note # the words of the call before must not count
"$foreline" run --config $yml >out 2>note &
pid=$!
tries=0
until grep -q '^step' note; do
    [ $((tries += 1)) -lt 300 ] && kill -0 $pid || fail "endless: $(cat note)"
    sleep 0.1
done
sh runs/endless-*/terminate || fail "terminate: $?"
wait $pid && fail "a run that was ended ends well"
grep -q 'signal 15' runs/endless-*/outcome || fail "terminate: $(cat runs/endless-*/outcome)"
[ -z "$(pgrep -P $pid)" ] || fail "workers stay"

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
refuses 'an unknown setting' "bad.yml:2: unknown setting 'stepz'"
printf 'plan: %s\nsteps: [3, 4]\n' "$folder/plan.json" >bad.yml
refuses 'a list' 'bad.yml:2: steps: .*list'
printf 'plan: %s\nsteps: few\n' "$folder/plan.json" >bad.yml
refuses 'a word' "bad.yml:2.*'few'.*number"
printf 'plan: nowhere.json\n' >bad.yml
refuses 'no plan' 'nowhere.json: No such file'
printf 'steps: 3\n' >bad.yml
refuses 'nothing to run' "expected the key 'plan'"
printf 'model: mlp\nplatform: laptop\nlauncher: env\n' >bad.yml
refuses 'launcher env' 'launcher env'
printf 'name: ../x\nmodel: mlp\nplatform: laptop\n' >bad.yml
refuses 'a folder elsewhere' "name.*'../x'.*name"

driver "$here" >bad.yml
refuses 'an unknown module' "bad.yml:2: module: unknown module 'tiny'"
driver "'n1'" "$tiny" >bad.yml
refuses 'a machine without a GPU' "bad.yml:6: machines: expected 'host:gpu'"
driver "'n1:0', 'n1:1', 'n2:0'" "$tiny" 'epochs: 2' >bad.yml
refuses 'uneven hosts' 'bad.yml:6: machines: the hosts have different numbers of GPUs'
driver "$here" "$tiny" >bad.yml
refuses 'a policy without epochs' "bad.yml:12: learning_rate_policy: 'polynomial' needs the key 'epochs'"
driver "$here" "$tiny" 'epochs: 2' 'steppes: 3' >bad.yml
refuses 'a key of nobody' "bad.yml:17: unknown setting 'steppes'"

driver "'localhost:0', 'localhost:0'" "$tiny" >bad.yml
refuses 'a GPU twice' "bad.yml:6: machines: got 'localhost:0', expected GPU 1"
driver "'n1:0', 'n2:0', 'n1:5'" "$tiny" >bad.yml
refuses 'a GPU out of turn' "bad.yml:6: machines: got 'n1:5', expected GPU 1"
driver "'n1:0', 'n2:0', 'n1:1', 'n2:1'" "$tiny" 'epochs: 2' >bad.yml
refuses 'hosts in turn' 'bad.yml:6: machines: .* or the GPUs of a host are not listed together'
for key in lr_warmup macrobatch recompute no_input_pipelining; do
    driver "$here" "$tiny" 'epochs: 2' "$key: maybe" >bad.yml
    refuses "$key" "bad.yml:17: $key: 'maybe': expected True or False"
done
driver "$here" "$tiny" 'lr_warmup: True' | grep -v policy >bad.yml
refuses 'a warm-up of no policy' 'bad.yml:15: lr_warmup: needs the key learning_rate_policy'
driver "$here" "$tiny" | grep -v machines >bad.yml
refuses 'no machines' "bad.yml: PipeDream driver file lacks the key machines: a list of 'host:gpu'"
printf 'plan: %s\nhosts: localhost\n' "$folder/plan.json" >bad.yml
refuses 'a host without ranks' "'localhost', expected HOST:RANKS,... such as localhost:2"
"$foreline" run by_hand.json --hosts localhost:4 --address 192.0.2.1 >out 2>note && fail 'an address of nobody'
grep -q -- 'listening on --address 192.0.2.1' note || fail "address: $(cat note)"

# A run that fails leaves what there is, and why.
printf 'name: fails\nmodel: mlp\nplatform: laptop\nplan.stages: 64\nplan.algorithm: balanced\n' >bad.yml
"$foreline" run --config bad.yml >out 2>note && fail "64 stages on 2 devices"
grep -q "$(sed 's/foreline run: //' note | cut -c1-30)" fails-*/outcome || fail "$(cat fails-*/outcome)"
echo "folders of tcp, local, mpirun and words; 24 faults; a driver file of PipeDream; terminate"
