#!/bin/sh
# Do the calls that the NCCL transport makes agree with what is predicted? For plans of all
# parallelisms: the collectives of `foreline simulate` (kind, members, bytes as nccl-tests count
# them, how often in an iteration) against the calls of one step in the double's log. What only
# NCCL knows, its choice between ring and tree, is not in the calls; an algorithm that is asked for by
# name is, message by message. Usage: double_calls.sh BIN
set -eu
bin=$(realpath "$1")
models=$(realpath "$(dirname "$0")/models")
. "$(dirname "$0")/double/common.sh"
export FORELINE_WORKER="$double"

fail() {
    echo "FAIL: $*" >&2
    exit 1
}

# KIND MEMBERS BYTES CALLS of an iteration, sorted; equal calls of different purposes are one row.
predicted() {
    tr -d '\n' <a.json | sed 's/.*"collectives": \[\([^]]*\)\].*/\1/' | tr '}' '\n' | sed -n \
        's/.*"kind": "\([^"]*\)", "members": \([0-9]*\), "bytes": \([0-9]*\), "calls": \([0-9.e+]*\).*/\1 \2 \3 \4/p' |
        awk '{ calls[$1 " " $2 " " $3] += $4 } END { for (k in calls) print k, calls[k] }' | sort
}
# Lines: rank, step, members, call, peer, count, type, stream. What of a scatter or gather is left
# over when members do not divide it is summed or spread by one more call, right after it. Every
# member of a group has a line for a call; of messages the sender's counts. Of plans without messages these are
# all-to-alls, in which every member sends each other one its part.
called() {
    cat log.[0-9]* | grep -v '^#' | awk -F '\t' -v all="$1" '
        function put() { if (kind != "") lines[kind " " n " " bytes]++; kind = "" }
        $2 != 1 || $4 == "Recv" { next }
        { size = $7 ~ /16/ ? 2 : $7 ~ /8/ ? 1 : 4; here = $1 " " $3 }
        kind == "reduce-scatter" && $4 == "AllReduce" && $6 < n && here == where { bytes += $6 * size; put(); next }
        kind == "all-gather" && $4 == "Broadcast" && here == where { bytes += $6 * size; put(); next }
        { put(); n = split($3, ignored, ","); where = here; bytes = $6 * size }
        $4 == "Send" { kind = "send" }
        $4 == "Send" && all { lines["all-to-all " n " " bytes * n] += 1 / (n - 1); kind = "" }
        $4 == "AllReduce" { kind = "all-reduce" }
        $4 == "ReduceScatter" { kind = "reduce-scatter"; bytes *= n }
        $4 == "AllGather" { kind = "all-gather"; bytes *= n }
        kind == "send" || kind == "all-reduce" { put() }
        END { put(); for (k in lines) { split(k, row, " "); print k, row[1] == "send" ? lines[k] : lines[k] / row[2] } }' |
        sort
}
# The program has the sums inside a pass as one op of so many calls of their mean size, and of the
# shards of a stage the mean: what agrees is how often, and how much together, but for rounding.
together() {
    awk '{ k = $1 " " $2; calls[k] += $4; bytes[k] += $3 * $4 } END { for (k in calls) print k, calls[k], bytes[k] }' | sort
}
# With ZeRO 1 and 2 the updated parameters are one op of the program that is called bucket by bucket: the op
# says how often, and the mean of their bytes in whole numbers, so that all of them together may be fewer by
# less than a number a call.
gathers() { awk '$1 == "all-gather" { n[$2] += $4; b[$2] += $3 * $4 } END { for (g in n) print g, n[g], b[g] }' "$1" | sort; }
same_gathers() {
    gathers predicted >predicted.gathers && gathers called >called.gathers
    paste -d ' ' predicted.gathers called.gathers |
        awk '{ d = $6 - $3; if ($1 != $4 || $2 != $5 || d < 0 || d >= 4 * $2) bad = 1 } END { exit bad }'
    for side in predicted called; do
        grep -v '^all-gather' $side >$side.rest && mv $side.rest $side
    done
}
agree() { # predicted and called, of shards
    together <predicted >predicted.sums && together <called >called.sums
    paste -d ' ' predicted.sums called.sums | awk '
        { d = $4 - $8; if ($1 != $5 || $2 != $6 || $3 != $7 || d > $3 || -d > $3) bad = 1 } END { exit bad }'
}
# With sequence parallelism a backward also sums, scattered and gathered, the gradients of what every shard has, norms and
# biases, once a stage and step: at most a fiftieth of the bytes, which the prediction counts as computed.
agree_but_whole() { # agree_but_whole STAGES
    together <predicted | sort >predicted.sums && together <called | sort >called.sums
    paste -d ' ' predicted.sums called.sums | awk -v stages="$1" '
        $1 == "send" { if ($0 != $1 " " $2 " " $3 " " $4 " " $1 " " $2 " " $3 " " $4) bad = 1; next }
        { more = $8 - $4; if ($1 != $5 || $2 != $6 || $7 - $3 != stages || more <= 0 || more > $4 / 50) bad = 1; n++ }
        END { exit bad || n != 2 }'
}
# Of rings and double trees: messages in a step, their bytes together, and by whom to whom. A ring of n members
# has 2 (n - 1) rounds of a sum, half as many of a scatter or gather, in each of which every member sends its
# neighbour an n-th; a sum in two trees passes each half up and down n - 1 edges (Sanders, Speck & Traeff 2009).
messages_of() { # messages_of ALGORITHM: predicted
    tr -d '\n' <a.json | sed 's/.*"collectives": \[\([^]]*\)\].*/\1/' | tr '}' '\n' | sed -n \
        's/.*"kind": "\([^"]*\)", "members": \([0-9]*\), "bytes": \([0-9]*\), "calls": \([0-9.e+]*\),.*"algorithm": "\([^"]*\)".*/\1 \2 \3 \4 \5/p' |
        awk -v only="$1" '
            { edges = ($1 == "all-reduce" ? 2 : 1) * ($2 - 1) * $4; bytes += edges * $3 }
            $5 == "ring" { messages += edges * $2; rings++ }
            $5 == "tree" { messages += 2 * edges; trees++ }
            END { print messages, bytes, trees == 0 && only == "ring" ? "ring" : rings == 0 && only == "tree" ? "tree" : "both" }'
}
messages_in_log() { # of a step in which all ranks are one group
    cat log.[0-9]* | awk -F '\t' '
        /^#/ || $2 != 1 || $4 == "Recv" { next }
        $4 != "Send" { other++ }
        { n = split($3, ignored, ","); messages++; bytes += $6 * ($7 ~ /16/ ? 2 : 4); to[$1 " " $5]++ }
        END {
            for (k in to) { split(k, e, " "); if (e[2] != (e[1] + 1) % n) astray = 1; if (to[e[2] " " e[1]] != to[k]) one_way = 1 }
            print messages, bytes, other ? "calls of NCCL" : !astray ? "ring" : !one_way ? "tree" : "neither"
        }'
}
run() { # run OPTIONS...: the log of two steps
    rm -f log.*
    DOUBLE_LOG=$work/log timeout 200 "$bin/foreline" run p.json --device cuda --steps 1 --warmup 1 --timeout 90s "$@" \
        -o m.json >out 2>&1 || fail "$plan: $(tail -n 3 out)"
}

