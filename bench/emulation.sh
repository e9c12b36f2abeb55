#!/bin/sh
# SimGrid's predictions against emulated networks: 32 plans of three platforms, two models, two
# schedules and 2 to 8 workers, and foreline validate. For an otherwise idle machine; 7 minutes on two
# cores with a load of 5.
#
#     bench/emulation.sh BIN OUT [WORKLOADS]
#
# BIN: directory of the foreline command; OUT: directory for README.md and what validate writes;
# WORKLOADS: directory with pipedream/profiles (../shared/workloads). Platforms:
#   racks        8 nodes of 20 Gflop/s, 1 Gbit/s, 4 under each of two switches with 1 Gbit/s between
#                them: oversubscribed 4:1
#   mixed        8 nodes of 10 to 40 Gflop/s on links of 200 Mbit/s to 1 Gbit/s
#   pipedream-a  4 V100 in a node, 10 Gbit/s between nodes (shipped)
# Models: gpt-tiny in 8 microbatches of 4, and GNMT from PipeDream's profile in 4 of 1.
set -eu

bin=$1 out=${2%/} workloads=${3:-}
profile=$workloads/pipedream/profiles/gnmt/graph.txt
in=$out/input # of the runs, with names that mean something in the report
mkdir -p "$in"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

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
    } >"$in/$1.xml"
}
platform racks "$(for h in a0 a1 a2 a3 b0 b1 b2 b3; do echo $h-20Gf; done)" 'sa sb' \
    "$(for k in 0 1 2 3; do echo a$k-sa-1Gbps b$k-sb-1Gbps; done) sa-sb-1Gbps"
platform mixed 'm0-40Gf m1-10Gf m2-20Gf m3-40Gf m4-30Gf m5-10Gf m6-20Gf m7-15Gf' s \
    'm0-s-1Gbps m1-s-400Mbps m2-s-200Mbps m3-s-1Gbps m4-s-500Mbps m5-s-250Mbps m6-s-800Mbps m7-s-300Mbps'


# plans PLATFORM PATH WORKERS...
plans() {
    p=$1 path=$2
    shift 2
    for workers; do
        for schedule in gpipe 1f1b; do
            plan gpt-tiny 8 4
            [ ! -f "$profile" ] || plan gnmt 4 1
        done
    done
}
plan() { # plan MODEL MICROBATCHES MICROBATCH_SIZE
    case $1 in gnmt) spec=$profile ;; *) spec=$1 ;; esac
    "$bin/foreline" plan --algorithm balanced --model "$spec" --platform "$path" --stages "$workers" \
        --schedule "$schedule" --microbatches "$2" --microbatch-size "$3" \
        -o "$in/$p-$1-$schedule-$workers.json" >"$dir/o" 2>&1 || { cat "$dir/o" >&2; exit 1; }
}

[ -f "$profile" ] || echo "skipped: GNMT, there is no $profile" >&2
plans racks "$in/racks.xml" 2 4 8
plans mixed "$in/mixed.xml" 2 4 8
plans pipedream-a pipedream-a 6 8

{
    echo '# SimGrid against emulated networks'
    echo
    printf '    bench/emulation.sh BIN OUT WORKLOADS\n\n'
    "$bin/foreline" --version
    echo "$(nproc) cores, $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1), Linux $(uname -r), $(date -u +%F)."
    echo "Load when it began: $(cut -d ' ' -f 1-3 /proc/loadavg)."
    echo
    "$bin/foreline" emulate --check | sed 's/^/    /'
} >"$dir/README.md"
"$bin/foreline" validate "$in"/*.json --engine netns --steps 2 --warmup 1 --repeats 1 -o "$out" |
    tee "$dir/o"
{
    echo
    sed -n 's/^# simgrid/* SimGrid/p' "$dir/o"
    printf '\n[The report](report.md), [results.tsv](results.tsv), [loads](runs.tsv). ![](scatter.svg)\n'
    echo 'Of all this the repository keeps README.md, report.md, the tables, the platforms and scatter.svg.'
} >>"$dir/README.md"
rm -f "$in"/*.json # they are in plans
mv "$dir/README.md" "$out/README.md"
