#include "cli/progress.h"

#include "core/base/clock.h"
#include "host/screen.h"

#include <stdio.h>
#include <time.h>

static const double patience_s = 1, interval_s = 0.2;

static bool progress_print(void *context, size_t completed, size_t ops)
{
    struct progress *p = context;
    double t = clock_now();
    p->completed = ops > 0 ? completed : p->completed + completed;
    p->ops = ops;
    if (*p->interrupted)
        return false;
    FILE *to = screen_drawing();
    if (to && t - p->started_s > patience_s && t - p->shown_s >= interval_s) {
        const char *of = p->of ? p->of : "ops";
        if (ops > 0)
            fprintf(to, "\r%s: %.0f %% of %zu %s ", p->what, 100 * (double)completed / (double)ops,
                    ops, of);
        else
            fprintf(to, "\r%s: %zu %s, %.0f s ", p->what, p->completed, of, t - p->started_s);
        fflush(to);
        p->shown_s = t;
    }
    return true;
}

struct simulation_watch progress_watch(struct progress *p)
{
    p->started_s = clock_now();
    return (struct simulation_watch){progress_print, p};
}

void progress_end(struct progress *p)
{
    if (p->shown_s > 0)
        fputs("\r\033[K", screen_drawing());
    p->shown_s = 0;
}
