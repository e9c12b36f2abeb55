#!/bin/sh
# The CPU time that plan reports is its own and that of SimGrid's processes, which do half of such a search's work.
# Usage: plan_cpu.sh FORELINE
set -u
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 2
"$1" plan --model gpt-tiny --platform fat-tree:nodes=8,gpus=8 --batch 512 --time-limit 2s --json >plan.json 2>err || {
    echo "FAIL: $(cat err)"
    exit 1
}
times >times # of this shell; then of its children: minutes and seconds of the user and of the system
sed -n '2s/[ms]/ /gp' times >spent
read -r m s n t <spent
said=$(sed -n 's/^ *"cpu_s": \(.*\),$/\1/p' plan.json)
awk -v said="$said" -v all="$(awk "BEGIN { print 60 * ($m + $n) + $s + $t }")" 'BEGIN {
    print said " s said, " all " s spent"
    exit !(said > 0.75 * all && said < 1.05 * all)
}' || exit 1
