#!/bin/sh
# A profiled model can be planned for, simulated and run, and its graph.txt says the same.
# Usage: exec_profile.sh DIRECTORY_OF_BINARIES
set -eu
bin=$(cd "$1" && pwd) here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "FAIL: $*" >&2
    exit 1
}
tiny=gpt-tiny:layers=2,hidden=32,heads=2,tokens=32
profile() { # profile MODEL OPTIONS...
    "$bin/foreline" model profile "$@" --repeats 1 2>err || fail "profile $*: $(cat err)"
}
profile $tiny --batch 2 --ranks 2 -o measured.json --graph graph.txt
grep -q 'microbatches of 2 samples' err || fail "no summary: $(cat err)"
profile measured.json --batch 4 -o measured.json
[ "$("$bin/foreline" model show measured.json | grep -c '^# .*measured on cpu')" = 2 ] ||
    fail "two batches are two profiles: $("$bin/foreline" model show measured.json | head -5)"
"$bin/foreline" model import graph.txt --minibatch-size 2 --device cpu -o back.json 2>err ||
    fail "$(cat err)"
"$bin/foreline" model show measured.json --json >a.json
"$bin/foreline" model show back.json --json >b.json
numbers() { # the first profile's numbers
    tr -d ' \n' <"$1" | sed 's/.*"profiles":\[{//; s/}.*//'
}
[ -n "$(numbers a.json)" ] && [ "$(numbers a.json)" = "$(numbers b.json)" ] ||
    fail "graph.txt: $(numbers b.json), not $(numbers a.json)"
"$bin/foreline" plan --algorithm balanced --model measured.json --platform laptop --stages 2 \
    --microbatches 4 --microbatch-size 2 -o p.json >out 2>&1 || fail "$(cat out)"
"$bin/foreline" simulate p.json >out 2>&1 || fail "$(cat out)"
"$bin/foreline" run p.json --steps 2 >out 2>&1 || fail "$(cat out)"

# Operators of strategies, in the iterations of one device; a strategy of as many samples takes their sum, and
# its updates.
profile tmoe:layers=2,batch=8,seq=8,hidden=32,inner=64,heads=4,experts=4 --batch 8 -o experts.json
ignored="warning: .*measured .*'cpu', .*'core'"
for algorithm in "auto --batch 8" "balanced --stages 2" "spmd --devices 2"; do
    "$bin/foreline" plan --algorithm $algorithm --model experts.json --platform laptop >out 2>err ||
        fail "$algorithm: $(cat err)"
    [ "$(grep -c "^$ignored" err)" = 1 ] || fail "$algorithm: no warning of a profile that is ignored: $(cat err)"
done
"$bin/foreline" plan --algorithm spmd --model experts.json --platform laptop --devices 2 -o p.json >out 2>err ||
    fail "$(cat err)"
[ "$(grep -c "^$ignored" err)" = 1 ] || fail "no warning, or two: $(cat err)"
sed 's/value="core"/value="cpu"/' "$here/../topologies/platforms/laptop.xml" >cpu.xml
"$bin/foreline" plan --algorithm spmd --model experts.json --platform cpu.xml --devices 1 --overlap none --json \
    -o alone.json >out 2>&1 || fail "$(cat out)"
grep -q warning out && fail "a profile that counts: $(cat out)"
"$bin/foreline" simulate alone.json --engine analytic --json >alone 2>err || fail "$(cat err)"
python3 - <<'END' || fail "$(cat alone)"
import json
p, = json.load(open("experts.json"))["profiles"]
measured = sum(p["forward_s"]) + sum(p["backward_s"])
assert min(p["forward_s"] + p["backward_s"]) > 0
assert measured <= json.load(open("alone"))["iteration_s"] < measured + 1e-3
END
"$bin/foreline" plan --algorithm spmd --model experts.json --platform cpu.xml --devices 2 -o p.json >out 2>&1 ||
    fail "$(cat out)"
"$bin/foreline" run p.json --steps 2 --transport local >out 2>&1 || fail "$(cat out)"

# Second inputs that are no router's.
for model in gnmt:layers=2,hidden=16,tokens=8,vocabulary=256 resnet:depth=18,side=32,width=2,classes=256 \
    "$here/models/deepseek_v3.json:tokens=16"; do
    profile "$model" -o other.json
done

refused() { # refused STATUS TEXT ARGUMENTS...
    expected=$1 text=$2
    shift 2
    status=0
    "$bin/foreline" model profile "$@" >out 2>err || status=$?
    [ $status = "$expected" ] && [ "$(wc -l <err)" = 1 ] && grep -q "$text" err ||
        fail "profile $*: exit $status, $(cat err)"
}
refused 2 'needs -o FILE or --graph FILE' $tiny
refused 2 'expected cpu or cuda' $tiny --device abacus -o x.json
FORELINE_WORKER=nowhere
export FORELINE_WORKER
refused 1 'foreline-worker-cuda exited with status 127: nowhere' $tiny --device cuda -o x.json
unset FORELINE_WORKER
refused 2 'batch.*0.*least.*1' $tiny --batch 0 -o x.json
refused 1 "op '" rmoe:layers=2 -o x.json
[ ! -e x.json ] || fail "a file was written"
