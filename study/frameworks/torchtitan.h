/* torchtitan.h - what torchtitan says alike in the TOML of its versions up to 0.2.2 and in the
 * arguments and registries in Python since. Names and defaults: torchtitan/config and
 * torchtitan/distributed; stages: torchtitan/distributed/pipeline_parallel.py. Ranks: pipeline
 * slowest, then replicas, shards, context, tensor parallelism. */
#ifndef STUDY_FRAMEWORKS_TORCHTITAN_H
#define STUDY_FRAMEWORKS_TORCHTITAN_H

#include "study/frameworks/words.h"

extern const char *const torchtitan_reshards[];
enum { TITAN_LESS = 1, TITAN_LOCAL = 8 }; /* usual: layers less at the ends; samples */

#define TORCHTITAN_TRAINING                                                                        \
    ROW_NUMBER("training", "local_batch_size", words.local_batch, TITAN_LOCAL),                    \
        ROW_NUMBER("training", "global_batch_size", batch, -1),                                    \
        ROW_NUMBER("training", "seq_len", tokens, 2048),                                           \
        ROW_TEXT("training", "mixed_precision_param", words.precision)
#define TORCHTITAN_PARALLELISM                                                                     \
    ROW_NUMBER("parallelism", "data_parallel_replicate_degree", words.replicate, 1),               \
        ROW_NUMBER("parallelism", "data_parallel_shard_degree", words.shard, -1),                  \
        ROW_WORD("parallelism", "fsdp_reshard_after_forward", words.reshard, torchtitan_reshards,  \
                 0),                                                                               \
        ROW_NUMBER("parallelism", "tensor_parallel_degree", tensor_parallel, 1),                   \
        ROW_ON("parallelism", "enable_sequence_parallel", sequence_parallel),                      \
        ROW_NUMBER("parallelism", "context_parallel_degree", context_parallel, 1),                 \
        ROW_NUMBER("parallelism", "pipeline_parallel_degree", pipeline, 1),                        \
        ROW_TEXT("parallelism", "pipeline_parallel_schedule", schedule),                           \
        ROW_NUMBER("parallelism", "pipeline_parallel_microbatch_size", microbatch_size, 1),        \
        ROW_NUMBER("parallelism", "pipeline_parallel_layers_per_stage", words.stages.chunk_layers, \
                   0),                                                                             \
        ROW_NUMBER("parallelism", "pipeline_parallel_first_stage_less_layers",                     \
                   words.stages.first_layers, TITAN_LESS),                                         \
        ROW_NUMBER("parallelism", "pipeline_parallel_last_stage_less_layers",                      \
                   words.stages.last_layers, TITAN_LESS),                                          \
        ROW_TEXT("parallelism", "module_fqns_per_model_part", words.stages.layout),                \
        ROW_NUMBER("parallelism", "expert_parallel_degree", expert_parallel, 1)
/* Knobs that both say otherwise than by a row, and those that neither may lose. */
#define TORCHTITAN_SAYS                                                                            \
    (KNOB_BIT(zero) | KNOB_BIT(zero_keep) | KNOB_BIT(zero_group) | KNOB_BIT(reduce_dtype) |        \
     KNOB_BIT(recompute))
#define TORCHTITAN_REFUSES                                                                         \
    (KNOB_BIT(recompute_layers) | KNOB_BIT(recompute_unit) | KNOB_BIT(recompute_modules) |         \
     KNOB_BIT(offload))

/* dialect.after of both. */
enum status torchtitan_after(struct setup *s) MUST_CHECK;
/* dialect.before of both, but for the model's name and the modules of stages. */
enum status torchtitan_before(struct setup *s) MUST_CHECK;

/* How names of modules are written: what stands around each, between two of a stage, and around and
 * between stages; `head`: what the model's last product is called. */
struct torchtitan_names {
    const char *quote, *next, *open, *close, *between, *head;
};
/* Modules of each stage in words.stages.layout. */
enum status torchtitan_write_parts(struct setup *s, const struct torchtitan_names *as) MUST_CHECK;

#endif
