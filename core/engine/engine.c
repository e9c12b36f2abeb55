/* What all simulators return, and folded programs on any of them. */
#include "core/engine/engine.h"

#include <stdlib.h>

#include "core/base/array.h"
#include "core/base/text.h"

enum status simulation_add_links(const struct topology *t, const double *bytes, double iteration_s,
                                 struct simulation *out)
{
    size_t n = 0;
    for (size_t l = 0; l < t->links; l++)
        n += bytes[l] > 0;
    PASS(ARRAY_NEW(out->link, n));
    for (size_t l = 0; l < t->links; l++) {
        struct measured_link *link = &out->link[out->links];
        double Bps = t->link[l].bandwidth_Bps;
        if (bytes[l] <= 0)
            continue;
        PASS(text_copy(t->link[l].name, &link->name));
        link->bytes = bytes[l];
        link->busy_fraction = iteration_s > 0 ? bytes[l] / Bps / iteration_s : 0;
        out->links++;
    }
    return STATUS_OK;
}

void simulation_free(struct simulation *s)
{
    for (size_t k = 0; s->link && k < s->links; k++)
        free(s->link[k].name);
    free(s->link);
    timeline_free(&s->timeline);
    *s = (struct simulation){0};
}

enum { MOST_CLASSES = 64 };

/* May so many classes of replicas be simulated, instead of all replicas? */
static bool are_few(const struct plan_classes *c, const struct plan *p)
{
    for (size_t s = 0; s < p->stages; s++)
        if (strategy_groups_replicas(&p->shared, &p->stage[s].own)) /* who shares with whom is not
                                                                     * divided */
            return false;
    return c->n <= MOST_CLASSES && 2 * c->n <= p->stage[0].replicas;
}

enum status engine_run_folded(const struct engine *engine, const struct engine_folded *what,
                              struct plan_classes *classes, struct program *program,
                              struct simulation *out)
{
    for (;;) {
        struct program folded = {0};
        struct plan_classes finer = {0};
        struct simulation_options options = {0};
        if (what->options)
            options = *what->options;
        options.finer = &finer;
        const struct plan_lower_options how = {
            .fold = true, .classes = classes->n > 0 ? classes : NULL, .costs = what->costs};
        PASS(plan_lower_with(what->plan, what->model, what->topology, &how, &folded));
        enum status st = STATUS_OK;
        if (folded.folded && what->change)
            what->change(what->change_how, &folded);
        if (folded.folded)
            st = engine->run(&folded, what->topology, what->platform, &options, out);
        if (st == STATUS_OK) {
            *program = folded;
            return STATUS_OK;
        }
        program_free(&folded);
        bool again = st == STATUS_UNSUPPORTED && finer.n > 0 && are_few(&finer, what->plan);
        if (!again) {
            free(finer.of);
            return st;
        }
        free(classes->of);
        *classes = finer;
    }
}
