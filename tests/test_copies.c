/* Folded programs: the copies of their channels and groups are those of the whole program, which
 * carry the same in the same order, and ranks that folding leaves out compute what their stage's
 * first rank does. */
#include <stdlib.h>
#include <string.h>

#include "core/lower/lower.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/random_plan.h"
#include "tests/sample.h"

enum { PLANS = 400, DEVICES = 64, LEAST = 250 };

struct setup {
    struct model model;
    struct plan plan;
    struct program whole, folded;
    char text[RANDOM_PLAN_TEXT];
};

/* What an op is, but for which microbatch, rank and group it belongs to. */
static bool same_op(const struct program_op *a, const struct program_op *b)
{
    return a->kind == b->kind && a->purpose == b->purpose && a->backward == b->backward &&
           a->part == b->part && a->stage == b->stage && a->count == b->count &&
           a->seconds == b->seconds && a->bytes == b->bytes &&
           (!op_is_message(a) || a->peer_stage == b->peer_stage);
}

/* Which of a rank's ops to compare: those of a channel, of a group, or those that compute. */
struct choice {
    enum { CHANNEL, GROUP, COMPUTE } what;
    uint32_t id;
};

static bool is_chosen(const struct program_op *o, struct choice c)
{
    return c.what == COMPUTE   ? op_computes(o)
           : c.what == CHANNEL ? o->kind == OP_SEND && o->channel == c.id
                               : op_is_collective(o) && o->peer == c.id;
}

/* The chosen ops of rank a of one program are those of rank b of the other. */
static void expect_same_ops(const struct setup *s, uint32_t a, struct choice x, uint32_t b,
                            struct choice y)
{
    const struct program *p = &s->folded, *q = &s->whole;
    size_t i = p->op_start[a], j = q->op_start[b];
    for (;; i++, j++) {
        while (i < p->op_start[a + 1] && !is_chosen(&p->op[i], x))
            i++;
        while (j < q->op_start[b + 1] && !is_chosen(&q->op[j], y))
            j++;
        if (i == p->op_start[a + 1] || j == q->op_start[b + 1])
            break;
        if (!same_op(&p->op[i], &q->op[j]))
            fail_msg("%s: rank %u differs from rank %u of the whole program", s->text, a, b);
    }
    assert_true(i == p->op_start[a + 1] && j == q->op_start[b + 1]);
}

static void check_ranks(const struct setup *s)
{
    const struct program_copies *copies = &s->folded.copies;
    size_t *met = calloc(s->folded.ranks, sizeof *met);
    assert_non_null(met);
    for (uint32_t r = 0; r < s->whole.ranks; r++) {
        uint32_t team = s->whole.rank[r].stage, class = copies->class_of[s->whole.rank[r].replica];
        uint32_t own = team * copies->classes + class;
        assert_int_equal(s->folded.rank[own].stage, team);
        assert_int_equal(copies->class_of[s->folded.rank[own].replica], class);
        expect_same_ops(s, own, (struct choice){COMPUTE, 0}, r, (struct choice){COMPUTE, 0});
        met[own]++;
    }
    for (size_t r = 0; r < s->folded.ranks; r++)
        assert_int_equal(met[r], program_rank_copies(&s->folded, r));
    free(met);
}

static void check_channels(const struct setup *s)
{
    const struct program *p = &s->folded, *q = &s->whole;
    const struct program_copies *copies = &p->copies;
    bool *met = calloc(q->channels + 1, sizeof *met);
    assert_non_null(met);
    for (uint32_t c = 0; c < p->channels; c++) {
        const struct program_channel *own = &copies->channel[copies->channel_start[c]];
        assert_int_equal(own->from, p->rank[p->channel[c].from].device);
        assert_int_equal(own->to, p->rank[p->channel[c].to].device);
        for (size_t k = copies->channel_start[c]; k < copies->channel_start[c + 1]; k++) {
            uint32_t same = 0;
            while (same < q->channels &&
                   (q->rank[q->channel[same].from].device != copies->channel[k].from ||
                    q->rank[q->channel[same].to].device != copies->channel[k].to))
                same++;
            assert_true(same < q->channels && !met[same]);
            met[same] = true;
            assert_int_equal(copies->channel_replica[k], q->rank[q->channel[same].from].replica);
            assert_int_equal(copies->channel_replica[k], q->rank[q->channel[same].to].replica);
            expect_same_ops(s, p->channel[c].from, (struct choice){CHANNEL, c},
                            q->channel[same].from, (struct choice){CHANNEL, same});
        }
    }
    for (size_t c = 0; c < q->channels; c++)
        assert_true(met[c]);
    free(met);
}

