/* topology match - search the circuits of an optical network for one plan. */
#include "cli/topology_match.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>

#include "cli/interrupt.h"
#include "cli/progress.h"
#include "core/base/json.h"
#include "core/base/units.h"
#include "study/load.h"
#include "study/matching.h"

/* As many as take some 20 CPU seconds: the more devices, the longer a simulation takes. */
enum { SIMULATIONS_MOST = 400, SIMULATIONS_LEAST = 40, DEVICES_IN_ALL = 51200 };

static size_t simulations_for(size_t devices)
{
    size_t n = DEVICES_IN_ALL / devices;
    return n > SIMULATIONS_MOST ? SIMULATIONS_MOST : n < SIMULATIONS_LEAST ? SIMULATIONS_LEAST : n;
}

static void matching_print(const struct matching *m)
{
    printf("%-10s  %s\n%-10s  %s\n", "# matching", "iteration", "as planned",
           units_of(UNIT_SECONDS, m->planned_s).text);
    for (size_t k = 0; k < MATCHING_WORDS; k++)
        printf("%-10s  %s\n", matching_word[k],
               isinf(m->word_s[k]) ? "too few circuits"
                                   : units_of(UNIT_SECONDS, m->word_s[k]).text);
    printf("%-10s  %s, %.1f %% shorter than as planned; %zu simulations\n", "searched",
           units_of(UNIT_SECONDS, m->iteration_s).text, 100 * (1 - m->iteration_s / m->planned_s),
           m->simulations);
    printf("%-10s  %s\n", "platform", m->platform);
}

static void matching_put(const struct matching *m)
{
    struct json_writer w = {.stream = stdout};
    json_open_object(&w, NULL, false);
    json_put_real(&w, "planned_s", m->planned_s);
    for (size_t k = 0; k < MATCHING_WORDS; k++) {
        char key[16];
        snprintf(key, sizeof key, "%s_s", matching_word[k]);
        json_put_real(&w, key, m->word_s[k]);
    }
    json_put_real(&w, "searched_s", m->iteration_s);
    json_put_integer(&w, "simulations", (int64_t)m->simulations);
    json_put_string(&w, "platform", m->platform);
    json_close(&w);
}

/* The plan again, on the platform that was found: its devices keep their names. */
static enum status matching_write(struct loaded_plan *p, struct matching *m, const char *output,
                                  const struct provenance *by)
{
    char *before = p->plan.platform;
    p->plan.platform = m->platform;
    enum status st = plan_write(&p->plan, &p->model, &p->topology, output, by);
    p->plan.platform = before;
    return st;
}

enum status topology_match(const struct invocation *in, const char *path)
{
    enum status st;
    struct loaded_plan p = {0};
    struct matching found = {0};
    TRY(load_plan_only(path, &p));
    struct progress progress = {
        .what = "match", .of = "simulations", .interrupted = interrupt_catch()};
    const struct simulation_watch watch = progress_watch(&progress);
    const struct evaluation_context context = {
        .model = &p.model, .topology = &p.topology, .scored = &watch};
    st = matching_search(&p.plan, &context, p.plan.platform, simulations_for(p.topology.n), &found);
    progress_end(&progress);
    interrupt_release();
    TRY(st);
    if (in->a.output)
        TRY(matching_write(&p, &found, in->a.output, &in->by));
    in->a.json ? matching_put(&found) : matching_print(&found);
out:
    matching_free(&found);
    loaded_plan_free(&p);
    if (st == STATUS_OK && interrupt_came()) {
        fprintf(stderr, "interrupted: these are the best circuits so far\n");
        fflush(stdout);
        interrupt_end(SIGINT);
    }
    return st;
}
