/* tiny.h - small models and hand-made programs for the tests of exec. */
#ifndef TESTS_TINY_H
#define TESTS_TINY_H

#include "core/data/model.h"
#include "core/data/program.h"

/* Shapes of all tiny models. */
enum { TINY_TOKENS = 6, TINY_CHANNELS = 8, TINY_HEADS = 2, TINY_VOCABULARY = 256 };
enum { TINY_OPS = 512 }; /* no tiny model has more */

/* Pre-LN decoder with `layers` blocks; tied: the head borrows the token table. */
enum status tiny_gpt(size_t layers, bool tied, struct model *out) MUST_CHECK;
/* Post-LN encoder with one block, segments, tied decoder with bias, masked-LM loss. */
enum status tiny_bert(struct model *out) MUST_CHECK;
/* Context window, [linear, gelu] twice, head. */
enum status tiny_mlp(struct model *out) MUST_CHECK;
/* An embedding with three readers, and a layernorm that nobody reads:
 * 0 embedding; 1 layernorm(0); 2 gelu(0); 3 residual(1, 2); 4 residual(0, 3); 5 linear(4);
 * 6 loss(5); 7 layernorm(3). */
enum status tiny_fan(struct model *out) MUST_CHECK;
/* Set attribute `name` of op `op`, which must have it. */
void tiny_set(struct model *m, uint32_t op, const char *name, int64_t value);
/* Let linear op `op` borrow the weight of the equal one `owner`; its bias stays its own. In a tiny
 * GPT the first layer of block i's MLP is op 7 + 10 i. */
void tiny_share(struct model *m, uint32_t op, uint32_t owner);

/* Stages of contiguous ops, for tiny_program(): the second, third and fourth begin at op a, b, c;
 * TINY_OPS: there is none. Returns stage_of. */
const uint32_t *tiny_cut(uint32_t stage_of[TINY_OPS], uint32_t a, uint32_t b, uint32_t c);
/* Program without ops: one rank per stage, op i of the model in stage stage_of[i], microbatches of
 * two samples, seed 1. */
enum status tiny_program(const struct model *m, size_t stages, const uint32_t *stage_of,
                         uint32_t microbatches, const char *optimizer,
                         struct program *out) MUST_CHECK;
/* The same with all ops in one stage. */
enum status tiny_whole(const struct model *m, uint32_t microbatches, const char *optimizer,
                       struct program *out) MUST_CHECK;

#endif
