/* DeepSpeed: its JSON, of which templates have placeholders for numbers. It does not say the model,
 * nor pipelines, experts and context parallelism, which are in the program. Names and defaults:
 * deepspeed/runtime/config.py and deepspeed/runtime/zero/config.py. */
#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "study/frameworks/nested.h"
#include "study/frameworks/words.h"

static const struct setup_row rows[] = {
    ROW_NUMBER("", "train_batch_size", batch, 0),
    ROW_NUMBER("", "train_micro_batch_size_per_gpu", microbatch_size, 0),
    ROW_NUMBER("", "gradient_accumulation_steps", accumulation, 0),
    ROW_NUMBER("", "zero_optimization.stage", zero, 0),
    ROW_FLAG("", "zero_optimization.overlap_comm", words.overlap),
    ROW_NUMBER("", "zero_optimization.reduce_bucket_size", words.bucket_elements, 0),
    ROW_TEXT("", "zero_optimization.offload_optimizer.device", words.offloaded),
    ROW_FLAG("", "bf16.enabled", words.bf16),
    ROW_FLAG("", "fp16.enabled", words.fp16),
    ROW_TEXT("", "communication_data_type", words.sums),
    ROW_TEXT("", "optimizer.type", words.optimizer_name),
    ROW_NUMBER("", "tensor_parallel.autotp_size", tensor_parallel, 1),

    ALSO_FLAG("zero_optimization.cpu_offload", words.to_host),    /* its older name */
    ALSO_NUMBER("zero_optimization.mics_shard_size", zero_group), /* until 0.19 */
    ROW_LOST("zero_optimization.offload_param.device", "parameters stay on the device"),
    ROW_LOST("curriculum_learning.enabled", "samples have the same length in all steps"),
};

/* Also of files that leave the batch to the program, as long as they say how state is sharded. */
static bool deepspeed_recognises(const struct keys *k)
{
    return k->format == KEYS_TREE &&
           (keys_has(k, "train_micro_batch_size_per_gpu") ||
            keys_has(k, "zero_optimization.stage") || keys_has(k, "zero_optimization") ||
            keys_has(k, "train_batch_size"));
}

/* What is not in the JSON has degree one. With the batch, the microbatch and the accumulation all
 * said, the number of replicas follows, and so do the devices. Buckets overlap the backward only
 * where overlap_comm is on, which it is by default with ZeRO 3 alone; there units are layers. */
static enum status deepspeed_after(struct setup *s)
{
    s->pipeline = s->chunks = 1;
    PASS(setup_read_dtype(s, DATA_fp32));
    setup_set_sums(s, words_have(s->words.sums, "32") ? 32 : s->bits);
    s->optimizer = s->words.optimizer_name && !strcasecmp(s->words.optimizer_name, "SGD");
    if (s->words.offloaded && !strcmp(s->words.offloaded, "nvme"))
        PASS(setup_add_note(
            s, NOTE_LOST,
            "offload_optimizer to NVMe, which foreline models as offload to host memory"));
    bool there =
        s->words.to_host || (s->words.offloaded && strcmp(s->words.offloaded, "none") != 0);
    s->offload = there && s->zero > 0 ? OFFLOAD_OPTIMIZER : OFFLOAD_NONE;
    bool overlap = s->words.overlap || (s->zero == 3 && !keys_has(s->keys, "overlap_comm"));
    if (overlap && s->zero > 0 && s->zero < 3)
        s->bucket_bytes = (s->words.bucket_elements > 0 ? s->words.bucket_elements : 500000000) *
                          setup_reduce_bits(s) / 8;
    int64_t each = setup_times(s->microbatch_size, s->accumulation);
    if (s->batch > 0 && each > 0 && s->tensor_parallel > 0 && s->batch % each == 0)
        s->devices = setup_times(s->batch / each, s->tensor_parallel);
    return STATUS_OK;
}

/* Each degree that the JSON has no name for is refused, as the plan would run otherwise there. */
static enum status deepspeed_before(struct setup *s)
{
    if (s->pipeline > 1)
        return error_set(STATUS_UNSUPPORTED,
                         "it has %" PRId64 " pipeline stages, which DeepSpeed's JSON cannot "
                         "describe; define them in the training program",
                         s->pipeline);
    if (s->stages > 1)
        return error_set(STATUS_UNSUPPORTED,
                         "it has %zu virtual stages on each device, which are unsupported",
                         s->stages);
    if (s->zero_group > 0) /* deepspeed/runtime/config.py of 0.19 refuses MiCS */
        return error_set(STATUS_UNSUPPORTED,
                         "ZeRO %u over groups of replicas (--zero-group) is unsupported", s->zero);
    if (s->bucket_bytes > 0 && (s->zero == 0 || s->zero == 3)) {
        PASS(setup_add_note(s, NOTE_LOST,
                            "gradient buckets of %" PRId64
                            " bytes, which DeepSpeed takes only with ZeRO 1 and 2 (got ZeRO %u)",
                            s->bucket_bytes, s->zero));
        s->bucket_bytes = 0;
    }
    PASS(words_write_offload(s));
    s->words.offloaded = s->offload ? "cpu" : NULL;
    PASS(words_write_types(s));
    PASS(words_check_sums(s));
    if (s->words.fp8)
        return error_set(STATUS_UNSUPPORTED, "data type fp8 is unsupported");
    s->words.sums = setup_reduce_bits(s) > s->bits ? "fp32" : NULL;
    s->words.optimizer_name = s->optimizer ? "SGD" : "AdamW";
    return setup_add_note(
        s, NOTE_LOST,
        "the model, which DeepSpeed's JSON cannot describe; define it in the training program");
}

/* In the order of the table, which is by maps. */
static void write_json(const struct setup *s, const char *title, FILE *out)
{
    struct nested n = {.out = out, .style = NESTED_JSON};
    (void)title; /* JSON has no comments */
    setup_write(s, rows, sizeof rows / sizeof *rows, nested_put, &n);
    nested_end(&n);
}

const struct dialect dialect_deepspeed = {
    .name = "deepspeed",
    .summary = "DeepSpeed: its JSON, which does not say the model",
    .title = "DeepSpeed",
    .version = "0.19.8",
    .row = rows,
    .rows = sizeof rows / sizeof *rows,
    .says = KNOB_BIT(bucket_bytes) | KNOB_BIT(reduce_dtype) | KNOB_BIT(offload),
    .refuses = KNOB_BIT(expert_parallel) | KNOB_BIT(context_parallel) |
               KNOB_BIT(sequence_parallel) | KNOB_BIT(recompute) | KNOB_BIT(zero_keep),
    .recognises = deepspeed_recognises,
    .after = deepspeed_after,
    .before = deepspeed_before,
    .write = write_json,
};
