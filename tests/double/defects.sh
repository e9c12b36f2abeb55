#!/bin/sh
# Defects that were found on the double before any GPU, each as a case that fails while it is there. The
# test passes if exactly those fail that known.txt lists. Usage: defects.sh DIRECTORY_OF_BINARIES [CASE...]
set -eu
bin=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
shift
. "$here/common.sh"

same() { # same TRANSPORT OPTIONS...: ends, and with the losses of the CPU over tcp, within 1e-5
    transport=$1
    shift
    plan "$@" && run cpu tcp && losses >cpu && run cuda "$transport" && losses >gpu &&
        paste cpu gpu | awk '{ d = $1 - $2; if (d * d > 1e-10 || $2 == "") exit 1 }'
}
exposed() { # seconds of exposed tensor traffic per iteration
    sed -n 's/.*"exposed_s": *{[^}]*"tensor": *\([0-9.e-]*\).*/\1/p' m.json | head -n 1
}
peak() { # bytes, of rank 0
    sed -n 's/.*"peak_bytes": *\([0-9]*\).*/\1/p' m.json | head -n 1
}
calls() { # calls PATTERN: log lines of NCCL calls
    cat log.* | grep -v '^#' | grep -E "$1"
}

# C1: every run over NCCL with channels ends.
case_c1_pipeline_ends() { same nccl --stages 2; }
case_c1_pipeline_ends_1f1b_3() { same nccl --stages 3 --schedule zb-h1; }
case_c1_pipeline_and_replicas_end() { same nccl --stages 2 --replicas 2; }
# C2: nothing is allocated or freed in a step.
case_c2_pipeline_and_shards() { same nccl --stages 2 --tensor-parallel 2; }
case_c2_pipeline_and_zero_3() { same nccl --stages 2 --replicas 2 --zero 3; }
case_c2_local_allocates_in_no_step() { same local --stages 2 --replicas 2; }
# C3: buckets through the host's memory are summed before they are used.
case_c3_buckets_over_tcp() { same tcp --replicas 2 --bucket 10KB; }
# H1: sums over shards are communication.
case_h1_shards_are_communication() {
    same tcp --tensor-parallel 2 && grep -q '"tensor"' m.json
}
# H2: communicators block: those that do not start a thread per call.
case_h2_communicators_block() {
    same nccl --replicas 2 && cat log.* | grep -q '^#comm' && ! cat log.* | grep '^#comm' | cut -f 4 | grep -q 0
}
# H3: the host waits at the end of a step, not before every launch: as often however many microbatches.
case_h3_host_waits_at_the_end() {
    waits=
    for microbatches in 2 6; do
        same nccl --stages 2 --tensor-parallel 2 || return 1
        waits="$waits $(cat log.* | grep '^#step' | cut -f 7 | sort -n | tail -n 1)"
    done
    microbatches=4
    # shellcheck disable=SC2086 # two words
    set -- $waits
    [ "$1" = "$2" ]
}
# H4: NCCL chooses how many CTAs it takes.
case_h4_no_cap_of_ctas() {
    same nccl --stages 2 && ! cat log.* | grep '^#comm' | cut -f 5 | grep -qv '^0$'
}
# H5: a receive, a kernel that spins until it is served, is queued when the list has come to it: the first of two
# stages has sent all microbatches before it waits for gradients.
case_h5_receives_when_needed() {
    same nccl --stages 2 --schedule gpipe && grep -v '^#' log.0 | awk -F '\t' '
        $2 >= 0 && $4 == "Recv" { received[$2]++; n++ }
        $2 >= 0 && $4 == "Send" && received[$2] { bad = 1 }
        END { exit bad || n != 12 }'
}
# H6: two groups do not share a stream.
case_h6_stream_per_group() {
    same nccl --replicas 2 --tensor-parallel 2 &&
        cat log.0 | grep -v '^#' | cut -f 3,8 | sort -u | cut -f 2 | sort | uniq -d | wc -l | grep -qx 0
}
# H7: threads of a process take a GPU each.
case_h7_local_takes_a_gpu_each() {
    same local --stages 2 && [ "$(cat log.* | grep -c '^#gpu')" = 2 ]
}
# H8: small buckets with pipeline, replicas and shards.
case_h8_small_buckets() {
    platform=hidup-8xv100
    same tcp --stages 2 --replicas 2 --tensor-parallel 2 --bucket 20KB && ok=0 || ok=1
    platform=laptop
    return $ok
}
# M1: bf16 travels as bf16. (The loss of divided classes tells three fp32 numbers of each of 32 rows.)
case_m1_bf16_on_the_wire() {
    dtype=bf16
    plan --replicas 2 --tensor-parallel 2 && run cuda nccl && ok=0 || ok=1
    dtype=fp32
    [ $ok = 0 ] && ! calls 'AllReduce|ReduceScatter' | awk '$6 > 192' | grep -q float32
}
# M2: the peak is what the GPU says: what transports hold as well.
case_m2_peak_counts_transports() {
    plan --stages 2 && run cuda tcp && own=$(peak) && run cuda local && buffers=$(peak) &&
        run cuda nccl && [ "$own" -gt 33554432 ] && [ "$buffers" -gt "$own" ] && [ "$(peak)" -gt "$own" ]
}
# M3: one identity, one world, and splits.
case_m3_one_identity() {
    same nccl --stages 2 --replicas 2 && [ "$(cat log.* | grep -c '^#id')" = 1 ]
}
# M4: what CUDA loads when it is first needed has been needed before the first step, and nothing is loaded ahead.
case_m4_loaded_before_steps() {
    for plan in "--stages 2 --replicas 2 --bucket 10KB" "--stages 2 --tensor-parallel 2 --schedule zb-h1"; do
        # shellcheck disable=SC2086 # words
        same nccl $plan && [ "$(cat log.* | grep -c '^#step')" = 12 ] &&
            ! cat log.* | grep '^#step' | cut -f 11 | grep -qv '^0$' || return 1
    done
    ! grep -q EAGER m.json
}
# M5: what communicates comes first.
case_m5_priority_of_communication() {
    same nccl --stages 2 --replicas 2 && ! calls . | cut -f 8 | grep -qv '/-5$'
}
# M7: tokens come from pinned memory.
case_m7_tokens_are_pinned() {
    same nccl --stages 1 --replicas 2 && ! cat log.* | grep '^#step' | cut -f 8 | grep -qv '^0$'
}
# M9: two ranks on a GPU are refused, unless that is wished for.
case_m9_gpu_is_not_shared() {
    plan --stages 2
    DOUBLE_GPUS=1 run cuda tcp && return 1
    grep -qi 'gpu' err && ! grep -q Duplicate err && DOUBLE_GPUS=1 FORELINE_SHARE_GPU=1 run cuda tcp
}
# M12: computation and communication are counted from one event.
case_m12_one_clock() {
    same nccl --stages 2 --replicas 2 && ! cat log.* | grep '^#step' | cut -f 12 | grep -qv '^1$'
}
# The loss of a step is a mean also where every microbatch makes an update: it was as many times as large.
case_loss_of_asynchronous_steps() { same nccl --stages 2 --schedule pipedream; }

cases=${*:-$(sed -n 's/^case_\([a-z0-9_]*\)() .*/\1/p' "$here/defects.sh")}
patience=${patience:-14}
failed= wrong=0
for name in $cases; do
    expected=passes
    grep -qx "$name" "$here/known.txt" && expected=fails
    begin=$(date +%s)
    : >err
    if "case_$name" 2>shell.err; then found=passes; else found=fails; fi
    echo "$name $found ($(($(date +%s) - begin)) s)$([ $found = passes ] || echo ": $(why)")"
    [ $found = $expected ] || failed="$failed $name" wrong=1
done
[ $wrong = 0 ] || echo "FAIL: not as known.txt says:$failed" >&2
exit $wrong
