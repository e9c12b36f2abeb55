/* The host's memory: things happen when they are called, marks are not needed. */
#include <stdlib.h>
#include <string.h>

#include "exec/transport/local/local.h"

static enum status local_host_where(int *memory)
{
    *memory = 0;
    return STATUS_OK;
}

static enum status local_host_enter(int memory)
{
    (void)memory;
    return STATUS_OK;
}

static void *local_host_allocate(size_t bytes)
{
    return malloc(bytes + 1);
}

static void local_host_release(void *data)
{
    free(data);
}

static enum status local_host_new_mark(void **mark)
{
    *mark = NULL;
    return STATUS_OK;
}

static void local_host_free_mark(void *mark)
{
    (void)mark;
}

static enum status local_host_pass(void *mark)
{
    (void)mark;
    return STATUS_OK;
}

static enum status local_host_query(void *mark, bool *happened)
{
    (void)mark;
    *happened = true;
    return STATUS_OK;
}

static enum status local_host_copy(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
    return STATUS_OK;
}

static enum status local_host_reduce(enum element e, enum op_reduction how, void *y, const void *x,
                                     size_t n)
{
    element_reduce(e, how, y, x, n);
    return STATUS_OK;
}

static enum status local_host_end(const struct rounds_call *c, enum element e, void *data)
{
    rounds_end(c, e, data);
    return STATUS_OK;
}

const struct local_memory local_host = {
    .where = local_host_where,
    .enter = local_host_enter,
    .allocate = local_host_allocate,
    .release = local_host_release,
    .new_mark = local_host_new_mark,
    .free_mark = local_host_free_mark,
    .record = local_host_pass,
    .follow = local_host_pass,
    .look = local_host_query,
    .copy = local_host_copy,
    .reduce = local_host_reduce,
    .end = local_host_end,
};
