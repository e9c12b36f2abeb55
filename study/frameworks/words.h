/* words.h - what several frameworks say in the same words: Megatron's names of recomputation and
 * exchanges, which NeMo 1 has as well, and what several of them cannot express. */
#ifndef STUDY_FRAMEWORKS_WORDS_H
#define STUDY_FRAMEWORKS_WORDS_H

#include <string.h>

#include "study/frameworks/setup.h"

extern const char *const words_granularities[], *const words_methods[], *const words_exchanges[];

/* Is the part in the text? NULL says nothing. */
static inline bool words_have(const char *text, const char *part)
{
    return text && strstr(text, part);
}

/* Which layers are recomputed, and in which units, by s->method and s->unit, and back. */
void words_read_recompute(struct setup *s);
void words_write_recompute(struct setup *s);
/* Buckets in elements, and the flags of the type of numbers. STATUS_UNSUPPORTED: a part of one. */
enum status words_write_types(struct setup *s) MUST_CHECK;

/* STATUS_UNSUPPORTED: the schedule is not the one that follows from the chunks, or interleaved
 * stages have microbatches that are no multiple of the pipeline. */
enum status words_check_schedule(const struct setup *s) MUST_CHECK;
/* STATUS_UNSUPPORTED: sums of another width than that of numbers, other than sums of gradients of
 * 32 bits beside numbers of 16. */
enum status words_check_sums(const struct setup *s) MUST_CHECK;
/* The frameworks' offload is a part of ZeRO: a replica alone gets ZeRO 1, which shards nothing
 * there. STATUS_UNSUPPORTED: something else on the host than the optimizer's state, or that without
 * ZeRO. */
enum status words_write_offload(struct setup *s) MUST_CHECK;
/* The first lines of a shell script. */
void words_write_head(const struct setup *s, const char *title, FILE *out);
/* torchrun's own arguments, LAUNCH_ARGS of a shell script; on several nodes the script wants
 * NODE_RANK and MASTER_ADDR and says so. */
void words_write_launch(const struct setup *s, FILE *out);

/* STATUS_UNSUPPORTED: stages of a replica on neighbours. */
enum status words_check_order(const struct setup *s) MUST_CHECK;

#endif
