/* Perturbed programs: compute times with jitter, and of slow devices, ranks and stages. */
#include "core/data/perturb.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/random.h"
#include "core/base/text.h"

static const double two_pi = 6.283185307179586;

/* ---- what is asked for */

enum status perturbation_parse_jitter(const char *text, double *out)
{
    char *end;
    double value = strtod(text, &end);
    if (end != text && !strcmp(end, "%"))
        value /= 100;
    else if (end == text || *end)
        value = NAN;
    if (!(value >= 0 && value <= 1))
        return error_set(STATUS_USAGE, "got '%.40s', expected a share such as 5%% or 0.05", text);
    *out = value;
    return STATUS_OK;
}

/* One "NAME=FACTOR" of `length` characters. */
static enum status perturbation_add_factor(struct perturbation *out, const char *text,
                                           size_t length)
{
    size_t name = length;
    while (name > 0 && text[name - 1] != '=')
        name--;
    char number[64] = "";
    if (length - name < sizeof number)
        memcpy(number, text + name, length - name);
    double factor;
    if (name < 2 || !text_real(number, &factor) || !(factor > 0))
        return error_set(STATUS_USAGE, "got '%.*s', expected NAME=FACTOR such as r0n0g1=1.3",
                         length < 60 ? (int)length : 60, text);
    name--;
    for (size_t k = 0; k < out->n; k++)
        if (strlen(out->slow[k].name) == name && !strncmp(out->slow[k].name, text, name))
            return error_set(STATUS_USAGE, "'%s' is given twice, with factors %g and %g",
                             out->slow[k].name, out->slow[k].factor, factor);
    char *copy;
    PASS(ARRAY_ROOM(out->slow, out->n));
    PASS(ARRAY_NEW(copy, name + 1));
    memcpy(copy, text, name);
    out->slow[out->n++] = (struct perturbation_slow){copy, factor};
    return STATUS_OK;
}

enum status perturbation_add_slow(struct perturbation *out, const char *list)
{
    enum status st;
    size_t before = out->n;
    for (;;) {
        size_t length = strcspn(list, ",");
        TRY(perturbation_add_factor(out, list, length));
        if (!list[length])
            break;
        list += length + 1;
    }
out:
    while (st != STATUS_OK && out->n > before)
        free(out->slow[--out->n].name);
    return st;
}

const char *perturbation_print(const struct perturbation *p, char text[PERTURBATION_TEXT])
{
    size_t n = 0;
    text[0] = '\0';
    if (p->jitter > 0)
        n = (size_t)snprintf(text, PERTURBATION_TEXT, "jitter %g %% (seed %llu)", 100 * p->jitter,
                             (unsigned long long)p->seed);
    for (size_t k = 0; k < p->n; k++) {
        char item[PERTURBATION_TEXT];
        const char *before = k > 0 ? ", " : n > 0 ? ", slowed: " : "slowed: ";
        snprintf(item, sizeof item, "%s%s x %g", before, p->slow[k].name, p->slow[k].factor);
        if (n + strlen(item) + sizeof ", ..." > PERTURBATION_TEXT) {
            snprintf(text + n, PERTURBATION_TEXT - n, ", ...");
            break;
        }
        n += (size_t)snprintf(text + n, PERTURBATION_TEXT - n, "%s", item);
    }
    return text;
}

void perturbation_free(struct perturbation *p)
{
    for (size_t k = 0; k < p->n; k++)
        free(p->slow[k].name);
    free(p->slow);
    *p = (struct perturbation){0};
}

/* ---- whom the factors are for */