plans=0
while read -r dtype plan; do
    microbatches=4
    case $plan in *"replicas 3"*) microbatches=3 ;; esac
    all=
    model=gpt-tiny:layers=4,hidden=32,heads=4,tokens=32,dtype=$dtype
    case $plan in *alltoall* | *expert*) all=1 ;; esac
    case $plan in *expert*) model=$models/mixtral.json:dtype=$dtype,capacity=125 ;; esac
    "$bin/foreline" plan --algorithm balanced --platform laptop --microbatches $microbatches $plan \
        --model "$model" -o p.json >out 2>&1 ||
        fail "$plan: $(cat out)"
    "$bin/foreline" simulate p.json -o a.json >/dev/null 2>&1
    run
    predicted >predicted && called "$all" >called
    [ -s called ] || fail "$plan: no calls"
    case $plan in
        *"zero 2"*) same_gathers || fail "$plan, $dtype: predicted $(cat predicted.gathers), called $(cat called.gathers)" ;;
    esac
    case $plan in
        *sequence*) agree_but_whole "${plan##* }" || fail "$plan, $dtype: predicted $(cat predicted.sums), called $(cat called.sums)" ;;
        *tensor* | *alltoall* | *expert*) agree || fail "$plan, $dtype: predicted $(cat predicted.sums), called $(cat called.sums)" ;;
        *) diff predicted called || fail "$plan, $dtype: predicted (<), called (>)" ;;
    esac
    plans=$((plans + 1))
done <<'PLANS'
fp32 --stages 2
fp32 --stages 4 --schedule zb-h1
bf16 --stages 4 --chunks 2 --schedule interleaved
fp32 --replicas 2 --stages 1
fp32 --replicas 4 --stages 1 --bucket 20KB
bf16 --replicas 2 --stages 2 --bucket 20KB
fp32 --replicas 4 --stages 1 --zero 1
bf16 --replicas 3 --stages 1 --zero 2 --bucket 30KB
fp32 --replicas 2 --stages 2 --zero 3
bf16 --replicas 4 --stages 1 --zero 3
fp16 --replicas 3 --stages 1 --zero 1 --bucket 30KB
fp32 --tensor-parallel 2 --stages 1
bf16 --tensor-parallel 4 --stages 1
bf16 --tensor-parallel 2 --stages 2
fp32 --replicas 2 --tensor-parallel 2 --stages 1 --bucket 20KB
fp32 --tensor-parallel 2 --sequence-parallel --stages 1
bf16 --tensor-parallel 2 --sequence-parallel --stages 2
fp32 --replicas 4 --context-parallel 4 --context-exchange alltoall --stages 1
fp32 --replicas 4 --expert-parallel 4 --stages 1
PLANS
# The algorithm that the prediction names is the one that is run.
named=0
while read -r algorithm dtype plan; do
    "$bin/foreline" plan --algorithm balanced --platform laptop --microbatches 12 --stages 1 $plan \
        --model "gpt-tiny:layers=4,hidden=32,heads=4,tokens=32,dtype=$dtype" -o p.json >out 2>&1 ||
        fail "$plan: $(cat out)"
    "$bin/foreline" simulate p.json --collective "$algorithm" -o a.json >/dev/null 2>&1
    run --collective "$algorithm"
    wanted=$(messages_of "$algorithm") found=$(messages_in_log)
    [ "${wanted##* }" = "$algorithm" ] || fail "$plan, $algorithm: predicted with $wanted"
    [ "$wanted" = "$found" ] || fail "$plan, $algorithm, $dtype: predicted $wanted, sent $found"
    named=$((named + 1))
done <<'PLANS'
ring fp32 --replicas 4 --bucket 20KB
ring bf16 --replicas 3 --zero 1
ring fp32 --replicas 4 --zero 3
tree fp32 --replicas 4 --bucket 20KB
tree bf16 --replicas 3
PLANS
echo "$plans plans: the calls are those predicted; $named with an algorithm by name: so are the messages"
