/* Folding with contention: a folded program ends when the whole one does, op by op, or the engine
 * says that its copies do not share the network alike. Random plans on generated platforms whose
 * links are shared: NICs of nodes, oversubscribed racks and trees, tori, rails, NVLink meshes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/lower/lower.h"
#include "sim/engines.h"
#include "tests/cmocka.h"
#include "tests/generated.h"
#include "tests/random_plan.h"
#include "tests/sample.h"

enum { PLANS = 6 };
static bool verbose;
static size_t plans = PLANS; /* of each platform, on each engine; "test_fold 50": as many */

static const struct {
    const char *spec;
    size_t least; /* of PLANS must fold, on either engine */
} platform[] = {
    {"rail:nodes=8,gpus=4,type=H100", 4},
    {"rail:nodes=8,gpus=4,rack=2,oversubscription=2,nic=100Gbps", 4},
    {"leaf-spine:nodes=8,gpus=4,nic=25Gbps", 5},
    {"leaf-spine:nodes=8,gpus=4,nic=100Gbps,rack=2,oversubscription=4", 3},
    {"fat-tree:nodes=8,gpus=4,nics=1,edge=2,pod=2,nic=100Gbps,type=A100", 4},
    {"dragonfly+:groups=4,leaves=2,nodes=1,gpus=4,nics=2,type=A100", 4},
    {"torus:x=4,y=4,link=50GBps", 3},
    {"torus:x=2,y=2,z=2,gpus=4,type=A100,link=10GBps", 4},
    {"mesh:gpus=8,type=A100,link=50GBps", 6},
    {"nvl:domains=2,gpus=16,oversubscription=2", 4},
};

struct setup {
    struct topology topology;
    struct model model;
    struct plan plan;
    struct program whole, folded;
    struct simulation_options options;
    char text[RANDOM_PLAN_TEXT];
};

/* A plan that can be lowered, and how its collectives are done: as NCCL would, or by name. */
static void next_plan(struct setup *s, uint64_t *seed)
{
    for (;;) {
        program_free(&s->whole);
        plan_free(&s->plan);
        model_free(&s->model);
        s->model = random_model(seed);
        s->plan = random_plan(seed, &s->model, (uint32_t)s->topology.n);
        random_plan_print(&s->plan, s->text);
        if (plan_lower(&s->plan, &s->model, &s->topology, &s->whole) == STATUS_OK)
            break;
    }
    const char *algorithm = collective_name(random_below(seed, (uint32_t)collective_algorithms_n));
    s->options.collective.algorithm = random_below(seed, 2) ? "tree" : algorithm;
    strncat(s->text, ", ", sizeof s->text - strlen(s->text) - 1);
    strncat(s->text, s->options.collective.algorithm, sizeof s->text - strlen(s->text) - 1);
}

/* The compute ops of every rank end when those of its class's rank in the folded program do;
 * and so does the last op of all. */
static void expect_same_ends(const struct setup *s, const char *what, const struct timeline *whole,
                             const struct timeline *folded, double tolerance)
{
    const struct program *p = &s->folded, *q = &s->whole;
    double end = 0, folded_end = 0;
    for (size_t i = 0; i < q->ops; i++)
        end = fmax(end, whole->end_s[i]);
    for (size_t i = 0; i < p->ops; i++)
        folded_end = fmax(folded_end, folded->end_s[i]);
    if (!(fabs(folded_end - end) <= tolerance * end))
        fail_msg("%s: %s: folded %.12g s instead of %.12g", what, s->text, folded_end, end);
    for (uint32_t r = 0; r < q->ranks; r++) {
        size_t classes = p->copies.classes, class = p->copies.class_of[q->rank[r].replica];
        size_t i = p->op_start[q->rank[r].stage * classes + class];
        for (size_t j = q->op_start[r]; j < q->op_start[r + 1]; j++) {
            if (!op_computes(&q->op[j]))
                continue;
            while (!op_computes(&p->op[i]))
                i++;
            if (!(fabs(folded->end_s[i] - whole->end_s[j]) <= tolerance * end))
                fail_msg("%s: %s: rank %u: an op ends at %.12g s instead of %.12g", what, s->text,
                         r, folded->end_s[i], whole->end_s[j]);
            i++;
        }
    }
}

