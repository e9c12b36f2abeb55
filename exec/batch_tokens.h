/* batch_tokens.h - the training data of a run as a file, so that other programs can train on them.
 *
 * 32-bit little-endian integers: [steps][microbatches][2][microbatch size][tokens], first the
 * tokens of a microbatch and then its targets, -1 where nothing is predicted. */
#ifndef EXEC_BATCH_TOKENS_H
#define EXEC_BATCH_TOKENS_H

#include <stddef.h>
#include <stdint.h>

#include "core/data/model.h"
#include "core/data/program.h"

/* Steps `first` and later, `steps` of them. text: file, NULL: the shipped one. STATUS_INVALID when
 * the model reads no tokens, STATUS_IO, STATUS_NOMEM. */
enum status batch_tokens_write(const struct model *m, const struct program *p, const char *text,
                               uint32_t first, size_t steps, const char *path) MUST_CHECK;

#endif
