#include "cli/progress.h"

#include <fcntl.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/clock.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "host/screen.h"

static const double patience_s = 1, interval_s = 0.2;

/* Programs that we start do not get it. */
static int progress_pipe(void)
{
    const char *text = getenv("FORELINE_PROGRESS");
    uint64_t fd;
    return text && text_count(text, INT16_MAX, &fd) && fcntl((int)fd, F_SETFD, FD_CLOEXEC) == 0
               ? (int)fd
               : -1;
}

/* "simgrid: 43 % of 123456 ops", "plan: 290 plans scored, 12 s" */
static void progress_describe(const struct progress *p, double t, char text[128])
{
    const char *of = p->of ? p->of : "ops";
    if (p->ops > 0)
        snprintf(text, 128, "%s: %.0f %% of %zu %s", p->what,
                 100 * (double)p->completed / (double)p->ops, p->ops, of);
    else
        snprintf(text, 128, "%s: %zu %s, %.0f s", p->what, p->completed, of, t - p->started_s);
}

static void progress_put(const struct progress *p, double t, FILE *to)
{
    char text[128], best[64] = "";
    progress_describe(p, t, text);
    if (p->best_s && isfinite(*p->best_s) && *p->best_s > 0)
        snprintf(best, sizeof best, ", best %s", units_of(UNIT_SECONDS, *p->best_s).text);
    if (to)
        fprintf(to, "\r%s ", text);
    else
        dprintf(p->pipe, "%zu %zu %s%s\n", p->completed, p->ops, text, best);
    if (to)
        fflush(to);
}

static bool progress_print(void *context, size_t completed, size_t ops)
{
    struct progress *p = context;
    double t = clock_now();
    p->completed = ops > 0 ? completed : p->completed + completed;
    p->ops = ops;
    if (*p->interrupted)
        return false;
    FILE *to = p->pipe < 0 && t - p->started_s > patience_s ? screen_drawing() : NULL;
    if ((to || p->pipe >= 0) && t - p->shown_s >= interval_s) {
        progress_put(p, t, to);
        p->shown_s = t;
    }
    return true;
}

struct simulation_watch progress_watch(struct progress *p)
{
    p->started_s = clock_now();
    p->pipe = progress_pipe();
    return (struct simulation_watch){progress_print, p};
}

void progress_end(struct progress *p)
{
    if (p->shown_s > 0 && p->pipe < 0)
        fputs("\r\033[K", screen_drawing());
    p->shown_s = 0;
}
