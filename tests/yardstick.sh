#!/bin/sh
# yardstick.py: two records of the same build are equal, and a changed answer is found. Usage: yardstick.sh FORELINE
set -eu
yardstick=$(dirname "$0")/yardstick.py
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for record in one two; do
    "$yardstick" "$1" "$work/$record" --draws 5 --runs 1
done
"$yardstick" --compare "$work/one" "$work/two"
grep -l 'iteration_s' "$work"/one/draw_* >"$work/simulated" || { echo "no draw was simulated" && exit 1; }
grep -q parameters_sha256 "$work/one/run_0.txt" || { echo "no parameters of a run" && exit 1; }
changed=$(head -n 1 "$work/simulated")
sed 's/"iteration_s": [0-9]/"iteration_s": 9/' "$changed" >"$work/two/$(basename "$changed")"
if "$yardstick" --compare "$work/one" "$work/two"; then
    echo "a changed answer was not found" && exit 1
fi
