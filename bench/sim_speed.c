/* sim_speed - how fast the engines are: ops and messages per CPU second on 1F1B pipelines.
 *
 * P stages, M microbatches, forward 1 ms, backward 2 ms, 16 MB messages, every stage on its own
 * 50 GB/s port of 1 us. Prints TSV: median and best CPU seconds of the engine alone (lowering and
 * loading the platform excluded) and ops per CPU second. Usage: sim_speed [repeats]. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/statistics.h"
#include "core/data/measurement.h"
#include "core/lower/lower.h"
#include "sim/engines.h"
#include "tests/sample.h"

static enum status sim_speed_measure(size_t stages, uint32_t microbatches, size_t repeats)
{
    enum status st = STATUS_OK;
    struct model m = sample_chain(stages, 1e-3, 2e-3, 0, 16000000);
    struct topology t = sample_clique(stages, 2e-6, 50e9);
    struct plan plan = sample_plan(&m, stages, 1, microbatches, "1f1b");
    struct program program = {0};
    char *platform = sample_star_file(stages, 2e-6, 50e9);
    double *cpu_s = calloc(repeats, sizeof *cpu_s);

    TRY(plan_lower(&plan, &m, &t, &program));
    for (size_t e = 0; e < engines_fluid(); e++) {
        double best = INFINITY, last = 0;
        size_t messages = 0;
        for (size_t k = 0; k < repeats; k++) {
            struct simulation s = {0};
            TRY(engines[e]->run(&program, &t, platform, NULL, &s));
            cpu_s[k] = s.cpu_s;
            best = fmin(best, s.cpu_s);
            messages = s.messages;
            for (size_t i = 0; i < s.timeline.n; i++)
                last = fmax(last, s.timeline.end_s[i]);
            simulation_free(&s);
        }
        double middle = median(cpu_s, repeats);
        printf("%s\t%zu\t%u\t%zu\t%zu\t%.9g\t%.4g\t%.4g\t%.3g\t%.3g\n", engines[e]->name, stages,
               microbatches, program.ops, messages, last, middle, best,
               (double)program.ops / middle, (double)messages / middle);
        fflush(stdout);
    }
out:
    free(cpu_s);
    unlink(platform);
    free(platform);
    plan_free(&plan);
    program_free(&program);
    topology_free(&t);
    model_free(&m);
    return st;
}

int main(int argc, char **argv)
{
    static const struct {
        size_t stages;
        uint32_t microbatches;
    } size[] = {{8, 32}, {64, 256}, {256, 1024}};
    size_t repeats = argc > 1 ? strtoul(argv[1], NULL, 10) : 5;
    printf("# engine\tP\tM\tops\tmessages\titeration\tcpu\tbest_cpu\tops_rate\tmessage_rate\n"
           "#\t\t\t\t\ts\ts\ts\t1/s\t1/s\n");
    for (size_t k = 0; k < sizeof size / sizeof *size; k++)
        if (sim_speed_measure(size[k].stages, size[k].microbatches, repeats ? repeats : 1) !=
            STATUS_OK) {
            fprintf(stderr, "sim_speed: %s\n", error_message());
            return 1;
        }
    return 0;
}
