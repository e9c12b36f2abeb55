#!/bin/sh
# What foreline makes of files of real machines and programs, a row a file, as tab-separated facts.
# Usage: bench/real_files.sh FORELINE FOLDER machines|programs [--markdown]
# FOLDER has smi_topo, nccl_topo, hwloc, ...; what a file cannot say (who measured, which type) is a table below.
#   machines  'topology import' of machines and of tables of collectives
#   programs  'model show' of configurations, ONNX and execution traces, 'measurement import' of recorded runs,
#             'plan import' of the arguments of other frameworks
set -u
foreline=$(realpath "$1") real=$2 part=$3 markdown=${4:-}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

options() { # of a machine's file
    case $1 in
    slurm/tree_testcase[12]*) echo "--gpus 1" ;;
    nccl_topo/rccl_topo_4p1h*) echo "--gpu MI100" ;;  # MI50: the catalogue has none
    nccl_topo/rccl_topo_4p_940*) echo "--gpu MI300X" ;; # MI300A likewise
    esac
}

hint() { # of a table of collectives
    case $1 in
    */a100x8_old_format_allgather*) echo all-gather= ;;
    */a100x8_old_format_alltoall*) echo all-to-all= ;;
    */a100x8_old_format_broadcast*) echo broadcast= ;;
    */a100x8_old_format_reducescatter*) echo reduce-scatter= ;;
    */aws_p5_h100_8gpu* | */vtrain*GPU8*) echo all-reduce:1x8= ;;
    */aws_p5en*) echo all-reduce:16x8= ;; # by busbw / algbw, as the next
    */dgxa100_2node*) echo all-reduce:4x8= ;;
    */aws_p* | */h100_2node* | */networkoperator*) echo all-reduce:2x8= ;;
    */gcp_*) echo all-gather:2x8= ;;
    */vtrain*GPU2*) echo all-reduce:1x2= ;;
    */vtrain*GPU4*) echo all-reduce:1x4= ;;
    osu/archer2*) echo all-reduce:2x4= ;;
    osu/pizdaint*_0*) echo send:2x1= ;;
    osu/pizdaint*_1*) echo all-to-all:2x4= ;;
    esac
}

row() { # file, options, what came of it
    if [ "$markdown" ]; then
        printf '| %s | %s | %s |\n' "$1" "$2" "$3"
    else
        printf '%s\t%s\t%s\n' "$1" "$2" "$3"
    fi
}

if [ "$markdown" ]; then
    printf '| file | given | what came of it |\n|---|---|---|\n'
fi
cd "$real" || exit 1
refusal() { # of a file, without its name
    sed -n "s|^foreline [a-z]*: ||; s|$1:*||g; s/^[0-9:]*: *//; s/^ *//; \$p" "$out/error"
}

program() { # file, what was given, words of a call before and behind it, what is of interest in the answer
    file=$1 given=$2 before=$3 behind=$4 interest=$5
    # shellcheck disable=SC2086
    if "$foreline" $before "$file${given#unpacked}" $behind >"$out/said" 2>"$out/error"; then
        row "${file#"$out/"}" "$given" "$(sed -n "s/^$interest/\1/p" "$out/said" | head -n 1)"
    else
        row "${file#"$out/"}" "$given" "refused: $(refusal "$file")"
    fi
}

unpack() { # traces as what they pack, in folders of their names
    mkdir "$out/traces"
    for file in traces/*gz; do
        name=$(basename "$file") && name=${name%.gz}
        case $name in
        *.tar | *.tgz) mkdir "$out/traces/$name" && tar xzf "$file" -C "$out/traces/$name" --exclude '._*' 2>/dev/null ;;
        *_et.json) gzip -dc "$file" >"$out/traces/$name" ;;
        esac
    done
}

if [ "$part" = programs ]; then
    "$foreline" topology generate rail:nodes=128,gpus=8,type=H100 -o "$out/p.xml"
    "$foreline" topology generate rail:nodes=1024,gpus=8,type=H100 -o "$out/large.xml"
    unpack
    { find hf_config onnx launch traces nsys -type f && find "$out/traces" -type f; } | LC_ALL=C sort | while read -r file; do
        model='# \([0-9]* ops, .*\)' run='# \(.* iteration.*\)' plan='\(.* devices = .*\)'
        case $file in
        onnx/tinygpt_dynamic*) program "$file" :seq=32 'model show' '' "$model" ;;
        hf_config/* | onnx/*) program "$file" '' 'model show' '' "$model" ;;
        launch/*405b*) program "$file" '' 'plan import' "--platform $out/large.xml" "$plan" ;;
        launch/*) program "$file" '' 'plan import' "--platform $out/p.xml" "$plan" ;;
        "$out"/*/worker*) program "$file" unpacked 'measurement import' '' "$run" ;;
        "$out"/*) program "$file" unpacked 'model show' '' "$model" ;;
        *) program "$file" '' 'measurement import' '' "$run" ;;
        esac
    done
    exit
fi

"$foreline" topology generate rail:nodes=16,gpus=8,type=H100 -o "$out/p.xml" # as many devices as any table has
machines=$(find smi_topo smi_topo_facts_only nccl_topo hwloc slurm ibnetdiscover cluster_models infragraph astra_simai -type f |
    LC_ALL=C sort)
mkdir "$out/platforms"
number=1000
for file in $machines; do
    number=$((number + 1))
    # shellcheck disable=SC2046
    "$foreline" topology import "$file" $(options "$file") -o "$out/platforms/$number.xml" >"$out/$number" 2>"$out/$number.error"
done
"$foreline" topology check "$out"/platforms/*.xml >"$out/checked" 2>&1 # all at once: SimGrid is loaded once
number=1000
for file in $machines; do
    number=$((number + 1))
    given=$(options "$file")
    if [ -e "$out/platforms/$number.xml" ]; then
        platform=$(sed -n "s|^.*/$number.xml|platform|; s/^platform: ok: /platform of /; /^platform/p" "$out/checked")
        row "$file" "$given" "$(sed -n 1p "$out/$number"); $platform$(sed -n 's/^warning: \(.*\)/; \1/p' "$out/$number" | tr -d '\n')"
    else
        row "$file" "$given" "refused: $(sed "s|.*$file:*||; s/^[0-9]*: *//; s/^ *//" "$out/$number.error")"
    fi
done
find nccl_tests osu -type f | LC_ALL=C sort | while read -r file; do
    given=$(hint "$file")
    if "$foreline" topology import --platform "$out/p.xml" -o "$out/x.xml" "$given$file" >"$out/said" 2>"$out/error"; then
        row "$file" "$given" "$(sed "s|.*$file: ||" "$out/said" | paste -sd ';' | sed 's/;/; /g')"
    else
        row "$file" "$given" "refused: $(sed "s|.*$file:*||; s/^[0-9]*: *//; s/^ *//" "$out/error")"
    fi
done
