#!/bin/sh
# Writes docs/results/fidelity.md, how far predictions of published runs are off, and study/expected.def and
# study/expected_memory.def, what plans are told of it; three minutes of CPU time. foreline has the new table when it is built again.
# Usage: bench/fidelity.sh FORELINE FILE|DIR...
# Files and folders are what `foreline lab scoreboard` takes; docs/fidelity is always among them.
set -eu
foreline=$1
shift
root=$(dirname "$0")/..
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$foreline" lab scoreboard "$root/docs/fidelity" "$@" --cross-validate -o "$work/own" >"$work/own.txt"

# The scores of one kind.
scores() {
    awk -F '\t' -v by="$1" '
        $1 == by {
            memory = $15 > 0 ? $14 " (" $15 ")" : "-"
            printf "| %s | %s | %s | %s | %s | **%s** | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n",
                $2, $3, $4, $5, $18, $6, $7, $8, $9, $10, $11, $12, $17, $13, memory
        }' "$work/own/scores.tsv"
}

head_of() {
    printf '| %s | rows | used | left out | roofline: mean | mean | median | p95 | max | bias | tau | regret | of the first 3 | best found | memory: median (rows) |\n' "$1"
    printf '|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n'
}

# "2238 runs, mean 12.3 %, median 9.9 %": errors apart.
apart() {
    awk -F '\t' 'FNR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        $at["apart_%"] != "-" { e = $at["apart_%"]; print e < 0 ? -e : e }' \
        "$work/own/rows.tsv" | sort -n | awk '{ v[NR] = $1; sum += $1 }
        END { printf "%d runs, mean %.1f %%, median %.1f %%", NR, sum / NR, (v[int((NR + 1) / 2)] + v[int((NR + 2) / 2)]) / 2 }'
}

# Peaks of memory of rows whose parallelism matches: "125, 0.044", runs and the median of their errors.
memory() {
    awk -F '\t' -v like="$1" 'FNR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        $at["parallelism"] ~ like && $at["memory_error_%"] != "-" { e = $at["memory_error_%"]; print e < 0 ? -e : e }' \
        "$work/own/rows.tsv" | sort -n | awk '{ v[NR] = $1 }
        END { printf "%d, %.3f", NR, (v[int((NR + 1) / 2)] + v[int((NR + 2) / 2)]) / 200 }'
}

memory_table() {
    cat <<'TEXT'
/* How far off predicted peaks of memory were: are experts spread, published runs, and the error
 * that half of them did not exceed. Written by bench/fidelity.sh. */
/* clang-format off */
TEXT
    printf 'EXPECTED_MEMORY(false, %s)\nEXPECTED_MEMORY(true, %s)\n' "$(memory .)" "$(memory ep)"
}

page() {
cat <<'TEXT'
# How far predictions are off

Written by `bench/fidelity.sh FORELINE SETS`, with study/expected.def, from runs that others measured and published. Errors are predicted / measured - 1
of the time of an iteration, in %, absolute unless it says bias. A prediction is a function of a run's configuration: model, GPU's name, network, framework and
parallelism; what was measured of the run is not given to it (`tests/test_published.c` changes it and compares). "roofline: mean" is the
same with `--framework foreline`, the bare roofline. Regret is what it costs to take the plan that is
predicted to be the fastest among those of equal model, GPUs, batch and type, and "of the first 3" the best
measured of the three predicted fastest: run three. Memory is the error of the peak.

TEXT
printf '**Each set by constants that were fitted to the others: %s.**\n' "$(apart)"
printf '"mean" and "median" below are by the shipped constants ([apart](#by-constants-that-do-not-know-the-rows): the others).\n\n'
for kind in set gpu dtype parallelism all; do
    case $kind in
    set) title='By set' ;;
    gpu) title='By GPU' ;;
    dtype) title='By type of numbers' ;;
    parallelism) title='By parallelism' ;;
    all) title='All rows' ;;
    esac
    printf '## %s\n\n' "$title"
    head_of "$kind"
    scores "$kind"
    echo
done

cat <<'TEXT'
## By constants that do not know the rows

The constants of core/strategy/constants.def three times: **a priori**, from tables of kernels, data sheets and papers alone; as **shipped**, fitted to these rows; and **apart**, fitted
again by the same command to all other sets, or to all other generations of GPUs. A row that is left out cannot reach its prediction (`unit.published_fit`:
what_is_left_out_is_left_out). "A priori there": what only those rows know, so that the value a priori is all that is left of it without them. Structure (which kernels there are,
what overlaps) was chosen with all rows in view, in all columns.

