#!/bin/sh
# Traces of other people's runs beside the project, imported, equal a count of their own to the nanosecond.
# Usage: real_traces.sh FORELINE FOLDER
set -u
foreline=$1 folder=$2 here=$(cd "$(dirname "$0")" && pwd)
if [ ! -d "$folder/traces" ] || ! command -v python3 >/dev/null; then
    echo "skipped: no traces of real runs in $folder, or no python3"
    exit 77
fi
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
compared=0 failed=0

compare() { # TRACE...: ranks of one run
    "$foreline" measurement import "$@" --json >"$dir/m.json" 2>"$dir/warnings" || {
        cat "$dir/warnings"
        failed=1
        return
    }
    python3 "$here/count_trace.py" "$@" | sort -n >"$dir/want"
    python3 - "$dir/m.json" "$dir/want" <<'P' || failed=1
import json, sys
ranks = json.load(open(sys.argv[1]))["ranks"]
wrong = 0
for rank, line in zip(ranks, open(sys.argv[2])):
    _, _, window, busy, _, exposed, idle = map(float, line.split())
    got = [1e9 * rank[k] for k in ("busy_s", "exposed_comm_s", "idle_s")]
    if any(abs(a - b) > 1e-3 for a, b in zip(got, (busy, exposed, idle))) or abs(sum(got) - window) > 1e-3:
        print(rank["name"], got, line)
        wrong = 1
sys.exit(wrong)
P
    compared=$((compared + 1))
}

layers() { # TRACE: the times of its ranges, forward, backward and made again
    "$foreline" measurement import "$1" --profile ranges -o "$dir/layers.json" 2>"$dir/warnings" &&
        python3 "$here/count_layers.py" "$dir/layers.json" "$1" >"$dir/differ" || {
        cat "$dir/warnings" "$dir/differ"
        failed=1
    }
}

mkdir "$dir/dlrm"
tar xzf "$folder/traces/param_dlrm_kineto_ranks0-3.tar.gz" -C "$dir/dlrm"
# shellcheck disable=SC2046 # no blanks in these names
compare $(find "$dir/dlrm" -name '*.json')
compare "$folder"/traces/hta_trace_filter__sampled_rank-[01].json.gz
# The large ones with ./check --all.
[ -z "${FORELINE_EVERYTHING:-}" ] || large="hta_trace_diff__control__control hta_negative_queue_length_values_check__rank0
    hta_ns_resolution_trace__rank-0.Apr_03_18_51_38.1102.pt.trace"
for trace in ${large:-} hta_nccl_parser_config__nccl_data tracelens_b200__eager_trace \
    hta_amd_trace__mi250_minitoy_train_ROCm6_2_kineto \
    tracelens_mi210__gpu_only_trace__gpu_only_trace \
    tracelens_h100__Qwen_Qwen1.5-0.5B-Chat__1016005 param_resnet_kineto; do
    compare "$folder/traces/$trace.json.gz"
done
for trace in hta_trace_filter__sampled_rank-0 hta_trace_filter__sampled_rank-1 hta_trace_diff__control__control \
    hta_nccl_parser_config__nccl_data tracelens_b200__eager_trace tracelens_h100__Qwen_Qwen1.5-0.5B-Chat__1016005; do
    layers "$folder/traces/$trace.json.gz"
done
echo "$compared runs"
exit $failed
