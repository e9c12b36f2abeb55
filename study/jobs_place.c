/* Where jobs run: devices packed, spread, or searched by exchanging them. A placement of all jobs
 * is one list of devices, job after job; the rest of the list are free ones. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/random.h"
#include "core/lower/lower.h"
#include "study/jobs.h"

const char *jobs_place_word(size_t i)
{
    static const char *const words[] = {"packed", "spread", "search", NULL};
    return words[i];
}

struct jobs_placing {
    struct jobs *js;
    size_t slots, devices;
    size_t *first;  /* [jobs + 1] slots of each: a device of its own, in ascending order */
    uint32_t *slot; /* [room] of every device of every stage of every job */
    size_t room;
    uint32_t *own;   /* [devices] what the plans say: the slots' devices, then free ones */
    uint32_t *best;  /* [devices] likewise */
    double *alone_s; /* [jobs] on the plans' own devices */
    double least;    /* sum of together over alone of the best */
};

/* Plans go to the devices of a list, and are lowered. */
static enum status jobs_move(struct jobs_placing *s, const uint32_t *to)
{
    const uint32_t *slot = s->slot;
    for (size_t k = 0; k < s->js->n; k++) {
        struct loaded_plan *p = &s->js->job[k].p;
        for (size_t i = 0; i < p->plan.stages; i++)
            for (size_t d = 0; d < p->plan.stage[i].devices; d++)
                p->plan.stage[i].device[d] = to[*slot++];
        program_free(&p->program);
        PASS(plan_lower(&p->plan, &p->model, s->js->topology, &p->program));
    }
    return STATUS_OK;
}

/* Devices in the order of the platform, or all of them dealt to the jobs in turn, evenly. */
static void jobs_deal(const struct jobs_placing *s, bool spread, uint32_t *to, bool *taken)
{
    size_t at = 0, last = s->slots;
    memset(taken, 0, s->devices * sizeof *taken);
    for (size_t i = 0; at < s->slots; i++) /* the i-th device of each job */
        for (size_t k = 0; k < s->js->n; k++)
            if (s->first[k] + i < s->first[k + 1]) {
                size_t d = spread ? at * s->devices / s->slots : s->first[k] + i;
                to[s->first[k] + i] = (uint32_t)d;
                taken[d] = true;
                at++;
            }
    for (uint32_t d = 0; d < s->devices; d++)
        if (!taken[d])
            to[last++] = d;
}

/* Take `to` if it is the best so far. */
static enum status jobs_try(struct jobs_placing *s, const uint32_t *to)
{
    double sum = 0;
    PASS(jobs_move(s, to));
    PASS(jobs_run(s->js));
    for (size_t k = 0; k < s->js->n; k++)
        sum += s->js->job[k].together_s / s->alone_s[k];
    if (sum < s->least * (1 - 1e-9)) {
        s->least = sum;
        memcpy(s->best, to, s->devices * sizeof *to);
    }
    return STATUS_OK;
}

/* Exchange two entries of the best list, one of which is a job's. */
static enum status jobs_climb(struct jobs_placing *s, size_t tries, uint64_t seed, uint32_t *to)
{
    for (size_t k = 0; k < tries && s->devices > 1; k++) {
        size_t a = random_next(&seed) % s->slots, b = random_next(&seed) % s->devices;
        if (a == b)
            continue;
        memcpy(to, s->best, s->devices * sizeof *to);
        to[a] = s->best[b];
        to[b] = s->best[a];
        PASS(jobs_try(s, to));
    }
    return STATUS_OK;
}

static enum status jobs_place_search(struct jobs_placing *s, bool given, size_t tries,
                                     uint64_t seed, uint32_t *to, bool *taken)
{
    const struct engine *judge = s->js->engine;
    s->js->engine = engine_quick();
    s->least = INFINITY;
    for (size_t k = 0; k < s->js->n; k++)
        s->alone_s[k] = s->js->job[k].alone_s;
    if (given)
        PASS(jobs_try(s, s->own));
    for (int spread = 0; spread < 2; spread++) {
        jobs_deal(s, spread, to, taken);
        PASS(jobs_try(s, to));
    }
    PASS(jobs_climb(s, tries, seed, to));
    s->js->engine = judge;
    return jobs_move(s, s->best);
}

/* The slots of a job; devices that jobs share are in several lists, *valid: none is. */
static enum status job_take_slots(struct jobs_placing *s, size_t k, size_t *at, bool *taken,
                                  bool *valid)
{
    const struct plan *p = &s->js->job[k].p.plan;
    size_t n = 0, all = 0;
    uint32_t *number;
    PASS(ARRAY_NEW(number, s->devices)); /* + 1; 0: not of this job */
    for (size_t i = 0; i < p->stages; i++)
        for (size_t d = 0; d < p->stage[i].devices; d++, all++)
            number[p->stage[i].device[d]] = 1;
    for (uint32_t d = 0; d < s->devices; d++) {
        if (number[d] == 0)
            continue;
        if (s->first[k] + n < s->devices)
            s->own[s->first[k] + n] = d;
        number[d] = (uint32_t)(s->first[k] + n++);
        *valid &= !taken[d];
        taken[d] = true;
    }
    enum status st = ARRAY_RESERVE(s->slot, *at + all, s->room);
    for (size_t i = 0; i < p->stages && st == STATUS_OK; i++)
        for (size_t d = 0; d < p->stage[i].devices; d++)
            s->slot[(*at)++] = number[p->stage[i].device[d]];
    s->first[k + 1] = s->first[k] + n;
    free(number);
    return st;
}

static enum status jobs_place_open(struct jobs_placing *s, bool *taken, bool *valid)
{
    size_t at = 0, n = s->js->n;
    *valid = true;
    PASS(ARRAY_NEW(s->first, n + 1));
    PASS(ARRAY_NEW(s->alone_s, n));
    PASS(ARRAY_NEW(s->own, s->devices));
    PASS(ARRAY_NEW(s->best, s->devices));
    for (size_t k = 0; k < n; k++)
        PASS(job_take_slots(s, k, &at, taken, valid));
    s->slots = s->first[n];
    if (s->slots > s->devices)
        return error_set(STATUS_INVALID,
                         "the jobs need %zu devices together, but platform %s has %zu", s->slots,
                         s->js->topology->name, s->devices);
    for (uint32_t d = 0, to = (uint32_t)s->slots; d < s->devices && to < s->devices; d++)
        if (!taken[d])
            s->own[to++] = d;
    return STATUS_OK;
}

enum status jobs_place(struct jobs *js, const char *how, size_t tries, uint64_t seed)
{
    enum status st;
    struct jobs_placing s = {.js = js, .devices = js->topology->n};
    uint32_t *to = NULL;
    bool *taken = NULL, valid = false;
    TRY(ARRAY_NEW(to, s.devices));
    TRY(ARRAY_NEW(taken, s.devices));
    TRY(jobs_place_open(&s, taken, &valid));
    if (!strcmp(how, "search")) {
        TRY(jobs_place_search(&s, valid, tries, seed, to, taken));
    } else {
        jobs_deal(&s, !strcmp(how, "spread"), to, taken);
        TRY(jobs_move(&s, to));
    }
out:
    free(s.first);
    free(s.slot);
    free(s.own);
    free(s.best);
    free(s.alone_s);
    free(to);
    free(taken);
    return st;
}
