#!/bin/sh
# The algorithm that `fastest` takes is the fastest of all as SimGrid simulates them, to 2 %; what
# switches would sum is none. Usage: fastest.sh FORELINE
set -u
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
failed=0 cases=0
for platform in node:gpus=8 torus:x=4,y=4 torus:x=2,y=2,z=3 rail:nodes=4,gpus=8 nvl:domains=3,gpus=4 mesh:gpus=8 \
    leaf-spine:nodes=8,gpus=1,rack=4,oversubscription=4 nvl:domains=2,gpus=8 laptop two-racks \
    fat-tree:gpus=2,nodes=4 dragonfly+:groups=3,leaves=2,nodes=1,gpus=2; do
    "$1" bench algorithms --platform "$platform" --engine simgrid --largest 256MB >"$dir/out" || exit 1
    awk -F '\t' -v platform="$platform" '
        NR > 1 && $3 != "switch" {
            k = $1 " of " $2
            if (!(k in least) || $5 < least[k]) { least[k] = $5; name[k] = $3 }
            if ($4 ~ /fastest/) taken[k] = $5
        }
        END {
            for (k in least)
                if (!(k in taken) || taken[k] > 1.02 * least[k]) {
                    print platform ": " k ": " taken[k] " s, but " name[k] " " least[k]
                    bad = 1
                }
            exit bad
        }' "$dir/out" || failed=1
    cases=$((cases + $(cut -f 1,2 "$dir/out" | sort -u | wc -l) - 1))
done
# And never slower than auto, where it is known what collectives attain.
while read -r platform words; do
    # shellcheck disable=SC2086 # words
    "$1" plan --platform "$platform" --algorithm uniform $words -o "$dir/plan.json" >/dev/null 2>&1 || exit 1
    for name in auto fastest; do
        "$1" simulate "$dir/plan.json" --engine analytic --collective $name --json 2>/dev/null |
            sed -n 's/^ *"iteration_s": \([0-9.e-]*\),*$/\1/p' | head -n 1 >"$dir/$name"
    done
    paste "$dir/auto" "$dir/fastest" | awk -v of="$platform" '
        NF < 2 || $2 > $1 * 1.000001 { print of ": auto " $1 " s, fastest " $2; exit 1 }' || failed=1
done <<'LIST'
node:gpus=8 --model gpt2-small --stages 1 --replicas 8 --microbatches 8
rail:nodes=4,gpus=1 --model gpt2-small --stages 1 --replicas 4 --zero 3 --microbatches 8
rail:nodes=4,gpus=8 --model gpt2-xl --stages 1 --replicas 32 --zero 1 --microbatches 32
nvl:domains=2,gpus=8 --model gpt2-small --stages 1 --replicas 8 --tensor-parallel 2 --microbatches 8
LIST
echo "$cases collectives"
[ "$cases" -ge 300 ] || failed=1
exit $failed