TEXT
without() {
    printf '| %s | rows | a priori: mean | median | shipped: mean | median | apart: mean | median | a priori there |\n' "$2"
    printf '|---|---:|---:|---:|---:|---:|---:|---:|---|\n'
    awk -F '\t' -v by="$1" '/^without\tname/ { on = 1; next } /^$/ { on = 0 }
        on && $1 == by { printf "| %s | %s | %s | %s | %s | %s | **%s** | %s | %s |\n", $2, $3, $4, $5, $6, $7, $8, $9, $10 }' "$work/own.txt"
    echo
}
without set 'without the set'
without generation 'without the generation'
printf 'Constants: a priori, as shipped, fitted now, and the least and most that the fits without a set or a generation say.\n\n'
printf '| constant | a priori | shipped | fitted | least | most | rows | a priori from |\n|---|---:|---:|---:|---:|---:|---:|---|\n'
awk -F '\t' '/^constant\tprior/ { on = 1; next } /^$/ { on = 0 }
    on { printf "| `%s` | %s | %s | %s | %s | %s | %s | %s |\n", $1, $2, $3, $4, $5, $6, $7, $8 }' "$work/own.txt"
echo

printf '## How often runs are within what was expected of them\n\n'
printf 'Of each set by a table (study/expected.def) of the other sets: shares of runs, in %%, that were within the error said to hold for half, and for nine in ten.\n\n'
printf '| set | runs | within that of half | within that of nine in ten |\n|---|---:|---:|---:|\n'
awk -F '\t' '/^expected_of\t/ { on = 1; next } /^$/ { on = 0 } on { printf "| %s | %s | %s | %s |\n", $1, $2, $3, $4 }' "$work/own.txt"

printf '\n## Rows that are left out\n\n| set | rows | reason |\n|---|---:|---|\n'
awk -F '\t' '/^set\tleft_out\treason/ { on = 1; next } /^$/ { on = 0 } on { printf "| %s | %s | %s |\n", $1, $2, $3 }' "$work/own.txt"

printf '\n## The ten worst rows of each set\n\n'
printf 'compute, exposed communication and idle are shares of the predicted time of all ranks.\n\n'
printf '| run | model | GPU | parallelism | measured s | predicted s | error | compute | exposed | idle |\n'
printf '|---|---|---|---|---:|---:|---:|---:|---:|---:|\n'
awk -F '\t' -v OFS='\t' 'NR > 1 && $8 != "-" { e = $8 < 0 ? -$8 : $8; split($1, s, "/"); print s[1], e, $0 }' \
    "$work/own/rows.tsv" | sort -t "$(printf '\t')" -k1,1 -k2,2gr | awk -F '\t' '
        { set = $1 ~ /^plan_config/ ? "sailor" : $1 }
        set != last { n = 0; last = set }
        ++n <= 10 { printf "| %s | %s | %s %s | %s | %s | %s | %s | %s | %s | %s |\n", $3, $4, $6, $5, $7, $8, $9, $10, $11, $12, $13 }'
echo
cat <<'TEXT'
## What was fitted on what