/* The group of the whole program with these devices that has not been met. */
static uint32_t find_group(const struct setup *s, const uint32_t *device, size_t n, const bool *met,
                           uint32_t folded)
{
    const struct program *p = &s->folded, *q = &s->whole;
    uint8_t purpose = UINT8_MAX;
    uint32_t rank = p->member[p->group_start[folded]];
    for (size_t i = p->op_start[rank]; i < p->op_start[rank + 1]; i++)
        if (op_is_collective(&p->op[i]) && p->op[i].peer == folded)
            purpose = p->op[i].purpose;
    for (uint32_t g = 0; g < q->groups; g++) {
        size_t first = q->device_start[g];
        if (met[g] || q->device_start[g + 1] - first != n ||
            memcmp(q->device + first, device, n * sizeof *device) != 0)
            continue;
        uint32_t r = q->member[q->group_start[g]];
        uint8_t other = UINT8_MAX;
        for (size_t i = q->op_start[r]; i < q->op_start[r + 1]; i++)
            if (op_is_collective(&q->op[i]) && q->op[i].peer == g)
                other = q->op[i].purpose;
        if (other == purpose) /* experts and data may be the same devices */
            return g;
    }
    fail_msg("%s: a copy of group %u is no group of the whole program", s->text, folded);
    return 0;
}

static void check_groups(const struct setup *s)
{
    const struct program *p = &s->folded, *q = &s->whole;
    bool *met = calloc(q->groups + 1, sizeof *met);
    size_t copy = 0;
    assert_non_null(met);
    for (uint32_t g = 0; g < p->groups; g++) {
        size_t first = p->copies.device_start[g], n = p->device_start[g + 1] - p->device_start[g];
        size_t all = p->copies.device_start[g + 1] - first;
        assert_int_equal(all % n, 0);
        assert_int_equal(all / n, program_group_copies(p, g));
        assert_memory_equal(p->device + p->device_start[g], p->copies.device + first,
                            n * sizeof *p->device);
        for (size_t k = 0; k < all; k += n) {
            uint32_t same = find_group(s, p->copies.device + first + k, n, met, g);
            met[same] = true;
            assert_int_equal(program_group_copies(q, same), 1);
            uint32_t replica = p->copies.group_replica[copy++];
            for (size_t m = q->group_start[same]; m < q->group_start[same + 1]; m++)
                if (replica != PROGRAM_NONE)
                    assert_int_equal(q->rank[q->member[m]].replica, replica);
            expect_same_ops(s, p->member[p->group_start[g]], (struct choice){GROUP, g},
                            q->member[q->group_start[same]], (struct choice){GROUP, same});
        }
    }
    for (size_t g = 0; g < q->groups; g++)
        assert_true(met[g]);
    free(met);
}

static void tear_down(struct setup *s)
{
    program_free(&s->whole);
    program_free(&s->folded);
    plan_free(&s->plan);
    model_free(&s->model);
}

/* Up to four classes of replicas, numbered by their first one; {0} for one class. */
static void random_classes(uint64_t *seed, const struct plan *p, struct plan_classes *out)
{
    uint32_t number[4] = {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX};
    for (size_t s = 0; s < p->stages; s++)
        if (p->stage[s].expert_parallel > 1 || p->stage[s].context_parallel > 1 ||
            p->zero_group > 0)
            return;
    if (random_below(seed, 2) == 0)
        return;
    out->of = calloc(p->stage[0].replicas, sizeof *out->of);
    assert_non_null(out->of);
    for (uint32_t r = 0; r < p->stage[0].replicas; r++) {
        uint32_t *class = &number[random_below(seed, 4)];
        *class = *class == UINT32_MAX ? out->n++ : *class;
        out->of[r] = *class;
    }
}

