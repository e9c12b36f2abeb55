#include "tests/strategy_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "exec/device/sharded/sharded.h"
#include "exec/executor.h"
#include "tests/cmocka.h"

/* What a rank has of the parameters, put where it is in the whole. */
static void show(struct trained *t, const struct sharded *s)
{
    for (uint32_t k = 0; k < s->all->tensors; k++) {
        const struct operand *own = &s->slot[0][k].own;
        if (!s->shared[k])
            continue;
        for (size_t i = 0; i < own->view.n; i++)
            t->parameter[k][view_index(&own->view, i)] = own->value[i];
    }
}

static struct trained *trained_of(const struct actor *a)
{
    return (struct trained *)((char *)a->mesh - offsetof(struct trained, mesh));
}

static const struct transport *transport_of(const struct actor *a)
{
    return a->mesh->transport ? a->mesh->transport : &transport_tcp;
}

/* The device first, as workers do: it chooses the GPU. */
static enum status open_device(struct actor *a)
{
    struct trained *t = trained_of(a);
    const struct transport *over = transport_of(a);
    const struct device_options options = {
        .learning_rate = t->rate, .part = over->part, .direct = over->device_memory};
    void **self = &t->self[a->rank];
    PASS(t->device->open(NULL, &a->mesh->program, a->rank, &options, self));
    if (t->device->clock)
        a->mesh->r[a->rank].clock = t->device->clock(*self);
    return STATUS_OK;
}

static enum status train_rank(struct actor *a, void *transport_self)
{
    enum status st;
    struct trained *t = trained_of(a);
    struct executor_step step = {0};
    struct executor e = {.program = &a->mesh->program,
                         .rank = a->rank,
                         .device = t->device,
                         .device_self = t->self[a->rank],
                         .transport = transport_of(a),
                         .transport_self = transport_self,
                         .timeout_s = patience_s};
    TRY(executor_supports(e.program));
    TRY(executor_step_init(&step, e.program, a->rank));
    for (uint32_t k = 0; k < a->steps; k++) {
        TRY(executor_run(&e, k, &step));
        pthread_mutex_lock(&t->mutex);
        t->loss[k] += step.loss;
        pthread_mutex_unlock(&t->mutex);
    }
    TRY(executor_finish(&e));
    pthread_mutex_lock(&t->mutex);
    if (t->device == &device_sharded)
        show(t, e.device_self);
    pthread_mutex_unlock(&t->mutex);
out:
    executor_step_free(&step);
    t->device->close(e.device_self);
    return st;
}

void train(struct drawn *d, const struct device *on, const struct transport *over, double rate,
           size_t steps, struct trained *t)
{
    struct actor actors[MESH_RANKS] = {{0}};
    const struct operators *o = &d->plan.operators;
    *t = (struct trained){.mesh = {.transport = over, .prepare = open_device},
                          .device = on,
                          .tensors = o->tensors,
                          .rate = rate};
    MOVE(&t->mesh.program, d->program);
    pthread_mutex_init(&t->mutex, NULL);
    for (size_t i = 0; i < o->nodes; i++)
        if (!strcmp(o->node[i].kind, "parameter") || !strcmp(o->node[i].kind, "mask")) {
            size_t n = view_of(&o->tensor[o->node[i].made], FORM_FULL, 1, 0).n;
            assert_int_equal(ARRAY_NEW(t->parameter[o->node[i].made], n), STATUS_OK);
        }
    play_all(&t->mesh, actors, train_rank, steps);
    mesh_close(&t->mesh);
}

void forget(struct trained *t)
{
    for (size_t k = 0; k < t->tensors; k++)
        free(t->parameter[k]);
    pthread_mutex_destroy(&t->mutex);
}

double losses_apart(const struct trained *a, const struct trained *b, size_t steps)
{
    double most = 0, size = 0;
    for (size_t k = 0; k < steps; k++) {
        most = fmax(most, fabs(a->loss[k] - b->loss[k]));
        size = fmax(size, fabs(a->loss[k]));
    }
    return most / size;
}
