/* Which modules of a captured script compute for how long, and behind which of them its ranks wait
 * for communication. */
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/intern.h"
#include "core/base/text.h"
#include "core/lower/captured.h"

/* What tells sites apart; no padding, as a record of an interner. */
struct site_key {
    uint32_t name, phase, kind, members;
};

struct sites_work {
    const struct capture *c;
    const struct program *p;
    const struct captured_map *map;
    const double *exposed_s; /* [ops of p] */
    struct interner name;    /* paths with '*' */
    struct interner key;     /* sites, in the measurement's order until it is sorted */
    uint32_t **name_of;      /* [classes] [modules] */
    uint32_t nowhere;        /* "" */
    struct measurement *out;
};

/* Layers that are alike are one: parts of the path that are numbers become '*', but for a first
 * one, which tells what a plain sequence consists of. out has room for `path`. */
static void generalise(const char *path, char *out)
{
    for (bool first = true; *path; first = false) {
        size_t n = strcspn(path, ".");
        if (!first && n > 0 && strspn(path, "0123456789") == n) {
            *out++ = '*';
        } else {
            memcpy(out, path, n);
            out += n;
        }
        path += n;
        if (*path)
            *out++ = *path++;
    }
    *out = '\0';
}

static enum status name_modules(struct sites_work *w, size_t class)
{
    const struct capture_class *c = &w->c->class[class];
    PASS(ARRAY_NEW(w->name_of[class], c->modules));
    for (size_t k = 0; k < c->modules; k++) {
        char *text;
        PASS(ARRAY_NEW(text, strlen(c->module[k]) + 1));
        generalise(c->module[k], text);
        enum status st = intern(&w->name, text, strlen(text) + 1, &w->name_of[class][k], NULL);
        free(text);
        PASS(st);
    }
    return STATUS_OK;
}

/* The site's row, made if it is new. */
static enum status site_of(struct sites_work *w, struct site_key key, struct measured_site **row)
{
    struct measurement *m = w->out;
    uint32_t k;
    bool fresh;
    PASS(intern(&w->key, &key, sizeof key, &k, &fresh));
    if (fresh) {
        PASS(ARRAY_ROOM(m->site, m->sites));
        m->site[m->sites++] = (struct measured_site){
            .phase = (uint8_t)key.phase, .kind = (uint8_t)key.kind, .members = key.members};
        PASS(text_copy((const char *)w->name.data + interned_at(&w->name, key.name),
                       &m->site[k].module));
    }
    *row = &m->site[k];
    return STATUS_OK;
}

/* An optimizer is in no module. */
static uint32_t module_of(const struct sites_work *w, size_t class, const struct capture_op *o)
{
    bool inside = o->kind == CAPTURE_COMPUTE && o->phase != IN_UPDATE;
    return inside ? w->name_of[class][o->module] : w->nowhere;
}

/* Entries from .. end - 1 of the class took `seconds` together, each its share of what `usual` says
 * they take. */
static enum status add_compute(struct sites_work *w, size_t class, size_t from, size_t end,
                               double seconds, const double *usual)
{
    const struct capture_class *c = &w->c->class[class];
    double sum = 0;
    for (size_t i = from; i < end; i++)
        sum += usual[i];
    for (size_t i = from; i < end; i++) {
        const struct capture_op *o = &c->op[i];
        struct measured_site *row;
        if (o->kind != CAPTURE_COMPUTE)
            continue;
        PASS(site_of(w, (struct site_key){module_of(w, class, o), o->phase, OP_COMPUTE, 0}, &row));
        row->calls++;
        row->seconds += sum > 0 ? seconds * (usual[i] / sum) : 0;
    }
    return STATUS_OK;
}

