/* layer_call.h - one call of one layer with random operands, which forward() is compared with, and
 * where `real` is double backward() with central differences of the loss sum(r y), r random. */
#ifndef TESTS_LAYER_CALL_H
#define TESTS_LAYER_CALL_H

#include "core/data/model.h"
#include "exec/device/layer.h"

enum { CALL_B = 2, CALL_ROOM = 1 << 14 };

struct call {
    struct layer layer;
    struct layer_io io;
    real x[LAYER_INPUTS][CALL_ROOM], y[CALL_ROOM], saved[CALL_ROOM], work[CALL_ROOM];
    real parameter[CALL_ROOM], shared[CALL_ROOM], dy[CALL_ROOM], dx[LAYER_INPUTS][CALL_ROOM];
    real d_parameter[CALL_ROOM], d_shared[CALL_ROOM];
    int32_t token[CALL_ROOM], target[CALL_ROOM];
};

static const double step_width = 1e-5;

/* Relative where the numbers are of ordinary size, absolute for tiny ones. */
double error_of(double found, double expected);
/* CALL_B samples; the caller frees it. */
struct call *new_call(const struct model *m, uint32_t op);
/* Forward. */
double call_loss(struct call *c);
/* Worst error of backward() by parameters, what is borrowed and inputs, at most 200 numbers of
 * each. */
double worst_of_call(struct call *c);

#endif
