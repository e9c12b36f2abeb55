#!/bin/sh
# Files of MSCCL: correct ones are simulated, those of algorithms that there are, too, in the same
# time; broken ones are refused, naming rank and chunk. Usage: msccl.sh FORELINE GENERATOR
set -u
tool=$1
generator=$2
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 2
python3 "$generator" . || exit 2
failed=0
complain() {
    echo "$*"
    failed=1
}
correct=0 broken=0
while read -r name ranks words; do
    call="bench algorithms --platform node:gpus=8 --ranks $ranks --largest 64MB --algorithm-file $name.xml"
    # shellcheck disable=SC2086 # words
    "$tool" $call >out 2>err </dev/null
    status=$?
    if [ -z "$words" ]; then
        correct=$((correct + 1))
        [ $status -eq 0 ] && [ "$(grep -c '	file	' out)" -eq 4 ] || complain "$name: $(head -1 err)"
        case $name in
            ring* | fused) same=ring ;;
            pairs) same=pairs ;; # halving.xml sends its own chunk earlier than others
            direct) same=direct ;;
            *) continue ;;
        esac
        # the same time to all digits that are printed, in all four sizes
        awk -v same=$same '
            $3 == same { own[$1 $2] = $5 }
            $3 == "file" { file[$1 $2] = $5 }
            END { for (k in file) if (file[k] != own[k]) { print k, file[k], own[k]; bad = 1 }
                  exit bad }' out || complain "$name: not in the time of $same"
    else
        broken=$((broken + 1))
        [ $status -eq 1 ] || complain "$name: status $status"
        echo "$words" | tr ',' '\n' | sed 's/^ *//' >wanted
        while read -r word; do
            grep -q "$name.xml.*$word" err || complain "$name: '$word' is not in: $(cat err)"
        done <wanted
    fi
done <list
[ $correct -eq 12 ] && [ $broken -eq 8 ] || complain "$correct correct and $broken broken files"

# In a plan's simulation: gradients of 8 replicas.
"$tool" plan --model gpt-tiny --platform node:gpus=8 --algorithm balanced --stages 1 --replicas 8 -o p.json >out 2>&1 ||
    complain "plan: $(cat out)"
for file in ring tree; do
    "$tool" simulate p.json --algorithm-file $file.xml >out 2>err || complain "simulate: $(cat err)"
    used=$(grep -c ' file$' out)
    [ $file = ring ] && [ "$used" -eq 0 ] && complain "simulate does not use ring.xml"
    [ $file = tree ] && ! grep -q 'tree.xml has no effect' err && complain "no warning of a file for 7"
done
exit $failed
