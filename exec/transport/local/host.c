/* The host's memory: things happen when they are called, marks are not needed. */
#include <stdlib.h>
#include <string.h>

#include "exec/transport/local/local.h"

static enum status where(int *memory)
{
    *memory = 0;
    return STATUS_OK;
}

static enum status enter(int memory)
{
    (void)memory;
    return STATUS_OK;
}

static void *allocate(size_t bytes)
{
    return malloc(bytes + 1);
}

static void release(void *data)
{
    free(data);
}

static enum status new_mark(void **mark)
{
    *mark = NULL;
    return STATUS_OK;
}

static void free_mark(void *mark)
{
    (void)mark;
}

static enum status pass(void *mark)
{
    (void)mark;
    return STATUS_OK;
}

static enum status look(void *mark, bool *happened)
{
    (void)mark;
    *happened = true;
    return STATUS_OK;
}

static enum status copy(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
    return STATUS_OK;
}

static enum status reduce(enum element e, enum op_reduction how, void *y, const void *x, size_t n)
{
    element_reduce(e, how, y, x, n);
    return STATUS_OK;
}

static enum status end(const struct rounds_call *c, enum element e, void *data)
{
    rounds_end(c, e, data);
    return STATUS_OK;
}

const struct local_memory local_host = {
    .where = where,
    .enter = enter,
    .allocate = allocate,
    .release = release,
    .new_mark = new_mark,
    .free_mark = free_mark,
    .record = pass,
    .follow = pass,
    .look = look,
    .copy = copy,
    .reduce = reduce,
    .end = end,
};