static void copies_are_the_channels_and_groups_of_the_whole_program(void **state)
{
    struct topology t = sample_clique(DEVICES, 0, 1e9);
    uint64_t seed = 13;
    size_t lowered = 0;
    for (size_t k = 0; k < PLANS; k++) {
        struct setup s = {.model = random_model(&seed)};
        s.plan = random_plan(&seed, &s.model, DEVICES);
        random_plan_print(&s.plan, s.text);
        enum status st = plan_lower(&s.plan, &s.model, &t, &s.whole);
        if (st != STATUS_OK) {
            if (st != STATUS_UNSUPPORTED && st != STATUS_INVALID)
                fail_msg("%s: %s", s.text, error_message());
            assert_int_equal(plan_lower_folded(&s.plan, &s.model, &t, NULL, &s.folded), st);
        } else {
            struct plan_classes classes = {0};
            random_classes(&seed, &s.plan, &classes);
            if (plan_lower_folded(&s.plan, &s.model, &t, classes.n > 0 ? &classes : NULL,
                                  &s.folded) != STATUS_OK)
                fail_msg("%s: %s", s.text, error_message());
            assert_int_equal(s.folded.copies.classes, classes.n > 0 ? classes.n : 1);
            free(classes.of);
            assert_true(s.folded.folded);
            check_ranks(&s);
            check_channels(&s);
            check_groups(&s);
            lowered++;
        }
        tear_down(&s);
    }
    if (lowered < LEAST)
        fail_msg("only %zu of %d plans could be lowered", lowered, PLANS);
    topology_free(&t);
}

/* A stage on devices of two types: its replicas do not take equally long. */
static void stages_of_two_types_are_not_folded(void **state)
{
    struct topology t = sample_clique(4, 0, 1e9);
    struct setup s = {.model = sample_chain(2, 1e-3, 2e-3, 8, 8)};
    s.plan = sample_plan(&s.model, 2, 2, 4, "1f1b");
    struct device_type *type = realloc(t.type, 2 * sizeof *type);
    assert_non_null(type);
    t.type = type;
    t.type[1] = (struct device_type){
        .name = sample_text("other"), .flops = 2e12, .memory_Bps = 1e12, .memory_bytes = 1 << 30};
    t.types = 2;
    t.type_of[s.plan.stage[1].device[1]] = 1;
    assert_int_equal(plan_lower_folded(&s.plan, &s.model, &t, NULL, &s.folded), STATUS_OK);
    assert_false(s.folded.folded);
    assert_int_equal(s.folded.ranks, 4);
    program_free(&s.folded);
    t.type_of[s.plan.stage[1].device[0]] = 1; /* a type for each stage */
    assert_int_equal(plan_lower_folded(&s.plan, &s.model, &t, NULL, &s.folded), STATUS_OK);
    assert_true(s.folded.folded);
    tear_down(&s);
    topology_free(&t);
}

static void releases_everything_when_memory_runs_out(void **state)
{
    struct topology t = sample_clique(16, 0, 1e9);
    uint64_t seed = 5;
    struct setup s = {.model = random_model(&seed)};
    do {
        plan_free(&s.plan);
        s.plan = random_plan(&seed, &s.model, 16);
    } while (plan_lower_folded(&s.plan, &s.model, &t, NULL, &s.folded) != STATUS_OK);
    program_free(&s.folded);
    FOR_EACH_ALLOC_FAILURE(
        (program_free(&s.folded), plan_lower_folded(&s.plan, &s.model, &t, NULL, &s.folded)));
    tear_down(&s);
    topology_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_are_the_channels_and_groups_of_the_whole_program),
        cmocka_unit_test(stages_of_two_types_are_not_folded),
        cmocka_unit_test(releases_everything_when_memory_runs_out),
    };
    return cmocka_run_group_tests_name("copies", tests, NULL, NULL);
}
