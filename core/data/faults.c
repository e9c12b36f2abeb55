/* Faults of links and ranks: reading what the command line says of them. */
#include "core/data/faults.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/text.h"
#include "core/base/units.h"

enum { PART = 256 };
static const char link_prefix[] = "link:";

/* What a part of a list should look like. */
static enum status malformed(enum fault_kind kind, const char *part)
{
    static const char *const form[] = {[FAULT_FAIL] = "LINK@TIME such as spine@0.1s",
                                       [FAULT_SLOW] = "link:NAME=FACTOR@TIME, FACTOR at least 1, "
                                                      "such as link:spine=2@0.1s",
                                       [FAULT_KILL] = "RANK@TIME such as 3@0.1s"};
    return error_set(STATUS_USAGE, "got '%.60s', expected %s", part, form[kind]);
}

/* Seconds with their unit, or without as everywhere in this option. */
static bool parse_time(const char *text, double *out)
{
    if (text_real(text, out) && *out >= 0 && *out < faults_never_s)
        return true;
    return units_parse(UNIT_SECONDS, text, out) == STATUS_OK && *out < faults_never_s;
}

/* Take one part to pieces, in place. */
static bool faults_split_text(enum fault_kind kind, char *part, struct fault *f)
{
    char *at = strrchr(part, '@');
    if (!at || !parse_time(at + 1, &f->at_s))
        return false;
    *at = '\0';
    f->factor = 1;
    f->name = part;
    if (kind == FAULT_SLOW) {
        char *equals = strrchr(part, '=');
        if (strncmp(part, link_prefix, sizeof link_prefix - 1) != 0 || !equals)
            return false;
        *equals = '\0';
        f->name = part + sizeof link_prefix - 1;
        if (!text_real(equals + 1, &f->factor) || !(f->factor >= 1 && f->factor <= 1e6))
            return false;
    }
    return f->name[0] != '\0';
}

/* Add one part of the list, text[n]. */
static enum status faults_add_one(struct faults *out, enum fault_kind kind, const char *text,
                                  size_t n)
{
    char part[PART], copy[PART];
    struct fault f = {.kind = kind};
    snprintf(part, sizeof part, "%.*s", (int)(n < PART ? n : PART), text);
    memcpy(copy, part, sizeof copy);
    if (n >= PART || !faults_split_text(kind, copy, &f))
        return malformed(kind, part);
    PASS(ARRAY_ROOM(out->fault, out->n));
    const char *name = f.name;
    f.name = NULL;
    PASS(text_copy(name, &f.name));
    out->fault[out->n++] = f;
    return STATUS_OK;
}

enum status faults_add(struct faults *out, enum fault_kind kind, const char *list)
{
    enum status st;
    size_t before = out->n;
    for (;;) {
        size_t n = strcspn(list, ",");
        TRY(faults_add_one(out, kind, list, n));
        if (!list[n])
            break;
        list += n + 1;
    }
out:
    while (st != STATUS_OK && out->n > before)
        free(out->fault[--out->n].name);
    return st;
}

/* Sort the parts into two lists by their prefix, and read the one for links. */
enum status faults_take_slow(struct faults *out, const char *list, char **rest)
{
    enum status st;
    size_t room = strlen(list) + 1, links = 0, others = 0;
    char *kept = NULL, *taken = NULL;
    TRY(ARRAY_NEW(kept, room));
    TRY(ARRAY_NEW(taken, room));
    for (const char *part = list;; part++) {
        size_t n = strcspn(part, ",");
        bool link = !strncmp(part, link_prefix, sizeof link_prefix - 1);
        char *to = link ? taken : kept;
        size_t *length = link ? &links : &others;
        if (*length > 0)
            to[(*length)++] = ',';
        memcpy(to + *length, part, n);
        *length += n;
        part += n;
        if (!*part)
            break;
    }
    taken[links] = kept[others] = '\0';
    if (links > 0)
        TRY(faults_add(out, FAULT_SLOW, taken));
    *rest = others > 0 || links == 0 ? kept : NULL;
    kept = *rest ? NULL : kept;
out:
    free(kept);
    free(taken);
    return st;
}

bool faults_of_links(const struct faults *f)
{
    for (size_t k = 0; f && k < f->n; k++)
        if (f->fault[k].kind != FAULT_KILL)
            return true;
    return false;
}

enum status faults_rank(const struct fault *f, const struct program *p, uint32_t *rank)
{
    uint64_t number;
    for (uint32_t r = 0; r < p->ranks; r++)
        if (!strcmp(p->rank[r].name, f->name)) {
            *rank = r;
            return STATUS_OK;
        }
    if (!text_count(f->name, UINT32_MAX, &number) || number >= p->ranks)
        return error_set(STATUS_USAGE,
                         "--kill: unknown device or rank '%s', expected a device of the plan or a "
                         "rank below %zu",
                         f->name, p->ranks);
    *rank = (uint32_t)number;
    return STATUS_OK;
}

/* The op that begins first of those that end at `never` or later, p->ops when there is none. */
static size_t first_beyond(const struct program *p, const struct timeline *t, size_t first,
                           size_t end, double never_s)
{
    size_t best = p->ops;
    for (size_t i = first; i < end; i++)
        if (t->end_s[i] > never_s && (best == p->ops || t->start_s[i] < t->start_s[best]))
            best = i;
    return best;
}

static uint32_t faults_rank_of(const struct program *p, size_t op)
{
    uint32_t r = 0;
    while (p->op_start[r + 1] <= op)
        r++;
    return r;
}

/* The same of a whole program: a message that never arrives is its sender's. */
static size_t first_lost(const struct program *p, const struct timeline *t)
{
    size_t op = first_beyond(p, t, 0, p->ops, faults_never_s);
    return op < p->ops && p->op[op].kind == OP_RECV ? p->op[op].match : op;
}

static enum status outcome_of(const struct fault *f, const struct program *p,
                              const struct timeline *t)
{
    enum status st = STATUS_OK;
    char label[OP_LABEL], at[UNITS_TEXT];
    uint32_t rank;
    size_t op;
    units_print(UNIT_SECONDS, f->at_s, at);
    if (f->kind == FAULT_FAIL) {
        op = first_lost(p, t);
        if (op < p->ops)
            st = error_set(STATUS_EXTERNAL, "link %s failed at %s: %s of rank %u cannot finish",
                           f->name, at, op_label(&p->op[op], label), faults_rank_of(p, op));
    } else if (f->kind == FAULT_KILL) {
        TRY(faults_rank(f, p, &rank));
        op = first_beyond(p, t, p->op_start[rank], p->op_start[rank + 1], f->at_s);
        if (op < p->ops)
            st = error_set(STATUS_EXTERNAL, "rank %u (%s) was killed at %s, before the end of %s",
                           rank, p->rank[rank].name, at, op_label(&p->op[op], label));
    }
out:
    return st;
}

enum status faults_outcome(const struct faults *f, const struct program *p,
                           const struct timeline *t)
{
    enum status st = STATUS_OK;
    for (size_t k = 0; k < f->n && st == STATUS_OK; k++)
        st = outcome_of(&f->fault[k], p, t);
    return st;
}

void faults_free(struct faults *f)
{
    for (size_t k = 0; k < f->n; k++)
        free(f->fault[k].name);
    free(f->fault);
    *f = (struct faults){0};
}
