/* toy.h - hand-made programs, rank by rank and op by op, for tests of the executor. */
#ifndef TESTS_TOY_H
#define TESTS_TOY_H

#include "core/data/model.h"
#include "core/data/program.h"

/* Start an empty program whose groups are group[0 .. groups), member lists ending in UINT32_MAX. */
void toy_begin(struct program *p, size_t groups, const uint32_t *const *group);
/* Begin the next rank: stage number = rank number. */
void toy_rank(struct program *p);
/* Append an op to the current rank; dep: indices ending in UINT32_MAX, or NULL. Returns its index.
 */
uint32_t toy_op(struct program *p, struct program_op op, const uint32_t *dep);
/* Sentinel, matching and stages; stops the test when something does not match. */
void toy_finish(struct program *p);

/* Append SEND or RECV number `tag` of `bytes` bytes. */
uint32_t toy_send(struct program *p, uint32_t to, uint32_t tag, int64_t bytes, const uint32_t *dep);
uint32_t toy_recv(struct program *p, uint32_t from, uint32_t tag, int64_t bytes);

/* Append a collective on n floats over a group. */
uint32_t toy_collective(struct program *p, enum op_kind kind, uint32_t group, size_t n);

/* A pipeline of `ranks` stages, GPipe with `microbatches`, boundary tensors of `bytes`, every op
 * taking `seconds`; with `reduce`, all ranks all-reduce `bytes` bytes before their UPDATE. */
void toy_pipeline(struct program *p, uint32_t ranks, uint32_t microbatches, int64_t bytes,
                  double seconds, bool reduce);

/* A chain of `ops` ops of unknown kind "toy". */
void toy_model(struct model *m, uint32_t ops);

#endif
