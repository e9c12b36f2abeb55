/* Calculon (Isaev et al., SC 2023): the execution among its three JSON files, imported only. The
 * model is another file (model/config.c), which --model names. Names: calculon-ai/calculon,
 * examples/ and calculon/llm/llm.py. */
#include <string.h>

#include "study/frameworks/words.h"

static const struct setup_row rows[] = {
    ROW_NUMBER(NULL, "num_procs", devices, 0),
    ROW_NUMBER(NULL, "tensor_par", tensor_parallel, 1),
    ROW_NUMBER(NULL, "pipeline_par", pipeline, 1),
    ROW_NUMBER(NULL, "pipeline_interleaving", chunks, 1),
    ROW_NUMBER(NULL, "batch_size", batch, 0),
    ROW_NUMBER(NULL, "microbatch_size", microbatch_size, 1),
    ROW_TEXT(NULL, "datatype", words.precision),
    ROW_TEXT(NULL, "activation_recompute", words.recomputed),
    ROW_TEXT(NULL, "tensor_par_comm_type", words.sharding),
    ROW_TEXT(NULL, "tensor_par_overlap", words.offloaded),
    ROW_FLAG(NULL, "optimizer_sharding", words.shard),
    ROW_LOST("weight_offload", "weights stay on the devices"),
    ROW_LOST("activations_offload", "activations stay on the devices"),
    ROW_LOST("optimizer_offload", "the optimizer's state stays on the devices"),
};

static bool calculon_recognises(const struct keys *k)
{
    return k->format == KEYS_TREE && keys_has(k, "tensor_par") && keys_has(k, "pipeline_par");
}

/* Words of whether a thing is made again, and of how tensor parallelism sums: rs_ag in whatever
 * form divides the tokens between. */
static enum status calculon_after(struct setup *s)
{
    s->plain_attention =
        1; /* the runs that it was validated with are from before fused attention */
    s->sequence_parallel = words_have(s->words.sharding, "rs_ag");
    s->zero = s->words.shard ? 1 : 0;
    s->recompute = !s->words.recomputed || !strcmp(s->words.recomputed, "none") ? RECOMPUTE_NONE
                   : !strcmp(s->words.recomputed, "full")                       ? RECOMPUTE_FULL
                                                          : RECOMPUTE_SELECTIVE;
    if (s->recompute == RECOMPUTE_SELECTIVE && strcmp(s->words.recomputed, "attn_only") != 0)
        return error_set(STATUS_UNSUPPORTED, "%s: unknown value '%.40s' of activation_recompute",
                         s->keys->path, s->words.recomputed);
    if (s->words.offloaded && strcmp(s->words.offloaded, "none") != 0)
        PASS(setup_add_note(s, NOTE_LOST,
                            "tensor_par_overlap %.40s, because foreline does not split "
                            "tensor-parallel reductions to overlap them",
                            s->words.offloaded));
    return setup_read_dtype(s, DATA_fp16);
}

const struct dialect dialect_calculon = {
    .name = "calculon",
    .summary = "Calculon: the JSON file of an execution",
    .title = "Calculon",
    .row = rows,
    .rows = sizeof rows / sizeof *rows,
    .recognises = calculon_recognises,
    .after = calculon_after,
};