/* Links that the analytic engine leaves out as never full are never full on SimGrid. */
static void engines_agree(const struct setup *s, const char *what)
{
    struct simulation quick = {0}, flows = {0};
    double a = 0, b = 0;
    if (engine_analytic.run(&s->whole, &s->topology, generated_path, &s->options, &quick) !=
            STATUS_OK ||
        engine_simgrid.run(&s->whole, &s->topology, generated_path, &s->options, &flows) !=
            STATUS_OK)
        fail_msg("%s: %s: %s", what, s->text, error_message());
    for (size_t i = 0; i < s->whole.ops; i++) {
        a = fmax(a, quick.timeline.end_s[i]);
        b = fmax(b, flows.timeline.end_s[i]);
    }
    if (!(fabs(a - b) <= 1e-6 * b))
        fail_msg("%s: %s: analytic %.12g s, SimGrid %.12g", what, s->text, a, b);
    simulation_free(&quick);
    simulation_free(&flows);
}

/* True if the program could be folded. */
static bool check(struct setup *s, const char *what, const struct engine *engine, double tolerance)
{
    struct simulation whole = {0}, folded = {0};
    struct plan_classes classes = {0};
    const struct engine_folded plan = {.plan = &s->plan,
                                       .model = &s->model,
                                       .topology = &s->topology,
                                       .platform = generated_path,
                                       .options = &s->options};
    enum status st = engine_run_folded(engine, &plan, &classes, &s->folded, &folded);
    if (st != STATUS_OK &&
        (st != STATUS_UNSUPPORTED || !message_says(error_message(), "not symmetric")))
        fail_msg("%s: %s: %s", what, s->text, error_message());
    if (st == STATUS_OK) {
        assert_true(s->folded.folded);
        if (engine->run(&s->whole, &s->topology, generated_path, &s->options, &whole) != STATUS_OK)
            fail_msg("%s: %s: %s", what, s->text, error_message());
        expect_same_ends(s, what, &whole.timeline, &folded.timeline, tolerance);
    }
    if (verbose)
        print_message("%s: %s: %s, %u classes\n", what, s->text,
                      st == STATUS_OK ? "folds" : error_message(), classes.n);
    simulation_free(&whole);
    simulation_free(&folded);
    free(classes.of);
    return st == STATUS_OK;
}

static void check_platforms(const struct engine *engine, double tolerance)
{
    uint64_t seed = 7;
    size_t folded = 0, all = 0;
    for (size_t k = 0; k < sizeof platform / sizeof *platform; k++) {
        struct setup s = {.topology = generated(platform[k].spec)};
        s.topology.type[0].message_s =
            k % 2 ? 2e-6 : 0; /* every other takes messages from compute */
        s.topology.type[0].message_Bps = k % 2 ? 1e11 : 0;
        size_t here = 0;
        for (size_t i = 0; i < plans; i++) {
            next_plan(&s, &seed);
            here += check(&s, platform[k].spec, engine, tolerance);
            if (engine == &engine_simgrid)
                engines_agree(&s, platform[k].spec);
            program_free(&s.folded);
        }
        print_message("%zu of %zu plans fold on %s\n", here, plans, platform[k].spec);
        if (plans >= PLANS && here < platform[k].least)
            fail_msg("%s: only %zu of %zu plans fold", platform[k].spec, here, plans);
        folded += here;
        all += plans;
        program_free(&s.whole);
        plan_free(&s.plan);
        model_free(&s.model);
        topology_free(&s.topology);
    }
    print_message("%s: %zu of %zu plans fold\n", engine->name, folded, all);
}

static void folded_is_whole_on_the_analytic_engine(void **state)
{
    check_platforms(&engine_analytic, 1e-9);
}

static void folded_is_whole_on_simgrid(void **state)
{
    check_platforms(&engine_simgrid, 1e-6);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        plans = strtoul(argv[1], NULL, 10);
    verbose = argc > 2;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folded_is_whole_on_the_analytic_engine),
        cmocka_unit_test(folded_is_whole_on_simgrid),
    };
    return cmocka_run_group_tests_name("fold", tests, NULL, NULL);
}
