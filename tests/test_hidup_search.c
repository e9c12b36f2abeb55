/* HiDup's search against trying every signature of every node and every cut, on random graphs; in a
 * hurry; and with wrong numbers. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/random.h"
#include "papers/hidup/models.h"
#include "papers/hidup/noise.h"
#include "papers/hidup/search.h"
#include "tests/cmocka.h"
#include "tests/sample.h"

enum { NODES = 9, TENSORS = 16, ROUNDS = 1000 };

/* ---- the slower truth, which knows forms as letters only */

struct truth {
    const struct spmd_graph *g;
    const struct spmd_costs *c;
    size_t limit; /* nodes of a stage */
    double best;
    uint64_t tried;
};

/* So far: forms of every tensor ("0F": gathered, and made full), the stages that are complete. */
struct so_far {
    char held[TENSORS][3];
    size_t stages, first[NODES + 1]; /* first node of each stage */
    double compute[NODES], first_s[NODES], second_s[NODES], first_back[NODES], second_back[NODES];
    size_t moves[NODES];
};

static double of(const struct truth *t, const char *what, double bytes)
{
    const double *bandwidth = t->c->profile.bandwidth_Bps;
    double rate = !strcmp(what, "AG")    ? bandwidth[STEP_ALLGATHER]
                  : !strcmp(what, "AR")  ? bandwidth[STEP_ALLREDUCE]
                  : !strcmp(what, "RS")  ? bandwidth[STEP_REDUCESCATTER]
                  : !strcmp(what, "A2A") ? bandwidth[STEP_ALLTOALL]
                                         : 0;
    return rate > 0 ? bytes / rate + t->c->profile.latency_s : 0;
}

/* What a conversion takes forward and backward; false: there is none. */
static bool convert(char from, char to, const char **forward, const char **backward)
{
    bool gathers = to >= '0' && to <= '9', gathered = from >= '0' && from <= '9';
    *forward = *backward = "";
    if (from == 'F' && gathers)
        return true;
    if (gathered && to == 'F')
        *forward = "AG", *backward = "RS";
    else if (gathered && gathers)
        *forward = *backward = "A2A";
    else if (from == 'R' && to == 'F')
        *forward = *backward = "AR";
    else if (from == 'R' && gathers)
        *forward = "RS", *backward = "AG";
    else if (from == 'P' && (to == 'F' || gathers))
        *backward = "AR";
    else
        return false;
    return true;
}

static double plus(bool overlap, double a, double b)
{
    return overlap ? fmax(a, b) : a + b;
}

/* Time of all stages, both halves, forward and backward (section 2B of the seeds). */
static double total(const struct truth *t, const struct so_far *s)
{
    bool compat = t->c->compat, forward = t->c->overlap != OVERLAP_NONE;
    bool backward = t->c->overlap == OVERLAP_FULL, plain = !compat && !forward;
    double sum = 0, debt = 0;
    for (size_t k = 0; k < s->stages; k++) {
        sum += plus(forward, debt, s->first_s[k]) + plus(forward, s->compute[k], s->second_s[k]);
        sum += plus(backward, 2 * debt, s->first_back[k]) +
               plus(backward, 2 * s->compute[k], s->second_back[k]);
        debt = plain ? 0 : s->compute[k];
    }
    return sum + debt + (compat ? 0 : 2 * debt);
}

static bool read_tensor(const struct truth *t, struct so_far *s, uint32_t node, size_t k, char form)
{
    const struct spmd_node *n = &t->g->node[node];
    uint32_t tensor = n->read[k];
    char *held = s->held[tensor];
    const char *forward, *backward;
    size_t stage = s->stages - 1;
    if (held[0] == form || held[1] == form)
        return true;
    if (held[1] || n->kind == SPMD_ADAPTIVE || t->g->tensor[tensor].node >= s->first[stage] ||
        !convert(held[0], form, &forward, &backward))
        return false;
    held[1] = form;
    bool parameter = t->g->node[t->g->tensor[tensor].node].kind == SPMD_PARAMETER;
    bool plain = !t->c->compat && t->c->overlap == OVERLAP_NONE;
    double bytes = 4, share = t->c->compat || parameter || plain ? 1 : 0.5;
    for (size_t d = 0; d < t->g->tensor[tensor].rank; d++)
        bytes *= (double)t->g->tensor[tensor].size[d];
    s->first_s[stage] += of(t, forward, share * bytes);
    s->first_back[stage] += of(t, backward, share * bytes);
    if (!plain && (t->c->compat || !parameter)) {
        s->second_s[stage] += of(t, forward, share * bytes);
        s->second_back[stage] += of(t, backward, share * bytes);
    }
    s->moves[stage]++;
    return true;
}

