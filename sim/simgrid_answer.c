/* The result of a simulation through a pipe: times of all ops, then what the links carried. */
#include "sim/simgrid_answer.h"

#include "core/base/array.h"
#include "sim/bytes.h"

static const char what[] = "result";

/* The number of ops is known at both ends. */
static enum status simgrid_answer_pass(struct byte_stream *b, void *object)
{
    struct simulation *s = object;
    PASS(BYTES_VALUE(b, s->cpu_s));
    PASS(BYTES_VALUE(b, s->messages));
    PASS(BYTES_ARRAY(b, s->timeline.start_s, s->timeline.n));
    PASS(BYTES_ARRAY(b, s->timeline.end_s, s->timeline.n));
    PASS(bytes_count(b, 1, &s->links));
    PASS(BYTES_ROOM(b, s->link, s->links));
    for (size_t k = 0; k < s->links; k++) {
        PASS(bytes_text(b, &s->link[k].name));
        PASS(BYTES_VALUE(b, s->link[k].bytes));
        PASS(BYTES_VALUE(b, s->link[k].busy_fraction));
    }
    return STATUS_OK;
}

enum status simgrid_send(const struct simulation *s, int fd)
{
    struct simulation sent = *s;
    return bytes_send(what, simgrid_answer_pass, &sent, fd);
}

enum status simgrid_parse(const struct child_output *output, size_t ops, struct simulation *out)
{
    enum status st;
    struct simulation s = {.timeline.n = ops};
    TRY(bytes_receive(what, simgrid_answer_pass, &s, output->data, output->length));
    MOVE(out, s);
out:
    simulation_free(&s);
    return st;
}
