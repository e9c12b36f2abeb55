/* corpus.h - where tokens come from: the bytes of a text, cut into samples. A token is a byte. */
#ifndef EXEC_CORPUS_H
#define EXEC_CORPUS_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

enum { CORPUS_VOCABULARY = 256 }; /* tokens are 0 .. 255 */
enum { CORPUS_MASK = 0 };         /* token that stands for a masked one; no text contains it */

struct corpus {
    const unsigned char *text; /* [n] malloc'd by corpus_read() */
    size_t n;
};

/* The text shipped with foreline (exec/data/README.md). */
const struct corpus *corpus_shipped(void);
/* Any file. STATUS_IO (also when it is empty), STATUS_NOMEM. */
enum status corpus_read(const char *path, struct corpus *out) MUST_CHECK;
void corpus_free(struct corpus *c); /* accepts {0}; leaves {0}; not for corpus_shipped() */

enum objective {
    OBJECTIVE_NEXT,   /* every token predicts the one after it: tokens targets per sample */
    OBJECTIVE_MASKED, /* max(1, round(0.15 tokens)) tokens are hidden and predicted (BERT) */
    OBJECTIVE_LAST,   /* the token after the sample is predicted: one target per sample */
};

struct batch_shape {
    enum objective objective;
    size_t samples, tokens; /* both >= 1 */
};

/* Targets that count, per sample. */
size_t batch_targets(const struct batch_shape *s);
/* STATUS_INVALID unless the corpus is longer than a sample. */
enum status batch_check(const struct corpus *c, const struct batch_shape *s) MUST_CHECK;

/* The data of one microbatch, the same on whichever rank asks for it.
 *
 *   token    [samples][tokens] out
 *   target   [samples][tokens] out, [samples] for OBJECTIVE_LAST; -1 where nothing is predicted
 *
 * A sample starts at a uniformly random byte; the text goes round. batch_check() must have passed.
 * Depends on (text, shape, seed, step, microbatch) only. O(samples x tokens).
 * Masked positions: selection sampling, Knuth, TAOCP 2, 3.4.2, algorithm S; all of them become
 * CORPUS_MASK (Devlin et al. 2019 leave a fifth of them visible or random: not done). */
void batch_fill(const struct corpus *c, const struct batch_shape *s, uint64_t seed, uint32_t step,
                uint32_t microbatch, int32_t *token, int32_t *target);

#endif