/* Op i of the program, which is communication issued behind entry `after` of the class. */
static enum status add_exposed(struct sites_work *w, size_t class, size_t after, size_t i)
{
    const struct program_op *op = &w->p->op[i];
    const struct capture_op *o = &w->c->class[class].op[after];
    bool message = !op_is_collective(op);
    struct site_key key = {.name = module_of(w, class, o),
                           .phase = o->kind == CAPTURE_COMPUTE ? o->phase : (uint32_t)IN_UPDATE,
                           .kind = message ? (uint32_t)OP_SEND : op->kind,
                           .members = 2};
    struct measured_site *row;
    if (!message)
        key.members = (uint32_t)(w->p->group_start[op->peer + 1] - w->p->group_start[op->peer]);
    PASS(site_of(w, key, &row));
    row->calls++;
    row->bytes += (double)op->bytes;
    row->seconds += w->exposed_s[i];
    return STATUS_OK;
}

/* The last operator before an entry; without one the last of the period, which comes before it in
 * the next. */
static size_t computed_before(const struct capture_class *c, size_t entry)
{
    size_t i = entry;
    while (i > 0 && c->op[i].kind != CAPTURE_COMPUTE)
        i--;
    if (c->op[i].kind != CAPTURE_COMPUTE)
        for (i = c->ops - 1; i > entry && c->op[i].kind != CAPTURE_COMPUTE;)
            i--;
    return i;
}

static enum status sites_of_rank(struct sites_work *w, uint32_t r, const double *usual)
{
    size_t class = w->c->class_of[r], end = w->p->op_start[r + 1];
    const struct capture_class *c = &w->c->class[class];
    if (!w->name_of[class])
        PASS(name_modules(w, class));
    for (size_t i = w->p->op_start[r]; i < end; i++) {
        size_t from = w->map->entry[i], to = i + 1 < end ? w->map->entry[i + 1] : c->ops;
        PASS(w->p->op[i].kind == OP_COMPUTE
                 ? add_compute(w, class, from, to, w->p->op[i].seconds, usual)
                 : add_exposed(w, class, computed_before(c, from), i));
    }
    return STATUS_OK;
}

/* Ties by what they are, so that the order is the same everywhere. */
static int most_seconds_first(const void *a, const void *b)
{
    const struct measured_site *x = a, *y = b;
    int names = strcmp(x->module, y->module);
    if (x->seconds != y->seconds)
        return x->seconds > y->seconds ? -1 : 1;
    if (names != 0)
        return names;
    if (x->phase != y->phase)
        return x->phase - y->phase;
    return x->kind != y->kind ? x->kind - y->kind
                              : (x->members > y->members) - (x->members < y->members);
}

enum status captured_sites(const struct capture *c, const struct topology *on,
                           const struct program *p, const struct captured_map *map,
                           const struct timeline *t, struct measurement *out)
{
    enum status st;
    double *exposed_s = NULL;
    struct sites_work w = {
        .c = c, .p = p, .map = map, .key.size = sizeof(struct site_key), .out = out};
    TRY(ARRAY_NEW(exposed_s, p->ops));
    TRY(ARRAY_NEW(w.name_of, c->classes));
    TRY(measurement_exposed_ops(p, t, exposed_s));
    TRY(intern(&w.name, "", 1, &w.nowhere, NULL));
    w.exposed_s = exposed_s;
    for (uint32_t r = 0; r < c->ranks; r++)
        TRY(sites_of_rank(
            &w, r, map->seconds[c->class_of[r] * on->types + on->type_of[p->rank[r].device]]));
    for (size_t k = 0; k < out->sites; k++) {
        out->site[k].calls /= (double)c->ranks;
        out->site[k].bytes /= (double)c->ranks;
        out->site[k].seconds /= (double)c->ranks;
    }
    if (out->sites > 0)
        qsort(out->site, out->sites, sizeof *out->site, most_seconds_first);
out:
    for (size_t k = 0; w.name_of && k < c->classes; k++)
        free(w.name_of[k]);
    free(w.name_of);
    free(exposed_s);
    interner_free(&w.name);
    interner_free(&w.key);
    return st;
}
