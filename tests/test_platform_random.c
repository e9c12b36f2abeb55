/* Random platforms: both engines predict the same, or the platform is refused with the line of what
 * cannot be simulated. `test_platform_random N` tries N of them instead of 30. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/platform/platform.h"
#include "tests/cmocka.h"
#include "tests/lowered.h"
#include "tests/put.h"
#include "tests/random_platform.h"
#include "tests/sample.h"

static const char scratch[] = BINARY_DIR "/test_platform_random.xml";
static unsigned long platforms = 30;

/* Pipelines and their replicas on all devices: messages meet each other and sums. */
static double simulate(struct topology *t)
{
    uint32_t replicas = t->n >= 4 ? 2 : 1;
    size_t stages = t->n / replicas;
    struct lowered s = {.model = sample_chain(stages, 1e-3, 2e-3, 3000000, 500000), .topology = *t};
    *t = (struct topology){0};
    s.plan = sample_plan(&s.model, stages, replicas, 4 * replicas, "1f1b");
    s.platform = sample_text(scratch);
    double seconds = lowered_seconds(&s, NULL); /* which compares both engines to 1e-6 */
    lowered_free(&s);
    return seconds;
}

static void engines_agree_or_the_platform_is_refused(void **state)
{
    static struct random_platform p;
    size_t simulated = 0, refused = 0;
    for (unsigned long seed = 0; seed < platforms; seed++) {
        struct topology t = {0};
        char place[sizeof scratch + 32];
        random_platform(seed, &p);
        put_text(scratch, p.text);
        enum status st = platform_read(scratch, &t);
        snprintf(place, sizeof place, "%s:%zu: ", scratch, p.line);
        if (p.line == 0 && st != STATUS_OK)
            fail_msg("platform %lu (%s) is refused: %s", seed, p.kind, error_message());
        if (p.line > 0 && (st != STATUS_PARSE || strncmp(error_message(), place, strlen(place)) ||
                           !message_says(error_message(), p.reason)))
            fail_msg("platform %lu (%s): expected %s%s, got '%s'", seed, p.kind, place, p.reason,
                     st == STATUS_OK ? "no error" : error_message());
        refused += st != STATUS_OK;
        simulated += st == STATUS_OK;
        if (st == STATUS_OK) {
            print_message("platform %lu: %s, %zu devices, ", seed, p.kind, t.n);
            print_message("%.9g s\n", simulate(&t));
        }
    }
    print_message("%zu simulated alike, %zu refused\n", simulated, refused);
    assert_true(simulated >= platforms / 2 && refused >= platforms / 10);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(engines_agree_or_the_platform_is_refused)};
    if (argc > 1)
        platforms = strtoul(argv[1], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
