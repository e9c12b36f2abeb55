#!/bin/sh
# SimGrid's predictions against emulated networks: a row per platform, model, schedule and number of
# workers, the comparison and a picture. For an otherwise idle machine; some 6 minutes.
#
#     bench/emulation.sh BIN OUT [WORKLOADS]
#
# BIN: directory of the foreline command; OUT: directory for README.md, compare.tsv, scatter.svg and
# the measurements; WORKLOADS: directory with pipedream/profiles (../shared/workloads). Platforms:
#   racks        8 nodes of 20 Gflop/s, 1 Gbit/s, 4 under each of two switches with 1 Gbit/s between
#                them: oversubscribed 4:1
#   mixed        8 nodes of 10 to 40 Gflop/s on links of 200 Mbit/s to 1 Gbit/s
#   pipedream-a  4 V100 in a node, 10 Gbit/s between nodes (shipped)
# Models: gpt-tiny, and GNMT from PipeDream's profile.
set -eu

bin=$1 out=$2 workloads=${3:-}
profile=$workloads/pipedream/profiles/gnmt/graph.txt
mkdir -p "$out"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
commands="bench/emulation.sh $*"

# platform NAME "HOST-SPEED..." ROUTERS "FROM-TO-BANDWIDTH..."
platform() {
    {
        echo "<?xml version='1.0'?>"
        echo '<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">'
        echo "<platform version=\"4.1\"><zone id=\"$1\" routing=\"Dijkstra\">"
        for h in $2; do echo "<host id=\"${h%-*}\" speed=\"${h#*-}\"/>"; done
        for r in $3; do echo "<router id=\"$r\"/>"; done
        for l in $4; do
            echo "<link id=\"${l%-*}\" bandwidth=\"${l##*-}\" latency=\"25us\"" \
                'sharing_policy="SPLITDUPLEX"/>'
        done
        for l in $4; do
            ends=${l%-*}
            echo "<route src=\"${ends%-*}\" dst=\"${ends#*-}\">" \
                "<link_ctn id=\"$ends\" direction=\"UP\"/></route>"
        done
        echo '</zone></platform>'
    } >"$out/$1.xml"
}
platform racks "$(for h in a0 a1 a2 a3 b0 b1 b2 b3; do echo $h-20Gf; done)" 'sa sb' \
    "$(for k in 0 1 2 3; do echo a$k-sa-1Gbps b$k-sb-1Gbps; done) sa-sb-1Gbps"
platform mixed 'm0-40Gf m1-10Gf m2-20Gf m3-40Gf m4-30Gf m5-10Gf m6-20Gf m7-15Gf' s \
    'm0-s-1Gbps m1-s-400Mbps m2-s-200Mbps m3-s-1Gbps m4-s-500Mbps m5-s-250Mbps m6-s-800Mbps m7-s-300Mbps'

number() { # KEY FILE: the first such number
    sed -n "s/.*\"$1\": \([-0-9.e+]*\).*/\1/p" "$2" | head -n 1
}

# row PLATFORM PATH MODEL SPEC SCHEDULE WORKERS STEPS
row() {
    name=$1-$3-$5-$6
    "$bin/foreline" plan --algorithm balanced --model "$4" --platform "$2" --stages "$6" \
        --schedule "$5" --microbatches 8 --microbatch-size 4 -o "$out/$name.plan.json" \
        >"$dir/o" 2>"$dir/e" || { cat "$dir/e" >&2; exit 1; }
    "$bin/foreline" simulate "$out/$name.plan.json" -o "$out/$name.simgrid.json" >"$dir/o" 2>"$dir/e" ||
        { cat "$dir/e" >&2; exit 1; }
    load=$(cut -d ' ' -f 1 /proc/loadavg)
    "$bin/foreline" emulate "$out/$name.plan.json" --engine netns --dilate auto --steps "$7" \
        -o "$out/$name.netns.json" >"$dir/o" 2>"$dir/e" || { cat "$dir/e" >&2; exit 1; }
    dilation=$(sed -n 's/.*dilated \([0-9.e+]*\) times.*/\1/p' "$dir/e")
    s=$(number iteration_s "$out/$name.simgrid.json") m=$(number iteration_s "$out/$name.netns.json")
    awk -v p="$1" -v m="$3" -v c="$5" -v w="$6" -v s="$s" -v e="$m" -v d="${dilation:-1}" -v l="$load" \
        'BEGIN { printf "| %s | %s | %s | %s | %s | %.4g s | %.4g s | %+.1f %% | %s |\n",
                        p, m, c, w, d, s, e, 100 * (s / e - 1), l }'
}

models() { # PLATFORM PATH WORKERS...
    p=$1 path=$2
    shift 2
    for workers; do
        for schedule in gpipe 1f1b; do
            row "$p" "$path" gpt-tiny gpt-tiny $schedule "$workers" 3
            [ ! -f "$profile" ] || row "$p" "$path" gnmt "$profile" $schedule "$workers" 1
        done
    done
}

[ -f "$profile" ] || echo "skipped: GNMT, there is no $profile" >&2
{
    echo '# SimGrid against emulated networks'
    echo
    printf '    %s\n\n' "$commands"
    "$bin/foreline" --version
    echo "$(nproc) cores, $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1), Linux $(uname -r), $(date -u +%F)."
    echo 'Dilated as --dilate auto chose; of gpt-tiny the median of 3 iterations, of GNMT one, after one more;'
    echo 'error = predicted / emulated - 1;'
    echo 'load: the average of the last minute when the run began, its own predecessors included.'
    echo
    "$bin/foreline" emulate --check | sed 's/^/    /'
    echo
    echo '| platform | model | schedule | workers | dilated | SimGrid | emulated | error | load |'
    echo '|---|---|---|---|---|---|---|---|---|'
    models racks "$out/racks.xml" 2 4 8
    models mixed "$out/mixed.xml" 2 4 8
    models pipedream-a pipedream-a 6 8
} >"$dir/README.md"
"$bin/foreline" compare "$out"/*.simgrid.json "$out"/*.netns.json >"$out/compare.tsv"
"$bin/foreline" plot scatter "$out"/*.simgrid.json "$out"/*.netns.json -o "$out/scatter.svg" ||
    echo 'skipped: no picture' >&2
{
    echo
    sed -n 's/^# \(absolute error\|Kendall\)/* \1/p' "$out/compare.tsv"
} >>"$dir/README.md"
printf '\n[compare.tsv](compare.tsv). ![](scatter.svg)\n' >>"$dir/README.md"
rm -f "$out"/*.plan.json
mv "$dir/README.md" "$out/README.md"
cat "$out/README.md"
