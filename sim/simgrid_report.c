/* Reads the result of a simulation in the engine's own format. */
#include "sim/simgrid_report.h"

#include "core/array.h"

#include <stdlib.h>
#include <string.h>

/* What is left to read of the stream; a read that would pass its end takes nothing. */
struct cursor {
    const unsigned char *at;
    size_t left;
};

/* Take n bytes; false, and nothing is taken, when there are fewer. */
static bool take(struct cursor *c, void *out, size_t n)
{
    if (c->left < n)
        return false;
    memcpy(out, c->at, n);
    c->at += n;
    c->left -= n;
    return true;
}

/* n records of a link each. Lengths are checked against what is left before memory is taken. */
static enum status parse_links(struct cursor *c, size_t n, struct simulation *out)
{
    PASS(ARRAY_NEW(out->link, n + 1));
    for (size_t k = 0; k < n; k++) {
        struct simgrid_link r;
        if (!take(c, &r, sizeof r) || r.name_length > c->left)
            return error_set(STATUS_EXTERNAL, "SimGrid's result is incomplete");
        char *name = malloc(r.name_length + 1);
        if (!name)
            return error_set(STATUS_NOMEM, "%zu links", n);
        take(c, name, r.name_length);
        name[r.name_length] = '\0';
        out->link[out->links++] = (struct measured_link){name, r.bytes, r.busy_fraction};
    }
    return STATUS_OK;
}

enum status simgrid_parse(const struct child_output *output, size_t ops, struct simulation *out)
{
    enum status st;
    struct simulation result = {0};
    struct simgrid_header h;
    struct cursor c = {output->data, output->length};
    TRY(timeline_init(&result.timeline, ops));
    if (!take(&c, &h, sizeof h) || !take(&c, result.timeline.start_s, ops * sizeof(double)) ||
        !take(&c, result.timeline.end_s, ops * sizeof(double)) || h.links > c.left)
        FAIL(STATUS_EXTERNAL, "SimGrid's result is incomplete");
    result.cpu_s = h.cpu_s;
    result.messages = h.messages;
    TRY(parse_links(&c, h.links, &result));
    MOVE(out, result);
out:
    simulation_free(&result);
    return st;
}
