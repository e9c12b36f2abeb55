/* promise - what foreline promises of any input, on many random ones; prints the worst.
 * Usage: promise fold [cases [seed [engine]]]. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "tests/promise.h"

static int fold(size_t cases, uint64_t seed, const struct engine *engine)
{
    double worst = 0;
    size_t folded = 0, long_ones = 0, wrong = 0, unsound = 0;
    for (size_t k = 0; k < cases; k++) {
        struct promise_random r = {seed + k};
        struct promise_case c;
        char text[PROMISE_TEXT];
        promise_case(&r, PROMISE_FAMILIES, 2048, &c);
        double begin = clock_cpu();
        struct promise_folding f = promise_fold(&c, engine);
        folded += f.folded;
        long_ones += c.plan.microbatches * c.plan.stages >= 512;
        wrong += f.error > 1e-9;
        unsound += !f.sound;
        worst = fmax(worst, f.error);
        if (f.error > 1e-9 || !f.sound || getenv("VERBOSE"))
            printf("%zu %s: %s %.9g %.9g error %.3g%s %s %.2f s\n", k, promise_text(&c, text),
                   f.folded ? "folded" : "whole", f.folded_s, f.whole_s, f.error,
                   f.sound ? "" : " UNSOUND", f.reason, clock_cpu() - begin);
        promise_case_free(&c);
    }
    printf("fold, %s: %zu plans, %zu long, %zu folded, worst error %.3g, %zu above 1e-9, %zu with "
           "shares that are none\n",
           engine->name, cases, long_ones, folded, worst, wrong, unsound);
    return wrong + unsound > 0;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "all";
    size_t cases = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
    uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    const struct engine *engine = &engine_analytic;
    if (argc > 4 && engine_find(argv[4], &engine) != STATUS_OK)
        return 2;
    if (!strcmp(what, "fold"))
        return fold(cases ? cases : 500, seed, engine);
    return 2;
}