static bool take(const struct truth *t, struct so_far *s, uint32_t node,
                 const struct spmd_signature *signature)
{
    const struct spmd_node *n = &t->g->node[node];
    char letters[SPMD_LETTERS];
    for (size_t k = 0; k < n->reads; k++)
        if (!read_tensor(t, s, node, k, form_letter(signature->read[k])))
            return false;
    for (size_t k = 0; k < n->makes; k++)
        snprintf(s->held[n->made + k], 3, "%c", form_letter(signature->made[k]));
    spmd_letters(n, signature, letters);
    bool halves = !t->c->compat && t->c->overlap != OVERLAP_NONE;
    double seconds = n->flop / t->c->profile.flop_per_s / (halves ? 2 : 1);
    if (strpbrk(letters, "012345"))
        seconds /= t->c->profile.devices;
    s->compute[s->stages - 1] += seconds;
    return true;
}

/* A stage may end if it communicates, is the first, or follows a full one. */
static bool may_end(const struct truth *t, const struct so_far *s)
{
    size_t k = s->stages - 1;
    return k == 0 || s->moves[k] > 0 || s->first[k] - s->first[k - 1] >= t->limit;
}

static void try_all(struct truth *t, const struct so_far *s, uint32_t node)
{
    if (node == t->g->nodes) {
        t->tried++;
        if (may_end(t, s))
            t->best = fmin(t->best, total(t, s));
        return;
    }
    for (int cut = 0; cut < 2; cut++) {
        struct so_far base = *s;
        if (cut && node > 0 && !may_end(t, s))
            continue;
        if (cut)
            base.first[base.stages++] = node;
        if (base.stages == 0 || node - base.first[base.stages - 1] >= t->limit)
            continue;
        for (size_t k = 0; k < t->g->node[node].signatures; k++) {
            struct so_far next = base;
            if (take(t, &next, node, &t->g->node[node].signature[k]))
                try_all(t, &next, node + 1);
        }
    }
}

/* ---- random graphs */

static uint64_t dice;

static uint32_t roll(uint32_t sides)
{
    return (uint32_t)(random_next(&dice) % sides);
}

static void roll_signature(struct spmd_graph *g, size_t reads, size_t makes)
{
    char text[SPMD_LETTERS];
    size_t used = 0;
    for (size_t k = 0; k < reads; k++)
        text[used++] = "FFR01"[roll(5)];
    text[used++] = '>';
    for (size_t k = 0; k < makes; k++)
        text[used++] = "FR001"[roll(5)];
    text[used] = '\0';
    spmd_sign(g, text);
}

/* Inputs and parameters stand among the functions; the output reads the last tensor. */
static struct spmd_graph roll_graph(void)
{
    struct spmd_graph g = {0};
    size_t functions = 1 + roll(5);
    char name[8];
    for (size_t i = 0; i + 1 < NODES && (functions > 0 || g.tensors == 0); i++) {
        int64_t size[2] = {1 + roll(64), 1 + roll(64)};
        snprintf(name, sizeof name, "n%zu", i);
        if (g.tensors == 0 || roll(3) == 0) {
            bool input = roll(2);
            spmd_add(&g, input ? SPMD_INPUT : SPMD_PARAMETER, "leaf", name, NULL, 0);
            spmd_make(&g, 2, size);
            spmd_sign_all(&g, input ? ">0 >F" : ">P >0 >1");
            continue;
        }
        size_t reads = 1 + roll(2), makes = 1 + (roll(5) == 0);
        bool adaptive = roll(6) == 0;
        uint32_t read[2] = {(uint32_t)g.tensors - 1 - roll(g.tensors < 3 ? 1 : 2),
                            roll((uint32_t)g.tensors)};
        reads = adaptive ? 1 : reads;
        spmd_add(&g, adaptive ? SPMD_ADAPTIVE : SPMD_FUNCTION, "some", name, read, reads);
        makes = adaptive ? 1 : makes;
        for (size_t k = 0; k < makes; k++)
            spmd_make(&g, 2, size);
        spmd_work(&g, adaptive ? 0 : 1 + roll(1000));
        if (adaptive)
            spmd_sign_all(&g, "F>F R>R 0>0 1>1");
        for (size_t k = 1 + roll(3); k > 0 && !adaptive; k--)
            roll_signature(&g, reads, makes);
        functions--;
    }
    uint32_t last = (uint32_t)g.tensors - 1;
    spmd_add(&g, SPMD_OUTPUT, "output", "output", &last, 1);
    spmd_sign_all(&g, roll(2) ? "R>" : "R> F>");
    assert_int_equal(spmd_finish(&g), STATUS_OK);
    return g;
}

static struct spmd_costs roll_costs(void)
{
    struct spmd_costs c = {.overlap = (enum spmd_overlap)roll(OVERLAPS), .compat = roll(2)};
    c.profile.devices = 1 + roll(8);
    c.profile.flop_per_s = 1 + roll(20);
    c.profile.latency_s = roll(3);
    for (size_t s = STEP_ALLGATHER; s < STEPS; s++)
        c.profile.bandwidth_Bps[s] = 50 + roll(1000);
    return c;
}

