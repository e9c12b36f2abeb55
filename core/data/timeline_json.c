/* A timeline as JSON columns: every number of an op in a list of its own. */
#include "core/data/timeline_json.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/array.h"
#include "core/base/json.h"
#include "core/data/program_check.h"

/* ---- ranks */

static void put_rank(struct json_writer *w, const struct program *p, uint32_t r)
{
    const struct program_rank *rank = &p->rank[r];
    json_open_object(w, NULL, true);
    json_put_string(w, "name", rank->name);
    json_put_integer(w, "stage", rank->stage);
    json_put_integer(w, "first", (int64_t)p->op_start[r]);
    json_put_integer(w, "static_bytes", program_static_bytes(rank));
    json_put_integer(w, "scratch_bytes", rank->scratch_bytes);
    json_close(w);
}

/* As measurement_unfold() has them: stage by stage, the ranks of each alike with one simulated. */
static void put_stood_for(struct json_writer *w, const struct program *p)
{
    json_open_array(w, "of", true);
    for (uint32_t r = 0; r < p->ranks; r += p->folded ? p->copies.classes : 1) {
        const struct program_stage *s = &p->stage[p->rank[r].stage];
        uint32_t all = p->folded ? s->replicas * s->tensor_parallel : 1;
        for (uint32_t k = 0; k < all; k++)
            json_put_integer(w, NULL,
                             r + (p->folded ? p->copies.class_of[k / s->tensor_parallel] : 0));
    }
    json_close(w);
}

/* ---- ops */

enum timeline_column {
    COLUMN_KIND,
    COLUMN_PURPOSE,
    COLUMN_STAGE,
    COLUMN_MICROBATCH,
    COLUMN_START,
    COLUMN_DURATION,
    COLUMN_BYTES,
    COLUMN_PEER,
    COLUMN_MATCH,
    COLUMNS
};
static const char *const column_name[COLUMNS] = {
    "kind", "purpose", "stage", "microbatch", "start", "duration", "bytes", "peer", "match"};

static int64_t nanoseconds(double s)
{
    return (int64_t)llround(s * 1e9);
}

static int64_t column_value(const struct program *p, const struct timeline *t, size_t i,
                            enum timeline_column column)
{
    const struct program_op *o = &p->op[i];
    bool pairs = op_is_message(o) || op_is_collective(o);
    switch (column) {
    case COLUMN_KIND:
        return o->kind;
    case COLUMN_PURPOSE:
        return o->purpose;
    case COLUMN_STAGE:
        return o->stage;
    case COLUMN_MICROBATCH:
        return o->microbatch == PROGRAM_NONE ? -1 : (int64_t)o->microbatch;
    case COLUMN_START:
        return nanoseconds(t->start_s[i]);
    case COLUMN_DURATION:
        return nanoseconds(t->end_s[i]) - nanoseconds(t->start_s[i]);
    case COLUMN_BYTES:
        return o->bytes * (op_is_collective(o) ? o->count : 1);
    case COLUMN_PEER:
        return op_is_message(o) ? (int64_t)o->peer : -1;
    case COLUMN_MATCH:
        return pairs && o->match != PROGRAM_NONE ? (int64_t)o->match : -1;
    default:
        return 0;
    }
}

static void put_words(struct json_writer *w)
{
    char label[OP_LABEL];
    json_open_array(w, "kinds", true);
    for (uint8_t k = 0; k < OP_KINDS; k++) {
        struct program_op o = {.kind = k, .microbatch = PROGRAM_NONE};
        json_put_string(w, NULL, op_label(&o, label) + (k != OP_COMPUTE)); /* behind the stage */
    }
    json_close(w);
    json_open_array(w, "purposes", true);
    for (size_t k = 0; k < OP_PURPOSES; k++)
        json_put_string(w, NULL, op_purpose_names[k]);
    json_close(w);
}

enum status timeline_put(const struct program *p, const struct timeline *t, FILE *to,
                         const struct provenance *by)
{
    int64_t *held;
    PASS(ARRAY_NEW(held, p->ops + 1));
    struct json_writer w = {.stream = to};
    json_put_header(&w, "foreline-timeline", 1, by);
    json_open_array(&w, "ranks", false);
    for (uint32_t r = 0; r < p->ranks; r++) {
        put_rank(&w, p, r);
        program_held(p, r, held + p->op_start[r]);
    }
    json_close(&w);
    put_stood_for(&w, p);
    put_words(&w);
    json_open_object(&w, "op", false);
    for (enum timeline_column k = 0; k < COLUMNS; k++) {
        json_open_array(&w, column_name[k], true);
        for (size_t i = 0; i < p->ops; i++)
            json_put_integer(&w, NULL, column_value(p, t, i, k));
        json_close(&w);
    }
    json_open_array(&w, "held", true);
    for (size_t i = 0; i < p->ops; i++)
        json_put_integer(&w, NULL, held[i]);
    json_close(&w);
    json_close(&w);
    json_close(&w);
    free(held);
    return STATUS_OK;
}