* **Kernels and frameworks** ([kernels.md](../reference/kernels.md#kernels-and-frameworks)): attained products per GPU and type of numbers come from tables of measured products. All that no table, data sheet or count says are the constants above, fitted to these
  rows by `lab scoreboard SETS --fit`: for them the first tables of this page are no test on unseen runs. "Apart" is one of constants, not of structure, which was chosen with all rows in
  sight (next line). Figures of papers behind values a priori were typed from memory; those of `flash_vendor` and `flash_blackwell` were lowered from 0.65 (FlashAttention-3's own) to 0.59 (the vendor's)
  after errors apart had been seen.
* **Structure chosen on residuals** of these rows: that sums of shards hide where the device waits for the host (vTrain 17.5 to 12.3 %), that vTrain computes nothing again, without fused kernels (12.3 to 10.3 %), that attention loses beside the
  exchange of its keys and values (long contexts 7.9 to 4.2 %), that recipes of Megatron gather what ZeRO 1 updated beside the next forwards (MLPerf 6.6 to 6.3 %, its worst 16.0 to 7.8), that boards of four
  GH200 have links between pairs (Sailor 46.5 to 38.3 %), that row-wise fp8 and overlapped all-to-alls have constants of their own, `cast=6` of fp8 in blocks, the 4 us of a hop between nodes (a fit
  to four nodes had said 22).
* **With bigscience_a100_even and nanotron_even in sight**: products whose rows are not aligned (0.7 of the fp32 peak in batches: 7 rows of BLOOM's layouts), the host of eager stacks where shards sum, the fabrics `efa` and
  `omnipath`, that nanotron keeps a quarter more for the backward, that Megatron-Bridge's recipes from 26.06 on have graphs of the iteration, that layers' graphs leave the host the experts, that HybridEP puts tokens in order on their way, and half of `exchange_hidden` without graphs.
  Rows that are off by more than twice at the values a priori are fitted to by no constant: most are of nanotron.
* **Products by tiles** of A100 to GB300: NVIDIA's tables of kernels ([kernel tables](2026-11-30-kernel-tables.md)), not training runs; `doubling` of networks: MLPerf's.
* **GB300**'s product (`gb300` times GB200's) and the clock of **H100-HBM2E** (torchtitan, `power`) are such constants, too.
* **Collectives** ([bench.md](../reference/bench.md#real-collectives)): tables of nccl-tests, not training runs, but for the hop.
* **Memory** ([kernels.md](../reference/kernels.md)): what a framework keeps was written down after the errors of these rows were seen, from recalled code of the frameworks; `logit=6` of fused
  losses was set on two of Megatron's tests, sizes of memory that drivers report were typed from memory. No set was held out. Eleven rows get an assumption on what they recomputed or
  sharded (column `assumed` of `rows.tsv`), the least that fits: for those, not being called out of memory is no prediction.
* **Frameworks** of rows (`lab/scoreboard/published_facts.c`): read off the repositories, not chosen by errors. Sailor's alone was read off its own profile of a layer (numbers moved per score:
  slopes over microbatches; kernels: the smallest microbatch), on GPUs that the runs were and were not on. The values are the profile's; that they were taken
  was decided with the errors of its 15 iterations in sight. That is no zero knowledge, in no column of this page; without it: 32.8 %, with the numbers alone: 15.0 %.

## What is assumed where a row is silent

Virtual stages (Megatron recipes: the most of at most five that divides the layers of a stage; torchtitan's interleaved schedule: two), microbatches of pipelines (as
many as stages in torchtitan, else of one sample), recomputation ("not stated" is none, or what memory demands), vocabulary (50,304), ports (those of the GPU's servers), NVLink domains of GB200 and GB300 (equal parts of
at most 72 GPUs), whole networks without oversubscription. torch's selective checkpointing of single ops is half of the layers. The
repetition of one configuration in another container differs by 1 to 2 % in dense sets and 9 % in the MoE set.

## What is not modelled, and what it is worth

* LoRA (frozen parameters): such rows are left out.
* vTrain's file does not say what is computed again. With everything, its widest layers would take products of 350 Tflop/s on a GPU whose peak is 312: nothing is, here, and DeepSpeed
  is taken to be built without its fused kernels. Shards of eight with small microbatches take 4 to 5 ms a layer, against 3 of fewer (jitter?): 10 to 25 % too fast. With layer times of 128
  random runs (`--layers 128`) the others are 1.0 % off, over four seeds, and the best plan is found in 132 to 140 of 140 to 143 choices (by zero knowledge in 86 of 144, before in 97).
* Memory: NCCL's buffers and CUDA's context, blocks of unequal size, dispatchers that gather tokens, offloading of modules. Peaks of Megatron's tests are
  4 % off at the median (10.7 % with EP), torchtitan's 6 % (17 % in pipelines). [kernels.md](../reference/kernels.md) says what is derived, and from what.
* nanotron's pipelines on several nodes: with shards a layer of a microbatch takes 6 to 27 ms where it takes 4.5 without a pipeline, and some runs take 20 times as long as
  others of nearly the same plan (a failing cluster?): 25.3 % off. Its 63 runs of one stage with up to eight shards are 5.6 % off.
* Context parallelism in torchtitan is slower by 35 % at degree 2 and right at 4 and 8: one factor cannot have both.
* Sailor's attention and host (see above): 33 % off with what other Megatron-DeepSpeed runs are given. Memory is 22 % too small: what such attention keeps is not known.
  With its profile of layers (`lab scoreboard PLANS profiles.json`) the 15 runs are 11.5 % off, 6.4 at the median (its authors' simulator: 8.9). Its profile says 95 ms for
  an iteration of one sample that took 74 (61.9 % with the 25 ms that DeepSpeed takes besides), so a layer was not timed as it runs; pipelines of four stages are 15 % too fast: 3 to 4 ms
  of each message are not its bytes, which take 1.5.
* Containers: the same Qwen3-30B took 14.5 s in 25.09 and 28.2 s in 25.11.

## To add a run

A file of the schema (`docs/fidelity/calculon.json` is one): `{"source": {"repo", "path", "url"}, "rows": [...]}`, each row with `id`, `model` {name, layers,
hidden, heads, kv_heads, ffn, vocab, seq, gated_mlp, tied_embeddings}, `gpu`, `gpus`, `gpus_per_node`, `network`, `dtype`, tp, pp, vp, cp, ep, `zero`,
`recompute`, `micro_batch`, `global_batch`, `metrics` {step_time_s or tokens_per_s_per_gpu, memory_gib} and `flags`, which are empty unless something does not
add up. What is not known is null. `foreline lab scoreboard FILE` says what it makes of it.
TEXT
}

page >"$work/page"
cp "$work/page" "$root/docs/results/fidelity.md"
cp "$work/own/expected.def" "$root/study/expected.def"
memory_table >"$root/study/expected_memory.def"
