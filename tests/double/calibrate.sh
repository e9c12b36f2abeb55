#!/bin/sh
# `calibrate --device cuda` on the null GPU: its times say nothing, but everything is measured that is to be, the platform is
# complete, and plans are predicted with it. Usage: calibrate.sh DIRECTORY_OF_BINARIES DIRECTORY_OF_THE_NVML_STUB
set -eu
bin=$(cd "$1" && pwd)
stub=$(cd "$2" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
. "$here/common.sh"
fail() {
    echo "FAIL: $*" >&2
    exit 1
}
export DOUBLE_NULL=1 FORELINE_WORKER="$double"
calibrate() { # calibrate OPTIONS...: p.xml, told
    rm -f log.*
    DOUBLE_LOG=$work/log timeout "${patience:-60}" "$bin/foreline" calibrate --device cuda --repeats 2 --force \
        --model gpt-tiny:layers=1,hidden=64,heads=8,tokens=16,dtype=bf16,flash=1 --largest 16KiB "$@" -o p.xml >told 2>err
}
rates() { # rates KIND.PHASE: how many points the platform has
    sed -n "s/.*rate:$1\" value=\"\([^\"]*\)\".*/\1/p" p.xml | head -n 1 | wc -w
}

calibrate --ranks 4 || fail "$(cat err)"
# Kinds of the model
for kind in embedding layernorm linear flash gelu residual loss; do
    for phase in forward backward; do
        [ "$(rates $kind.$phase)" -ge 1 ] || fail "no rate of $kind.$phase"
    done
done
[ "$(rates adam.update)" = 4 ] && [ "$(rates sgd.update)" = 4 ] || fail "updates: $(grep update told)"
# Products of 16 x 64 by 64 (131,072 FLOP), by 192 (393,216), by 256 and back (524,288), whole and of 2, 4 and 8 shards
flop=$(sed -n 's/.*rate:linear.forward" value="\([^"]*\)".*/\1/p' p.xml | head -n 1 | sed 's/flop@[^ ]*//g')
[ "$flop" = "16384 32768 49152 65536 98304 131072 196608 262144 393216 524288" ] || fail "products of $flop FLOP"
# Each kind of collective, of two and of four ranks, from 1 KiB to 16 KiB
for kind in all-reduce all-gather reduce-scatter all-to-all broadcast; do
    for members in 2 4; do
        points=$(sed -n "s/.*curve:$kind:${members}x$members\" value=\"\([^\"]*\)\".*/\1/p" p.xml | head -n 1)
        echo "$points" | grep -Eq '^1024B@[^ ]*s 4096B@[^ ]*s 16384B@[^ ]*s$' || fail "$kind of $members: '$points'"
    done
done
grep -q '^beside  ' told && grep -q '^host  ' told && grep -q '^messages  ' told || fail "$(cat told)"
grep -q 'watts' p.xml && fail "watts without NVML"
# NCCL was called as often on every rank: 3 sizes x 4 rounds x (2 repeats and a first one) for both layouts; sums 16 x 3
# beside ops as well, and one when each of the 11 communicators was made
for f in log.*; do
    awk -F '\t' '!/^#/ { n[$4]++ } END { exit !(n["AllReduce"] == 131 && n["ReduceScatter"] == 72 &&
        n["AllGather"] == 72 && n["Broadcast"] == 72 && n["Send"] == n["Recv"] && n["Send"] > 72) }' "$f" ||
        fail "$f: $(awk -F '\t' '!/^#/ { n[$4]++ } END { for (k in n) print k, n[k] }' "$f" | tr '\n' ' ')"
done
[ "$(ls log.* | wc -l)" = 4 ] || fail "logs of $(ls log.* | wc -l) ranks"

# A plan is predicted with it: a hundred times the time of all-reduces shows
plan_on() { # plan_on PLATFORM: its iteration in seconds
    platform=$1 dtype=bf16 plan --stages 1 --replicas 4 || fail "$(cat plan.out)"
    "$bin/foreline" simulate p.json --engine analytic -o s.json >sim.out 2>&1 || fail "$(cat sim.out)"
    tr -d ' \n' <s.json | sed 's/.*"iteration_s":\[*\([0-9.e+-]*\).*/\1/'
}
awk '/curve:all-reduce/ { gsub(/@[0-9.e+-]*s/, "@5s") } { print }' p.xml >slow.xml
fast=$(plan_on "$work/p.xml")
slow=$(plan_on "$work/slow.xml")
awk -v a="$fast" -v b="$slow" 'BEGIN { exit !(a > 0 && b > 5 && b > a + 1) }' || fail "predicted $fast s, with slow all-reduces $slow s"

# Clocks and power, where NVML knows the GPU
LD_LIBRARY_PATH=$stub calibrate || fail "one GPU: $(cat err)"
grep -q '^at work     1980 MHz, memory 2619 MHz, 612 W$' told || fail "$(cat told)"
grep -q '"watts" value="612.5"' p.xml || fail "no watts: $(grep prop p.xml | head -n 5)"
grep -q curve: p.xml && fail "curves of one GPU"

# What cannot be is said in a line
FORELINE_LIMITS=wait=never "$double" --calibrate 1 fp32 1 1024 - 1 - 2>err && fail "a wait of never"
grep -q "^foreline-worker-cuda: .*wait.*never" err || fail "$(cat err)"
DOUBLE_CUDNN=91900 calibrate --cudnn || fail "cuDNN: $(cat err)"
DOUBLE_CUDNN=91900 DOUBLE_FAULTS=no-cudnn-engines calibrate --cudnn && fail "attention by a cuDNN without engines"
grep -q -- '--cudnn: cuDNN 9.19.0: 0 shapes of attention' err || fail "$(cat err)"
DOUBLE_GPUS=2 calibrate --ranks 3 && fail "3 ranks on 2 GPUs"
grep -q 'this machine has 2 GPUs, but rank 2 is number 2 here' err || fail "$(cat err)"
calibrate --dtype fp32 && fail "a bf16 model in fp32"
grep -q -- '--dtype fp32: gpt-tiny' err || fail "$(cat err)"
"$bin/foreline" calibrate --device cuda --batch 2 2>err && fail "samples of no model"
grep -q -- '--batch.*without.*--model' err || fail "$(cat err)"
