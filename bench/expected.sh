#!/bin/sh
# Writes study/expected.def: how far predictions of published runs are off, by what they have in common: each set
# by constants that were fitted to the others (some seven minutes).
# Usage: bench/expected.sh FORELINE FILE|DIR... > study/expected.def
# Groups of fewer than 5 runs are left out; the narrowest come first, as study/expected.c takes the first. Of
# foreline, the roofline, it is how far that is off runs of whatever framework.
set -eu
foreline=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for as in own foreline; do
    "$foreline" lab scoreboard "$(dirname "$0")/../docs/fidelity" "$@" -o "$work/$as" \
        $([ $as = own ] && echo --cross-validate || echo --framework $as) >/dev/null
done
cat <<'TEXT'
/* How far predictions of published runs were off: device type, numbers, framework, parallelism (NULL:
 * whatever they are), runs, mean of |predicted / measured - 1|. Written by bench/expected.sh, from the
 * runs of docs/results/fidelity.md; each set of runs is predicted by constants that were fitted to the others. */
TEXT
awk -F '\t' '
    FNR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; files++; next }
    $at[files > 1 ? "error_%" : "apart_%"] != "-" {
        e = $at[files > 1 ? "error_%" : "apart_%"]; e = e < 0 ? -e : e
        v[1] = $at["type"]; v[2] = $at["dtype"]; v[3] = files > 1 ? "foreline" : $at["framework"]; v[4] = $at["parallelism"]
        split("1111 1110 0111 0110 0010", mask, " ")
        for (k = v[3] == "foreline" ? 2 : 1; k <= 5; k++) {
            if (v[3] == "foreline" && k == 3)
                continue
            key = k
            for (i = 1; i <= 4; i++)
                key = key "\t" (substr(mask[k], i, 1) == "1" ? "\"" v[i] "\"" : "NULL")
            n[key]++; sum[key] += e
        }
    }
    END {
        for (key in n)
            if (n[key] >= 5) {
                split(key, part, "\t")
                printf "%d EXPECTED(%s, %s, %s, %s, %d, %.4f)\n", part[1], part[2], part[3], part[4], part[5],
                    n[key], sum[key] / n[key] / 100
            }
    }' "$work/own/rows.tsv" "$work/foreline/rows.tsv" | LC_ALL=C sort -k1,1n -k2 | sed 's/^[0-9]* //'
