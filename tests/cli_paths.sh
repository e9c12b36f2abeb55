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

# A model without an extension, in the plan's own folder, is no name of the zoo.
cp "$dir/in/model.json" "$dir/in/model"
"$tool" plan --algorithm balanced --model "$dir/in/model" --platform "$dir/in/net.xml" --stages 2 \
    --microbatches 2 -o "$dir/in/beside.json" >/dev/null 2>&1
cd /
"$tool" simulate "$dir/in/beside.json" >"$dir/scores" 2>&1 || fail "simulate: $(cat "$dir/scores")"

# A file that has changed since the plan was made is another one, for everything that reads plans.
refused() { # refused TEXT ARGUMENTS...: one line with the text
    text=$1
    shift
    if "$tool" "$@" >"$dir/scores" 2>"$dir/errors"; then fail "$*: not refused"; fi
    [ "$(wc -l <"$dir/errors")" = 1 ] && grep -q "$text" "$dir/errors" || fail "$*: $(cat "$dir/errors")"
}
changed() { # changed TEXT: the plan is not taken
    refused "$1" simulate "$dir/out/plan.json"
    refused "$1" simulate "$dir/out/plan.json" --export goal="$dir/out/other.goal"
    refused "$1" run "$dir/out/plan.json" --steps 1
    refused "$1" plan --explain "$dir/out/plan.json"
    refused "$1" emulate "$dir/out/plan.json" --engine smpi
    refused "$1" validate "$dir/out/plan.json" --engine tcp -o "$dir/out/validation"
    refused 'nothing to compare' validate --measurements "$dir/out/measured.json"
    grep -q "^# failed: .*$1" "$dir/scores" || fail "validate --measurements: $(cat "$dir/scores")"
    refused "$1" sweep "$dir/out/sweep.yml"
    [ ! -f "$dir/out/other.goal" ] || fail "exported: $1"
}
cd "$dir/out"
printf 'name: swept\nplan: [plan.json]\n' >sweep.yml
"$tool" sweep sweep.yml >"$dir/scores" 2>&1 || fail "sweep: $(cat "$dir/scores")"
cp "$dir/in/net.xml" "$dir/net.xml"
echo '<!-- another -->' >>"$dir/in/net.xml"
changed 'platform_sha256: .*net.xml has changed since the plan was made'
cp "$dir/net.xml" "$dir/in/net.xml"
"$tool" simulate plan.json >"$dir/scores" 2>&1 || fail "simulate: $(cat "$dir/scores")"
echo >>"$dir/in/model.json"
changed 'model_sha256: .*model.json has changed since the plan was made'
sed -i '/model_sha256/d' plan.json # as the message says
"$tool" simulate plan.json >"$dir/scores" 2>&1 || fail "simulate: $(cat "$dir/scores")"

# A file that goes to standard output goes there alone, by either of its names, and also into a pipe
# that has a name; what people read goes to standard error.
alone() { # alone ARGUMENTS...: JSON and nothing else
    "$tool" "$@" >"$dir/scores" 2>"$dir/errors" || fail "$*: $(cat "$dir/errors")"
    [ "$(head -c 1 "$dir/scores")" = "{" ] && [ "$(tail -n 1 "$dir/scores")" = "}" ] &&
        [ "$(grep -c '^{\|^}' "$dir/scores")" = 2 ] || fail "$*: $(cat "$dir/scores")"
}
alone plan --model mlp --platform laptop -o -
alone plan --model mlp --platform laptop --algorithm balanced --stages 2 -o /dev/stdout
alone simulate plan.json -o -
grep -q '^iteration' "$dir/errors" || fail "no summary: $(cat "$dir/errors")"
alone simulate plan.json --json -o -
alone run plan.json --steps 1 -o -
mkfifo pipe.json
cat pipe.json >through &
"$tool" simulate plan.json -o pipe.json >/dev/null 2>&1 || fail "into a pipe"
wait
[ "$(tail -n 1 through)" = "}" ] && [ -p pipe.json ] || fail "through a pipe: $(cat through)"
ln -s nothing.json link.json
"$tool" simulate plan.json -o link.json >/dev/null 2>&1 || fail "over a link"
[ -h link.json ] && [ -f nothing.json ] || fail "the link was replaced"

# What is written beside a file, or under a name that nobody gave, replaces nothing of others.
mkdir theirs groups
for file in theirs/report.md report.html groups/comm_group.json; do
    echo 'not of foreline' >$file
done
refused 'report.md: exists and was not written by foreline' validate plan.json --engine tcp -o theirs
refused 'report.html: exists and was not written by foreline' report .
refused 'comm_group.json: exists and was not written by foreline' simulate plan.json --export chakra=groups
for file in theirs/report.md report.html groups/comm_group.json; do
    [ "$(cat $file)" = 'not of foreline' ] || fail "$file was replaced"
done
refused 'is a directory' simulate plan.json -o groups

# Who reads the tables may have gone before all of them are written; the file is there all the same.
"$tool" plan --model gpt2-small:layers=4 --platform two-racks --batch 16 --wide -o "$dir/out/kept.json" \
    2>/dev/null | : || true
[ -s "$dir/out/kept.json" ] || fail "plan: no file once nobody reads the tables"