static void the_search_agrees_with_trying_everything(void **state)
{
    size_t solved = 0, without = 0;
    uint64_t tried = 0;
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        dice = random_key(17, seed);
        struct spmd_graph g = roll_graph();
        struct spmd_costs c = roll_costs();
        struct arena memory = {0};
        struct spmd_found found;
        const struct spmd_search q = {
            .graph = &g, .costs = &c, .stage_nodes = roll(3) ? 1 + roll(4) : 0};
        struct truth t = {&g, &c, q.stage_nodes ? q.stage_nodes : SPMD_STAGE_NODES, INFINITY, 0};
        try_all(&t, &(struct so_far){.stages = 0}, 0);
        enum status st = spmd_search(&q, &memory, &found);
        if (isinf(t.best)) {
            assert_int_equal(st, STATUS_INFEASIBLE);
            without++;
        } else {
            if (st != STATUS_OK)
                fail_msg("seed %llu: %s", (unsigned long long)seed, error_message());
            assert_near(found.seconds, t.best, 1e-9 * t.best);
            solved++;
        }
        tried += t.tried;
        arena_free(&memory);
        spmd_graph_free(&g);
    }
    print_message("%zu graphs solved, %zu without a strategy, %llu strategies tried\n", solved,
                  without, (unsigned long long)tried);
    assert_true(solved > ROUNDS / 2 && without > 10);
}

/* ---- models */

struct problem {
    struct spmd_graph g;
    struct spmd_costs c;
    struct spmd_search q;
    struct arena memory;
    struct spmd_found found;
};

static void solve(struct problem *p, const char *model, bool compat)
{
    assert_int_equal(spmd_model(model, compat, &p->g), STATUS_OK);
    p->c = (struct spmd_costs){spmd_machines[0]->profile, compat ? OVERLAP_FORWARD : OVERLAP_FULL,
                               compat, NULL, NULL};
    p->c.profile.devices = 8;
    p->q.graph = &p->g;
    p->q.costs = &p->c;
    assert_int_equal(spmd_search(&p->q, &p->memory, &p->found), STATUS_OK);
}

static void done(struct problem *p)
{
    arena_free(&p->memory);
    spmd_graph_free(&p->g);
}

static void an_interrupted_search_has_a_strategy_that_is_no_better(void **state)
{
    static const char *const models[] = {"tmlp:layers=8", "tmlp2:layers=4", "ttransformer:layers=4",
                                         "tmoe:layers=4"};
    const volatile int stop = 1;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        struct problem whole = {0}, hurried = {.q = {.stop = &stop}}, late = {0};
        late.q.until_s = clock_now() - 1;
        solve(&whole, models[i], false);
        solve(&hurried, models[i], false);
        solve(&late, models[i], false);
        assert_true(hurried.found.interrupted && late.found.interrupted);
        assert_true(hurried.found.seconds >= whole.found.seconds);
        assert_true(late.found.seconds >= whole.found.seconds);
        assert_true(hurried.found.partials <= whole.found.partials);
        done(&whole);
        done(&hurried);
        done(&late);
    }
}

/* States and partial strategies grow with the layers, and do not with the devices. */
static void the_work_of_a_search_is_linear_in_the_layers(void **state)
{
    uint64_t steps[4], base = 0;
    for (int i = 0; i < 4; i++) {
        char model[32];
        struct problem p = {0};
        snprintf(model, sizeof model, "tmlp:layers=%d", 4 << i);
        solve(&p, model, true);
        steps[i] = p.found.steps;
        done(&p);
    }
    assert_int_equal(steps[3] - steps[2], 2 * (steps[2] - steps[1]));
    for (uint32_t devices = 2; devices <= 1024; devices *= 2) {
        struct problem p = {0};
        solve(&p, "tmlp:layers=4", true);
        p.c.profile.devices = devices;
        arena_free(&p.memory);
        assert_int_equal(spmd_search(&p.q, &p.memory, &p.found), STATUS_OK);
        base = base ? base : p.found.steps;
        assert_int_equal(p.found.steps, base);
        done(&p);
    }
}

static void wrong_numbers_never_find_a_better_strategy(void **state)
{
    static const char *const models[] = {"tmlp:layers=6", "tmlp2:layers=2",
                                         "ttransformer:layers=1"};
    static const struct spmd_noise noises[] = {
        {0.2, 1, 10, 1}, {0.4, 1, 10, 2}, {0.8, 1, 10, 3}, {0, 2, 1, 1}, {0, 0.5, 1, 1}};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        for (size_t k = 0; k < 2 * sizeof noises / sizeof *noises; k++) {
            struct problem p = {0};
            struct spmd_loss loss, again;
            solve(&p, models[i], k % 2);
            assert_int_equal(spmd_noise(&p.q, &noises[k / 2], p.found.seconds, &loss), STATUS_OK);
            assert_int_equal(spmd_noise(&p.q, &noises[k / 2], p.found.seconds, &again), STATUS_OK);
            assert_int_equal(loss.samples, noises[k / 2].samples);
            assert_true(loss.least >= 1 && loss.mean >= loss.least && loss.worst >= loss.mean);
            assert_true(loss.mean == again.mean);
            done(&p);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_search_agrees_with_trying_everything),
        cmocka_unit_test(an_interrupted_search_has_a_strategy_that_is_no_better),
        cmocka_unit_test(the_work_of_a_search_is_linear_in_the_layers),
        cmocka_unit_test(wrong_numbers_never_find_a_better_strategy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
