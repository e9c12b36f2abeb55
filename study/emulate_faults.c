/* Faults of emulated runs: for each one a process sleeps until its time, counted from the start of
 * the measured iteration, and then slows a link, cuts it, or kills a worker. */
#include "study/emulate_faults.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "host/process.h"

static double moment_of(const struct fault_clock *c, const struct fault *f)
{
    return c->begin_s + f->at_s * c->inside->dilation;
}

/* The link, or a lane of it, "leaf0-up.3". */
static bool is_named(const struct network_link *l, const char *name)
{
    size_t n = strlen(l->name);
    uint64_t lane;
    return !strcmp(l->name, name) ||
           (l->lanes > 0 && !strncmp(l->name, name, n) && name[n] == '.' &&
            text_count(name + n + 1, l->lanes - 1, &lane));
}

enum status fault_check(const struct faults *faults, const struct program *p,
                        const struct network *net)
{
    for (size_t k = 0; k < faults->n; k++) {
        const struct fault *f = &faults->fault[k];
        uint32_t rank;
        size_t i = 0;
        if (f->kind == FAULT_KILL) {
            PASS(faults_rank(f, p, &rank));
            continue;
        }
        while (i < net->links && !is_named(&net->link[i], f->name))
            i++;
        if (i == net->links)
            return error_set(
                STATUS_USAGE,
                "the platform has no link '%s'; list them with foreline simulate PLAN --links 100",
                f->name);
    }
    return STATUS_OK;
}

/* That ranks send over a link shows only now, before anything runs: it is set to its own speed. */
enum status fault_clock_open(const struct faults *faults, const struct program *p,
                             const struct netns_inside *inside, FILE *log, struct fault_clock *out)
{
    enum status st = STATUS_OK;
    struct fault_clock c = {.faults = faults, .program = p, .inside = inside, .log = log};
    TRY(ARRAY_NEW(c.pid, faults->n));
    for (size_t k = 0; k < faults->n; k++) {
        const struct fault *f = &faults->fault[k];
        if (f->kind != FAULT_KILL)
            TRY(inside->slow(inside->context, f->name, 1));
    }
    *out = c;
    c.pid = NULL;
out:
    free(c.pid);
    return st;
}

/* In a process of its own. */
static void wait_and_act(const struct fault_clock *c, size_t k, const int *held)
{
    const struct fault *f = &c->faults->fault[k];
    double factor = f->factor;
    uint32_t rank;
    enum status st = STATUS_OK;
    for (size_t i = 0; i < k; i++) /* what has happened to the link before counts too */
        if (c->faults->fault[i].kind == FAULT_SLOW && c->faults->fault[i].at_s <= f->at_s &&
            !strcmp(c->faults->fault[i].name, f->name))
            factor *= c->faults->fault[i].factor;
    clock_sleep_until(moment_of(c, f));
    if (f->kind != FAULT_KILL)
        st =
            c->inside->slow(c->inside->context, f->name, f->kind == FAULT_FAIL ? INFINITY : factor);
    else if ((st = faults_rank(f, c->program, &rank)) == STATUS_OK && held[rank] < 0)
        st = error_set(STATUS_EXTERNAL, "cannot identify the process of rank %u", rank);
    else if (st == STATUS_OK)
        process_signal(held[rank], SIGKILL);
    if (st != STATUS_OK)
        fprintf(c->log, "foreline: fault of %s: %s\n", f->name, error_message());
    fflush(c->log);
    _exit(0);
}

void fault_clock_start(void *clock, const int *held, size_t ranks)
{
    struct fault_clock *c = clock;
    (void)ranks;
    c->begin_s = clock_now();
    for (size_t k = 0; k < c->faults->n; k++) {
        c->pid[k] = fork();
        if (c->pid[k] == 0)
            wait_and_act(c, k, held);
    }
}

/* What ended the run, as far as a fault can be blamed; NULL: none. */
static const struct fault *culprit(const struct fault_clock *c)
{
    const struct fault *first = NULL;
    for (size_t k = 0; c->begin_s > 0 && k < c->faults->n; k++) {
        const struct fault *f = &c->faults->fault[k];
        if (f->kind != FAULT_SLOW && moment_of(c, f) <= clock_now() &&
            (!first || f->at_s < first->at_s))
            first = f;
    }
    return first;
}

/* A run that failed after a fault fails because of it; which rank noticed first is chance. */
enum status fault_clock_close(struct fault_clock *c, enum status st)
{
    char at[UNITS_TEXT];
    const struct fault *f = st == STATUS_OK ? NULL : culprit(c);
    uint32_t rank = 0;
    for (size_t k = 0; k < c->faults->n; k++)
        if (c->pid[k] > 0) {
            kill(c->pid[k], SIGKILL);
            waitpid(c->pid[k], NULL, 0);
        }
    free(c->pid);
    c->pid = NULL;
    if (!f)
        return st;
    units_print(UNIT_SECONDS, f->at_s, at);
    if (f->kind == FAULT_FAIL)
        return error_context(st, "link %s failed at %s", f->name, at);
    if (faults_rank(f, c->program, &rank) != STATUS_OK)
        return st;
    return error_context(st, "rank %u (%s) was killed at %s", rank, c->program->rank[rank].name,
                         at);
}
