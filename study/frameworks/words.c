/* What several frameworks say in the same words, and what several of them cannot express. */
#include "study/frameworks/words.h"

#include <inttypes.h>

const char *const words_granularities[] = {"none", "selective", "full", NULL};
const char *const words_methods[] = {"none", "uniform", "block", NULL};
enum { METHOD_UNIFORM = 1, METHOD_BLOCK };
const char *const words_exchanges[EXCHANGE_KINDS + 1] = {
    [EXCHANGE_RING] = "p2p", [EXCHANGE_ALLGATHER] = "all_gather", [EXCHANGE_ALLTOALL] = "a2a"};

/* "block" recomputes so many layers of a stage, "uniform" all in units. */
void words_read_recompute(struct setup *s)
{
    if (s->recompute == RECOMPUTE_FULL) {
        s->recompute_layers = s->words.method == METHOD_BLOCK ? s->words.unit : 0;
        s->recompute_unit = s->words.method == METHOD_BLOCK ? 0 : s->words.unit;
    }
}

void words_write_recompute(struct setup *s)
{
    s->words.granularity = s->recompute;
    if (s->recompute == RECOMPUTE_FULL) {
        s->words.method = s->recompute_layers > 0 ? METHOD_BLOCK : METHOD_UNIFORM;
        s->words.unit = s->recompute_layers > 0 ? s->recompute_layers
                        : s->recompute_unit > 0 ? s->recompute_unit
                                                : 1;
    }
}

/* Numbers of products have a type of their own where they are fp8; the kept ones are bf16 then. */
enum status words_write_types(struct setup *s)
{
    s->words.fp8 = s->dtype == DATA_fp8;
    s->words.fp16 = s->dtype == DATA_fp16;
    s->words.bf16 = s->bits == 16 && !s->words.fp16;
    s->words.overlap = s->bucket_bytes > 0;
    s->words.bucket_elements = s->bucket_bytes * 8 / setup_reduce_bits(s);
    return s->bucket_bytes * 8 % setup_reduce_bits(s) == 0
               ? STATUS_OK
               : error_set(STATUS_UNSUPPORTED,
                           "its gradient buckets have %" PRId64
                           " bytes, expected a whole number of elements",
                           s->bucket_bytes);
}

enum status words_check_schedule(const struct setup *s)
{
    const char *implied = s->chunks > 1 ? "interleaved" : "1f1b";
    if (s->stages > 1 && strcmp(s->schedule, implied) != 0)
        return error_set(STATUS_UNSUPPORTED,
                         "schedule %s is unsupported; the framework would run %s instead",
                         s->schedule, implied);
    if (s->chunks > 1 && s->accumulation % s->pipeline != 0)
        return error_set(STATUS_UNSUPPORTED,
                         "virtual stages have %" PRId64
                         " microbatches per replica, expected a multiple of the %" PRId64
                         " pipeline ranks",
                         s->accumulation, s->pipeline);
    return STATUS_OK;
}

enum status words_check_sums(const struct setup *s)
{
    if (setup_reduce_bits(s) != s->bits && s->bits != 16)
        return error_set(STATUS_UNSUPPORTED,
                         "gradients are reduced in %" PRId64
                         " bits, but elements of the model have %" PRId64
                         " bits, expected the same",
                         setup_reduce_bits(s), s->bits);
    return STATUS_OK;
}

enum status words_write_offload(struct setup *s)
{
    if (s->offload & OFFLOAD_ACTIVATIONS)
        return error_set(STATUS_UNSUPPORTED, "activation offload is unsupported");
    if (s->offload && s->zero == 0 && s->replicas > 1)
        return error_set(STATUS_UNSUPPORTED, "optimizer offload needs ZeRO (--zero 1 or higher)");
    if (s->offload && s->zero == 0)
        s->zero = 1; /* a group of one replica shards nothing */
    return STATUS_OK;
}

enum status words_check_order(const struct setup *s)
{
    return s->apart ? error_set(STATUS_UNSUPPORTED,
                                "the plan puts stages of one replica on neighbouring devices, but "
                                "the framework puts replicas of one stage there")
                    : STATUS_OK;
}

void words_write_head(const struct setup *s, const char *title, FILE *out)
{
    fprintf(
        out,
        "#!/bin/bash\n"
        "# %s\n"
        "# Data, tokenizer, learning rate and checkpoints are arguments of this script.\n"
        "%s",
        title,
        s->nodes > 1
            ? "# On every node: NODE_RANK is its number from 0, MASTER_ADDR the host of node 0.\n"
            : "");
}

void words_write_launch(const struct setup *s, FILE *out)
{
    fprintf(out, "LAUNCH_ARGS=(\n");
    if (s->nodes > 1)
        fprintf(out,
                "    --nnodes %" PRId64 "\n"
                "    --node_rank \"${NODE_RANK:?set it to the number of this node, 0 to %" PRId64
                "}\"\n"
                "    --master_addr \"${MASTER_ADDR:?set it to the host of node 0}\"\n"
                "    --master_port \"${MASTER_PORT:-29500}\"\n",
                s->nodes, s->nodes - 1);
    fprintf(out, "    --nproc_per_node %" PRId64 "\n)\n", s->per_node);
}