/* Put the number of the factor (from 1) at what it is for: a rank or a stage. */
static enum status perturbation_assign_factor(const struct perturbation *by, size_t k,
                                              const struct program *p, uint32_t *of_rank,
                                              uint32_t *of_stage)
{
    static const char stage[] = "stage:";
    const char *name = by->slow[k].name;
    uint32_t *at = NULL;
    uint64_t id;
    for (size_t r = 0; r < p->ranks && !at; r++)
        if (!strcmp(p->rank[r].name, name))
            at = &of_rank[r];
    if (!at && p->ranks > 0 && text_count(name, p->ranks - 1, &id))
        at = &of_rank[id];
    if (!at && !strncmp(name, stage, sizeof stage - 1) && p->stages > 0 &&
        text_count(name + sizeof stage - 1, p->stages - 1, &id))
        at = &of_stage[id];
    if (!at)
        return error_set(STATUS_USAGE,
                         "unknown device, rank or stage '%s': expected a device of the plan, a "
                         "rank below %zu or stage:N with N below %zu",
                         name, p->ranks, p->stages);
    if (*at > 0)
        return error_set(STATUS_USAGE,
                         "'%s' and '%s' name the same rank, which takes only one factor",
                         by->slow[*at - 1].name, name);
    *at = (uint32_t)k + 1;
    return STATUS_OK;
}

/* ---- random numbers of what an op is */

static uint64_t perturbation_mix(uint64_t key, uint64_t value)
{
    return random_mix(key ^ (value + UINT64_C(0x9e3779b97f4a7c15)));
}

/* (0, 1), 53 bits */
static double unit(uint64_t bits)
{
    return ((double)(bits >> 11) + 0.5) * 0x1p-53;
}

/* Lognormal of mean 1 whose standard deviation is `jitter`: sigma^2 = ln(1 + jitter^2). The normal
 * deviate is Box & Muller's (1958). */
static double perturbation_factor(const struct perturbation *by, uint32_t device,
                                  const struct program_op *o)
{
    uint64_t key = perturbation_mix(random_mix(by->seed), device);
    key = perturbation_mix(key, (uint64_t)o->stage << 32 | o->microbatch);
    key = perturbation_mix(key, (uint64_t)o->tag << 16 | (uint64_t)o->kind << 8 | o->part);
    double normal = sqrt(-2 * log(unit(key))) * cos(two_pi * unit(perturbation_mix(key, 1)));
    double variance = log1p(by->jitter * by->jitter);
    return exp(sqrt(variance) * normal - variance / 2);
}

/* Factor of entry number - 1; 1 where there is none. */
static double slow_of(const struct perturbation *by, uint32_t number)
{
    return number > 0 ? by->slow[number - 1].factor : 1;
}

enum status perturb_program(const struct perturbation *by, struct program *p)
{
    enum status st;
    uint32_t *of_rank = NULL, *of_stage = NULL;
    TRY(ARRAY_NEW(of_rank, p->ranks));
    TRY(ARRAY_NEW(of_stage, p->stages));
    for (size_t k = 0; k < by->n; k++)
        TRY(perturbation_assign_factor(by, k, p, of_rank, of_stage));
    for (size_t r = 0; r < p->ranks && by->n > 1; r++)
        for (size_t i = p->op_start[r]; i < p->op_start[r + 1]; i++)
            if (op_computes(&p->op[i]) && of_rank[r] && of_stage[p->op[i].stage])
                FAIL(
                    STATUS_USAGE,
                    "'%s' and '%s' both apply to stage %u of rank %zu, which takes only one factor",
                    by->slow[of_rank[r] - 1].name, by->slow[of_stage[p->op[i].stage] - 1].name,
                    p->op[i].stage, r);
    for (size_t r = 0; r < p->ranks; r++)
        for (size_t i = p->op_start[r]; i < p->op_start[r + 1]; i++) {
            struct program_op *o = &p->op[i];
            if (!op_computes(o))
                continue;
            o->seconds *= slow_of(by, of_rank[r]) * slow_of(by, of_stage[o->stage]);
            if (by->jitter > 0)
                o->seconds *= perturbation_factor(by, p->rank[r].device, o);
        }
out:
    free(of_stage);
    free(of_rank);
    return st;
}
