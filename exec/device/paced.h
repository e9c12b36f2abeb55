/* paced.h - what the paced devices of the host (paced.c) and of a GPU (cuda/paced.c) have in
 * common: ops take their predicted time, messages and reductions are real but hold no numbers of
 * a model. */
#ifndef EXEC_DEVICE_PACED_H
#define EXEC_DEVICE_PACED_H

#include "exec/device.h"

/* Numbers in the largest collective of the rank: room for zeros, for whatever is reduced.
 * STATUS_INVALID: an op of negative size or of more than 1e9 s. */
enum status paced_room(const struct program *p, uint32_t rank, size_t *room) MUST_CHECK;

/* Every byte of a message: it names the microbatch and the direction, enough to tell messages
 * apart. */
static inline int paced_byte(const struct program_op *send)
{
    return (int)(send->microbatch & 0x7f) | (send->backward ? 0x80 : 0);
}

/* Functions of struct device that look at nothing of `self`. */
/* What numbers its collectives are of: gathers of the model's, sums of the program's. */
enum element paced_element(const struct program *p, const struct program_op *op);
enum status paced_put(void *self, const struct program_op *recv, const void *data) MUST_CHECK;
double paced_take_loss(void *self);                                                /* 0 */
enum status paced_digest(void *self, uint32_t op, uint8_t out[DIGEST]) MUST_CHECK; /* zeros */

#endif
