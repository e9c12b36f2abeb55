/* strategy_run.h - drawn strategies executed: ranks that are threads, on a real device over a real
 * transport. */
#ifndef TESTS_STRATEGY_RUN_H
#define TESTS_STRATEGY_RUN_H

#include "exec/device.h"
#include "papers/hidup/models.h"
#include "tests/mesh.h"
#include "tests/strategy.h"

enum { MOST_STEPS = 300 };

/* What training has left: losses, and, on device_sharded, all parameters of every tensor. */
struct trained {
    struct mesh mesh;
    pthread_mutex_t mutex;
    const struct device *device;
    void *self[MESH_RANKS];
    double rate; /* of learning */
    double loss[MOST_STEPS];
    size_t tensors;
    float *parameter[SPMD_NODES]; /* NULL: of tensors that are none */
};

/* Train so many steps; the program becomes the mesh's, which frees it. Ends the test on failure. */
void train(struct drawn *d, const struct device *on, const struct transport *over, double rate,
           size_t steps, struct trained *t);
void forget(struct trained *t);
/* Largest difference of a loss, of what the losses are at most. */
double losses_apart(const struct trained *a, const struct trained *b, size_t steps);

#endif
