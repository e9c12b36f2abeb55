/* Where jobs run: devices packed, spread, or searched by exchanging them. A placement of all jobs
 * is one list of devices, job after job; the rest of the list are free ones. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/random.h"
#include "core/lower/lower.h"
#include "study/jobs.h"

const char *const jobs_places[] = {"packed", "spread", "search", NULL};

const char *jobs_place_word(size_t i)
{
    return jobs_places[i];
}

/* Devices of a job, ascending; *device is malloc'd. */
static enum status job_devices(const struct job *job, uint32_t **device, size_t *n)
{
    const struct plan *p = &job->p.plan;
    size_t all = 0, kept = 0;
    for (size_t s = 0; s < p->stages; s++)
        all += p->stage[s].devices;
    uint32_t *d;
    PASS(ARRAY_NEW(d, all));
    all = 0;
    for (size_t s = 0; s < p->stages; s++)
        for (size_t k = 0; k < p->stage[s].devices; k++)
            d[all++] = p->stage[s].device[k];
    qsort(d, all, sizeof *d, array_by_number);
    for (size_t k = 0; k < all; k++)
        if (kept == 0 || d[kept - 1] != d[k])
            d[kept++] = d[k];
    *device = d;
    *n = kept;
    return STATUS_OK;
}

/* The k-th device of the job, in ascending order, becomes the k-th of to[]. */
static enum status job_move(struct job *job, const uint32_t *to)
{
    uint32_t *from = NULL;
    size_t n;
    PASS(job_devices(job, &from, &n));
    struct plan *p = &job->p.plan;
    for (size_t s = 0; s < p->stages; s++)
        for (size_t k = 0; k < p->stage[s].devices; k++) {
            uint32_t *d = &p->stage[s].device[k];
            *d = to[(uint32_t *)bsearch(d, from, n, sizeof *from, array_by_number) - from];
        }
    free(from);
    return STATUS_OK;
}

struct jobs_placing {
    struct jobs *js;
    size_t slots, devices;
    size_t *size;    /* [jobs] devices of each */
    double *alone_s; /* [jobs] on the plans' own devices */
    uint32_t *now;   /* [devices] what the plans are on: first the jobs' slots */
    uint32_t *best;  /* [devices] */
    double least;    /* sum of together over alone of the best */
};

/* Plans go from now[] to `to`, and are lowered. Devices of a job keep their order within it only if
 * both lists are ascending, so both are looked up by slot. */
static enum status jobs_move(struct jobs_placing *s, const uint32_t *to)
{
    enum status st = STATUS_OK;
    uint32_t *order = NULL;
    const uint32_t *from = s->now;
    TRY(ARRAY_NEW(order, s->devices));
    for (size_t k = 0, slot = 0; k < s->js->n; slot += s->size[k++]) {
        struct job *job = &s->js->job[k];
        const struct topology *t = s->js->topology;
        for (size_t i = 0; i < s->size[k]; i++) { /* position of each slot among the ascending */
            size_t before = 0;
            for (size_t l = 0; l < s->size[k]; l++)
                before += from[slot + l] < from[slot + i];
            order[before] = to[slot + i];
        }
        TRY(job_move(job, order));
        program_free(&job->p.program);
        TRY(plan_lower(&job->p.plan, &job->p.model, t, &job->p.program));
    }
    memcpy(s->now, to, s->devices * sizeof *to);
out:
    free(order);
    return st;
}

/* Devices in the order of the platform, or all of them dealt to the jobs in turn, evenly. */
static void jobs_deal(const struct jobs_placing *s, bool spread, uint32_t *to, bool *taken)
{
    size_t at = 0, last = s->slots;
    memset(taken, 0, s->devices * sizeof *taken);
    for (size_t i = 0; at < s->slots; i++) /* the i-th device of each job */
        for (size_t k = 0, slot = 0; k < s->js->n; slot += s->size[k++])
            if (i < s->size[k]) {
                size_t d = spread ? at * s->devices / s->slots : slot + i;
                to[slot + i] = (uint32_t)d;
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
    uint32_t *own = NULL;
    s->js->engine = engine_quick();
    s->least = INFINITY;
    PASS(ARRAY_COPY(own, s->now, s->devices));
    enum status st = STATUS_OK;
    for (size_t k = 0; k < s->js->n; k++)
        s->alone_s[k] = s->js->job[k].alone_s;
    if (given)
        TRY(jobs_try(s, own));
    for (int spread = 0; spread < 2; spread++) {
        jobs_deal(s, spread, to, taken);
        TRY(jobs_try(s, to));
    }
    TRY(jobs_climb(s, tries, seed, to));
    TRY(jobs_move(s, s->best));
    s->js->engine = judge;
out:
    free(own);
    return st;
}

/* The lists of the plans as they are; devices that two jobs share are twice in it, *valid: none. */
static enum status jobs_place_open(struct jobs_placing *s, bool *taken, bool *valid)
{
    size_t slot = 0;
    *valid = true;
    for (size_t k = 0; k < s->js->n; k++) {
        uint32_t *device = NULL;
        PASS(job_devices(&s->js->job[k], &device, &s->size[k]));
        for (size_t i = 0; i < s->size[k] && slot < s->devices; i++) {
            *valid &= !taken[device[i]];
            taken[device[i]] = true;
            s->now[slot++] = device[i];
        }
        s->slots += s->size[k];
        free(device);
    }
    for (uint32_t d = 0; d < s->devices && slot < s->devices; d++)
        if (!taken[d])
            s->now[slot++] = d;
    return s->slots <= s->devices
               ? STATUS_OK
               : error_set(STATUS_INVALID, "the jobs have %zu devices together, %s has %zu",
                           s->slots, s->js->topology->name, s->devices);
}

enum status jobs_place(struct jobs *js, const char *how, size_t tries, uint64_t seed)
{
    enum status st;
    struct jobs_placing s = {.js = js, .devices = js->topology->n};
    uint32_t *to = NULL;
    bool *taken = NULL, valid = false;
    TRY(ARRAY_NEW(s.size, js->n));
    TRY(ARRAY_NEW(s.alone_s, js->n));
    TRY(ARRAY_NEW(s.now, s.devices));
    TRY(ARRAY_NEW(s.best, s.devices));
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
    free(s.size);
    free(s.alone_s);
    free(s.now);
    free(s.best);
    free(to);
    free(taken);
    return st;
}
