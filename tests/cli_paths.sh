#!/bin/sh
# Output files name other files relative to themselves, and no directory of the machine, although
# every operand and option is an absolute path; plans are read from any directory, also those that
# hold absolute paths. Usage: cli_paths.sh FORELINE
set -eu
tool=$1
source=$(cd "$(dirname "$0")/.." && pwd)
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
fail() {
    echo "$1" >&2
    exit 1
}
mkdir "$dir/in" "$dir/out"
cp "$source/topologies/platforms/laptop.xml" "$dir/in/net.xml"
cd "$dir"
"$tool" model profile gpt-tiny:layers=1 --repeats 1 -o "$dir/in/model.json" >/dev/null 2>&1
"$tool" plan --algorithm balanced --model "$dir/in/model.json" --platform "$dir/in/net.xml" \
    --stages 2 --microbatches 2 -o "$dir/out/plan.json" >/dev/null 2>&1
grep -q '"model": "../in/model.json"' out/plan.json || fail "plan: $(grep '"model"' out/plan.json)"
hash=$(sha256sum in/net.xml | cut -d ' ' -f 1)
grep -q "\"platform_sha256\": \"$hash\"" out/plan.json || fail "no SHA-256 of the platform"

cd /
"$tool" simulate "$dir/out/plan.json" -o "$dir/out/predicted.json" --trace "$dir/out/trace.json" \
    --export goal="$dir/out/plan.goal" >/dev/null 2>&1
grep -q '"plan": "plan.json"' "$dir/out/predicted.json" || fail "simulate: another plan"
cd "$dir"
"$tool" run "$dir/out/plan.json" --steps 2 --warmup 1 -o "$dir/out/measured.json" >/dev/null 2>&1
"$tool" emulate "$dir/out/plan.json" --engine smpi -o "$dir/out/smpi.json" >/dev/null 2>&1 ||
    echo "emulate --engine smpi: not on this machine" >&2
"$tool" calibrate --force --device cpu --ranks 1 --repeats 1 -o "$dir/out/here.xml" >/dev/null 2>&1
found=$(grep -rlF "$dir" in out || true)
[ -z "$found" ] || fail "absolute paths in: $found"

sed "s|\"../in/|\"$dir/in/|" out/plan.json >in/old.json # as version 0.1.0 wrote it
for from in / "$dir" "$dir/in"; do
    cd "$from"
    "$tool" simulate "$dir/in/old.json" -o "$dir/out/old.json" >/dev/null 2>&1 ||
        fail "old plan, seen from $from"
    grep -qE '"model": "(in/)?model.json"' "$dir/out/old.json" || fail "old plan: absolute path kept"
    "$tool" compare "$dir/out/predicted.json" "$dir/out/measured.json" >/dev/null 2>&1 ||
        fail "compare, seen from $from"
done
cd "$dir/in"
"$tool" validate --measurements ../out/measured.json >"$dir/scores" 2>&1 ||
    fail "validate: $(cat "$dir/scores")"
