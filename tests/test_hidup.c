/* HiDup's forms, operators, models, hints and strategy files: by hand and against the published
 * numbers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/provenance.h"
#include "papers/hidup/models.h"
#include "papers/hidup/ops.h"
#include "papers/hidup/search.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/sample.h"

/* ---- forms */

/* All pairs that are legal, with their steps, forward and backward; the others are not. */
static void every_pair_of_forms_has_its_steps_or_none(void **state)
{
    static const struct {
        const char *pairs;
        enum form_step step[2], back[2];
    } legal[] = {
        {"FF RR PP 00 11", {STEP_NONE}, {STEP_NONE}},
        {"F0 F1", {STEP_SLICE}, {STEP_NONE}},
        {"0F 1F", {STEP_ALLGATHER}, {STEP_REDUCESCATTER}},
        {"01 10", {STEP_ALLTOALL}, {STEP_ALLTOALL}},
        {"RF", {STEP_ALLREDUCE}, {STEP_ALLREDUCE}},
        {"R0 R1", {STEP_REDUCESCATTER}, {STEP_ALLGATHER}},
        {"PF", {STEP_REPLICATE}, {STEP_ALLREDUCE}},
        {"P0 P1", {STEP_REPLICATE, STEP_SLICE}, {STEP_ALLREDUCE, STEP_NONE}},
    };
    const char letters[] = "FRP01";
    for (const char *a = letters; *a; a++)
        for (const char *b = letters; *b; b++) {
            struct form_conversion c;
            bool may = form_convert(form_of_letter(*a), form_of_letter(*b), &c), known = false;
            for (size_t i = 0; i < sizeof legal / sizeof *legal; i++) {
                if (!strstr(legal[i].pairs, (char[]){*a, *b, '\0'}))
                    continue;
                known = true;
                for (size_t k = 0; k < 2; k++) {
                    assert_int_equal(c.step[k], legal[i].step[k]);
                    assert_int_equal(form_conjugate(c.step[k]), legal[i].back[k]);
                }
            }
            assert_int_equal(may, known);
        }
    assert_false(form_convert(FORM_NONE, FORM_FULL, &(struct form_conversion){{0}}));
}

static void forms_are_read_as_they_are_written(void **state)
{
    for (uint8_t f = 0; f < FORMS; f++) {
        assert_int_equal(form_of_letter(form_letter(f)), f);
        assert_int_equal(form_of_name(form_name(f)), f);
    }
    assert_int_equal(form_of_letter('X'), FORM_NONE);
    assert_int_equal(form_of_name("gather"), FORM_NONE);
}

/* ---- operators */

/* Has the last function exactly these signatures, in any order, and this work? */
static void expect(struct spmd_graph *g, const char *signatures, double flop)
{
    char own[SPMD_LETTERS], one[SPMD_LETTERS + 2], all[256];
    assert_int_equal(spmd_finish(g), STATUS_OK);
    const struct spmd_node *n = &g->node[g->nodes - 1];
    size_t count = 0;
    snprintf(all, sizeof all, " %s ", signatures);
    for (const char *s = signatures; *s; s++)
        count += *s == '>';
    if (n->signatures != count)
        fail_msg("%s has %zu signatures, not %zu", n->op, n->signatures, count);
    for (size_t i = 0; i < n->signatures; i++) {
        snprintf(one, sizeof one, " %s ", spmd_letters(n, &n->signature[i], own));
        if (!strstr(all, one))
            fail_msg("%s has%s", n->op, one);
    }
    assert_near(n->flop, flop, 1e-9);
    spmd_graph_free(g);
}

#define SIZES(...)                                                                                 \
    (sizeof((int64_t[]){__VA_ARGS__}) / 8), (int64_t[])                                            \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

static void products_have_the_signatures_of_the_paper(void **state)
{
    struct spmd_graph g = {0};
    uint32_t x = op_parameter(&g, "x", SIZES(4, 5, 6)), w = op_parameter(&g, "w", SIZES(7, 6));
    uint32_t b = op_parameter(&g, "b", SIZES(7));
    op_linear(&g, "l", x, w, b);
    assert_int_equal(g.tensor[g.tensors - 1].size[2], 7);
    expect(&g, "FFF>F 0FF>0 1FF>1 F00>2", 3.0 * 6 * 7 * 20);
    x = op_parameter(&g, "x", SIZES(4, 5, 6)), w = op_parameter(&g, "w", SIZES(7, 6));
    op_linear(&g, "l", x, w, SPMD_NO_TENSOR); /* r + 3 and the full one */
    expect(&g, "FF>F 0F>0 1F>1 F0>2 21>R RF>R", 3.0 * 6 * 7 * 20);
    x = op_parameter(&g, "x", SIZES(2, 3, 4)), w = op_parameter(&g, "w", SIZES(2, 4, 5));
    op_einsum(&g, "bmm", "m", x, w);
    expect(&g, "FF>F 00>0 1F>1 F2>2 21>R RF>R FR>R", 3.0 * 2 * 3 * 4 * 5);
    x = op_parameter(&g, "x", SIZES(2, 3, 4, 5)), w = op_parameter(&g, "w", SIZES(3, 5, 6));
    op_einsum(&g, "matmul", "m", x, w);
    expect(&g, "FF>F 10>1 2F>2 F2>3 31>R RF>R FR>R 0F>0", 3.0 * 2 * 3 * 4 * 5 * 6);
}

static void products_of_experts_have_five_signatures_and_the_full_one(void **state)
{
    enum { B = 2, S = 3, D = 4, E = 5, C = 6, H = 7 };
    static const struct {
        const char *op, *signatures, *published;
        int64_t a[4], b[4];
        double work;
    } rows[] = {
        {"dispatch",
         "FF>F 00>0 11>R 2F>3 F2>1 F3>2",
         NULL,
         {B, S, D},
         {B, S, E, C},
         B * S * D * E * C},
        {"expert_in",
         "FF>F 01>1 13>R 2F>3 F0>0 F2>2",
         NULL,
         {E, D, H},
         {B, E, C, D},
         B * E * C * D * H},
        {"expert_out",
         "FF>F 01>1 13>R 2F>3 F0>0 F2>2",
         NULL,
         {E, H, D},
         {B, E, C, H},
         B * E * C * D * H},
        {"combine",
         "FF>F 00>0 12>R 23>R 3F>2 F1>1",
         "FF>F 00>0 12>R 23>R 3F>2 F2>1",
         {B, E, C, D},
         {B, S, E, C},
         B * S * D * E * C},
    };
    for (size_t i = 0; i < 2 * sizeof rows / sizeof *rows; i++) {
        struct spmd_graph g = {.compat = i % 2 == 1};
        uint32_t x = op_parameter(&g, "x", rows[i / 2].a[3] ? 4 : 3, rows[i / 2].a);
        uint32_t y = op_parameter(&g, "y", rows[i / 2].b[3] ? 4 : 3, rows[i / 2].b);
        op_einsum(&g, rows[i / 2].op, "e", x, y);
        bool other = g.compat && rows[i / 2].published;
        expect(&g, other ? rows[i / 2].published : rows[i / 2].signatures, 3 * rows[i / 2].work);
    }
}

/* Operators of one tensor of 4 x 5 x 6 numbers. */
static void other_operators_have_the_signatures_of_the_paper(void **state)
{
    static const char every[] = "F>F 0>0 1>1 2>2", copies[] = "F>F 0>0 1>1 2>2 R>R";
    static const struct {
        const char *op, *signatures;
        double flop;
    } rows[] = {{"tanh", every, 360},     {"sigmoid", every, 360},     {"relu", every, 120},
                {"dropout", every, 2400}, {"contiguous", copies, 120}, {"clone", copies, 120}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct spmd_graph g = {0};
        op_elementwise(&g, rows[i].op, "y", op_parameter(&g, "x", SIZES(4, 5, 6)));
        expect(&g, rows[i].signatures, rows[i].flop);
    }
    struct spmd_graph g = {0};
    op_sum(&g, "y", op_parameter(&g, "x", SIZES(4, 5, 6)));
    expect(&g, "F>F 0>R 1>R 2>R R>R", 120);
    op_softmax(&g, "y", op_parameter(&g, "x", SIZES(4, 5, 6)), 1, false);
    expect(&g, "F>F 0>0 2>2", 600);
    op_softmax(&g, "y", op_parameter(&g, "x", SIZES(4, 5, 6)), 2, true);
    expect(&g, "F>F 0>0 1>1", 1800);
    op_chunk(&g, "y", op_parameter(&g, "x", SIZES(4, 5, 6)), 2, 2);
    expect(&g, "F>FF 0>00 1>11 R>RR", 0);
    op_transpose(&g, "y", op_parameter(&g, "x", SIZES(4, 5, 6)), 0, 1);
    expect(&g, "F>F 0>1 1>0 2>2 R>R", 0);
    op_flatten(&g, "y", op_parameter(&g, "x", SIZES(4, 5, 6)), 1);
    expect(&g, "F>F 0>0", 0);
    op_view(&g, "y", op_parameter(&g, "x", SIZES(4, 5, 6)), SIZES(4, 5, 2, 3));
    expect(&g, "F>F 0>0 1>1 R>R", 0);
    g.compat = true;
    op_view(&g, "y", op_parameter(&g, "x", SIZES(4, 5, 6)), SIZES(4, 5, 2, 3));
    expect(&g, "F>F R>R", 0);
    op_get_class(&g, "y", op_parameter(&g, "x", SIZES(4, 5, 6)));
    expect(&g, "F>F 0>0 2>1", 0);
}

static void operators_of_several_tensors_have_theirs(void **state)
{
    struct spmd_graph g = {.compat = true};
    uint32_t x = op_parameter(&g, "x", SIZES(4, 5, 6)), y = op_parameter(&g, "y", SIZES(4, 5, 6));
    op_binary(&g, "add", "z", x, y);
    expect(&g, "FF>F 00>0 11>1 22>2", 120);
    x = op_parameter(&g, "x", SIZES(4, 5, 6)), y = op_parameter(&g, "y", SIZES(4, 5, 6));
    op_binary(&g, "add", "z", x, y);
    expect(&g, "FF>F 00>0 11>1 22>2 RR>R", 120);
    x = op_parameter(&g, "x", SIZES(4, 5, 6)), y = op_parameter(&g, "y", SIZES(1, 6));
    op_binary(&g, "mul", "z", x, y);
    expect(&g, "FF>F 0F>0 1F>1 21>2 RF>R FR>R", 120);
    op_binary(&g, "truediv", "z", op_parameter(&g, "x", SIZES(4, 6)), SPMD_NO_TENSOR);
    expect(&g, "F>F 0>0 1>1 R>R", 24);
    op_binary(&g, "floordiv", "z", op_parameter(&g, "x", SIZES(4, 6)), SPMD_NO_TENSOR);
    expect(&g, "F>F 0>0 1>1", 24);
    x = op_parameter(&g, "x", SIZES(4, 5, 6)), y = op_parameter(&g, "w", SIZES(6));
    op_layer_norm(&g, "z", x, y, op_parameter(&g, "b", SIZES(6)));
    expect(&g, "FFF>F 0FF>0 1FF>1", 1200);
    x = op_parameter(&g, "x", SIZES(4, 5)), y = op_parameter(&g, "t", SIZES(100, 6));
    op_embedding(&g, "z", x, y);
    expect(&g, "FF>F 0F>0 1F>1 F1>2", 120);
    x = op_parameter(&g, "x", SIZES(4, 10, 5)), y = op_parameter(&g, "y", SIZES(4, 5));
    op_nll_loss(&g, "z", x, y);
    expect(&g, "FF>F 00>R 21>R", 200);
    x = op_parameter(&g, "x", SIZES(2, 3, 8, 8)), y = op_parameter(&g, "w", SIZES(5, 3, 4, 4));
    op_conv2d(&g, "z", x, y, op_parameter(&g, "b", SIZES(5)));
    expect(&g, "FFF>F 0FF>0 F00>1", 3.0 * 2 * 3 * 5 * 8 * 8);
    x = op_parameter(&g, "x", SIZES(4, 5, 6));
    op_append_class(&g, "z", x, op_parameter(&g, "c", SIZES(1, 1, 6)));
    expect(&g, "FF>F 0F>0 22>2", 0);
    x = op_parameter(&g, "x", SIZES(4, 5, 6));
    op_gate(&g, "z", x, op_parameter(&g, "w", SIZES(6, 7)), 3);
    expect(&g, "FF>FF 0F>00", 10.0 * 120 * 7 * 3);
    op_item(&g, "z", op_parameter(&g, "x", SIZES(4, 5)));
    expect(&g, "F>F R>R 0>0 1>1", 0);
}

static void attention_has_its_bias_right_unless_it_is_to_be_the_published_one(void **state)
{
    for (int compat = 0; compat < 2; compat++) {
        struct spmd_graph g = {.compat = compat};
        uint32_t x = op_parameter(&g, "x", SIZES(4, 5, 6));
        struct op_attention_weights w = {.mask = op_mask(&g, "m", SIZES(4, 4))};
        w.in_w = op_parameter(&g, "iw", SIZES(18, 6));
        w.in_b = op_parameter(&g, "ib", SIZES(18));
        w.out_w = op_parameter(&g, "ow", SIZES(6, 6));
        w.out_b = op_parameter(&g, "ob", SIZES(6));
        op_attention(&g, "a", x, &w);
        expect(&g, compat ? "FFFFFF>FF 1FFFFF>10 2001FF>RR" : "FFFFFF>FF 1FFFFF>10 F001FF>RR",
               3.0 * 20 * 6 * (24 + 8));
    }
}

static void operators_refuse_what_they_cannot_be(void **state)
{
    struct spmd_graph g = {0};
    op_elementwise(&g, "magic", "m", op_parameter(&g, "x", SIZES(4)));
    assert_int_equal(spmd_finish(&g), STATUS_INVALID);
    op_sum(&g, "s", 0); /* and nothing behind a failure */
    assert_int_equal(spmd_finish(&g), STATUS_INVALID);
    spmd_graph_free(&g);
    uint32_t x = op_parameter(&g, "x", SIZES(4, 5, 6));
    op_einsum(&g, "bmm", "m", x, x);
    assert_int_equal(spmd_finish(&g), STATUS_INVALID);
    spmd_graph_free(&g);
    op_chunk(&g, "c", op_parameter(&g, "x", SIZES(4)), 2, 1);
    assert_int_equal(spmd_finish(&g), STATUS_INVALID);
    spmd_graph_free(&g);
    op_transpose(&g, "c", op_parameter(&g, "x", SIZES(4)), 0, 1);
    assert_int_equal(spmd_finish(&g), STATUS_INVALID);
    spmd_graph_free(&g);
    op_flatten(&g, "c", op_parameter(&g, "x", SIZES(4)), 1);
    assert_int_equal(spmd_finish(&g), STATUS_INVALID);
    spmd_graph_free(&g);
}

/* ---- the published numbers */

static double seconds(const char *model, bool compat, enum spmd_overlap overlap, double devices,
                      size_t *stages)
{
    struct spmd_graph g = {0};
    struct arena memory = {0};
    struct spmd_found found;
    struct spmd_costs c = {spmd_machines[0]->profile, overlap, compat, NULL, NULL};
    c.profile.devices = devices;
    assert_int_equal(spmd_model(model, compat, &g), STATUS_OK);
    assert_int_equal(spmd_search(&(struct spmd_search){.graph = &g, .costs = &c}, &memory, &found),
                     STATUS_OK);
    assert_false(found.interrupted);
    *stages = found.strategy.stages;
    arena_free(&memory);
    spmd_graph_free(&g);
    return found.seconds;
}

static void the_numbers_of_the_published_code_come_out(void **state)
{
    static const struct {
        const char *model;
        double devices, seconds, within;
        size_t stages; /* 0: not known */
    } goldens[] = {
        {"tmlp:layers=1,batch=64", 8, 0.001754038, 5e-10, 0},
        {"tmlp:layers=1,batch=256", 8, 0.007016152, 5e-10, 0},
        {"tmlp:layers=2,batch=256,hidden=768", 8, 0.029551486, 5e-10, 3},
        {"tmlp:layers=3", 8, 0.045202728, 5e-10, 0},
        {"tmlp:layers=4", 8, 0.060853970, 5e-10, 0},
        {"tmlp:layers=2,batch=8", 8, 0.010096566, 5e-10, 2},
        {"tmlp:layers=2,hidden=4096", 8, 0.806756459, 5e-10, 0},
        {"tmlp:layers=2,batch=8,hidden=4096", 8, 0.069943571, 5e-10, 0},
        {"tmlp:layers=8", 8, 0.123459, 5e-7, 0},
        {"tmlp:layers=16", 8, 0.248669, 5e-7, 0},
        {"tmlp:layers=32", 8, 0.499089, 5e-7, 0},
        {"tmlp:layers=8,batch=64", 2, 0.123459, 5e-7, 0},
        {"tmlp:layers=8,batch=128", 4, 0.123459, 5e-7, 0},
        {"tmlp:layers=8,batch=512", 16, 0.123459, 5e-7, 0},
        {"tmlp:layers=8,batch=2048", 64, 0.123459, 5e-7, 0},
    };
    for (size_t i = 0; i < sizeof goldens / sizeof *goldens; i++) {
        size_t stages;
        assert_near(seconds(goldens[i].model, true, OVERLAP_FORWARD, goldens[i].devices, &stages),
                    goldens[i].seconds, goldens[i].within);
        if (goldens[i].stages)
            assert_int_equal(stages, goldens[i].stages);
    }
}

static void more_overlap_never_costs_time(void **state)
{
    static const char *const models[] = {"tmlp:layers=3", "tmlp2:layers=2", "ttransformer:layers=1",
                                         "tmoe:layers=2"};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        for (int compat = 0; compat < 2; compat++) {
            size_t stages;
            double full = seconds(models[i], compat, OVERLAP_FULL, 8, &stages);
            double forward = seconds(models[i], compat, OVERLAP_FORWARD, 8, &stages);
            double none = seconds(models[i], compat, OVERLAP_NONE, 8, &stages);
            assert_true(full <= forward && (forward <= none || !compat)); /* fewer latencies */
        }
}

/* ---- models, hints, files */

static void models_say_what_they_do_not_know(void **state)
{
    struct spmd_graph g = {0};
    assert_int_equal(spmd_model("tmpl", false, &g), STATUS_INVALID);
    assert_message(error_message(), "'tmpl' tmlp tmlp2");
    static const char *const wrong[] = {
        "tmlp:layers",  "tmlp:layers=0", "tmlp:layers=1001", "tmlp:layers=-1",
        "tmlp:depth=2", "tmlp:",         "tmlp:layers=2x"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(spmd_model(wrong[i], false, &g), STATUS_INVALID);
    assert_int_equal(g.nodes, 0);
    assert_int_equal(spmd_model("ttransformer:layers=1000", false, &g), STATUS_UNSUPPORTED);
    FOR_EACH_ALLOC_FAILURE(spmd_model("tmoe:layers=2", false, &g));
    spmd_graph_free(&g);
}

static void a_hint_is_kept_or_its_node_is_named(void **state)
{
    struct spmd_graph g = {0};
    struct arena memory = {0};
    struct spmd_found free_one, found;
    struct spmd_costs c = {spmd_machines[0]->profile, OVERLAP_FORWARD, true, NULL, NULL};
    c.profile.devices = 8;
    const struct spmd_search q = {.graph = &g, .costs = &c};
    assert_int_equal(spmd_model("tmlp:layers=2", true, &g), STATUS_OK);
    assert_int_equal(spmd_search(&q, &memory, &free_one), STATUS_OK);
    assert_int_equal(spmd_restrict(&g, "h1.linear=full"), STATUS_OK);
    assert_int_equal(spmd_restrict(&g, "h0.linear.weight=P+0"), STATUS_OK);
    assert_int_equal(spmd_search(&q, &memory, &found), STATUS_OK);
    assert_true(found.seconds > free_one.seconds);
    for (size_t i = 0; i < g.nodes; i++)
        if (!strcmp(g.node[i].name, "h1.linear"))
            assert_int_equal(found.strategy.chosen[i].made[0], FORM_FULL);
    assert_int_equal(spmd_restrict(&g, "h0.sigmoid=reduce"), STATUS_INFEASIBLE);
    assert_message(error_message(), "'h0.sigmoid' (sigmoid) supports only the layouts");
    assert_int_equal(spmd_restrict(&g, "h9.linear=full"), STATUS_USAGE);
    assert_int_equal(spmd_restrict(&g, "h0.linear=maybe"), STATUS_USAGE);
    assert_int_equal(spmd_restrict(&g, "h0.linear"), STATUS_USAGE);
    assert_int_equal(spmd_restrict(&g, "output=full"), STATUS_USAGE);
    spmd_graph_free(&g);
    /* possible by itself, and nowhere to go with it */
    assert_int_equal(spmd_model("tmlp:layers=1", true, &g), STATUS_OK);
    assert_int_equal(spmd_restrict(&g, "sum=full"), STATUS_OK);
    assert_int_equal(spmd_search(&q, &memory, &found), STATUS_INFEASIBLE);
    assert_message(error_message(), "'output'");
    arena_free(&memory);
    spmd_graph_free(&g);
}

static char *text_of(const struct spmd_graph *g, const struct spmd_strategy *s)
{
    const struct provenance by = {"version", "command", NULL, 1};
    struct file_text out = {0};
    assert_int_equal(file_text_open(&out), STATUS_OK);
    spmd_put(g, s, &by, out.stream);
    assert_int_equal(file_text_close(&out, STATUS_OK), STATUS_OK);
    return out.text;
}

static enum status read_text(const char *text, const struct spmd_graph *g, struct arena *memory,
                             struct spmd_strategy *out)
{
    struct json_document d = {0};
    enum status st = json_parse("s.json", text, strlen(text), NULL, 1, &d);
    if (st == STATUS_OK)
        st = spmd_read(&d, g, "model", memory, out);
    json_document_free(&d);
    return st;
}

static void strategies_are_read_as_they_were_written(void **state)
{
    static const char *const models[] = {"tmlp:layers=2", "tmlp2:layers=1", "ttransformer:layers=1",
                                         "tmoe:layers=2"};
    for (size_t i = 0; i < 2 * sizeof models / sizeof *models; i++) {
        struct spmd_graph g = {0};
        struct arena memory = {0};
        struct spmd_found found;
        struct spmd_strategy again;
        struct spmd_costs c = {spmd_machines[0]->profile, OVERLAP_FULL, i % 2, NULL, NULL};
        c.profile.devices = 8;
        assert_int_equal(spmd_model(models[i / 2], i % 2, &g), STATUS_OK);
        assert_int_equal(
            spmd_search(&(struct spmd_search){.graph = &g, .costs = &c}, &memory, &found),
            STATUS_OK);
        found.strategy.model = "model";
        char *text = text_of(&g, &found.strategy);
        assert_int_equal(read_text(text, &g, &memory, &again), STATUS_OK);
        assert_true(spmd_seconds(&c, &g, &again) == found.seconds);
        char *copy = text_of(&g, &again);
        assert_string_equal(text, copy);
        free(text);
        free(copy);
        arena_free(&memory);
        spmd_graph_free(&g);
    }
}

/* The text with the first `from` behind `behind` replaced; malloc'd. */
static char *with(const char *text, const char *behind, const char *from, const char *to)
{
    const char *at = strstr(strstr(text, behind), from);
    size_t size = strlen(text) + strlen(to) + 1;
    char *out = malloc(size);
    assert_true(at && out);
    snprintf(out, size, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    return out;
}

static void a_strategy_file_that_is_wrong_is_refused_with_its_place(void **state)
{
    static const struct {
        const char *behind, *from, *to, *message;
    } wrong[] = {
        {"\"model\"", "\"model\": \"model\"", "\"model\": \"other\"",
         "for model 'other', expected 'model'"},
        {"computations", "\"x\"", "\"z\"", "expected 'x'"},
        {"\"y\"", "\"y\"", "\"x\"", "expected 'y'"},
        {"\"x\"", "\">0\"", "\">3\"", "no signature"},
        {"\"h0.linear\"", "\"node\": \"h0.sigmoid\"", "\"node\": \"h0.linear\"", "as the next"},
        {"communications", "[]", "[{}]", "communications"},
        {"\"tensor\"", "\"tensor\"", "\"tensr\"", "tensor"},
        {"\"tensor\"", "\"from\": \"", "\"from\": \"x", "need"},
        {"\"format\"", "strategy", "plan", "format"},
    };
    struct spmd_graph g = {0};
    struct arena memory = {0};
    struct spmd_found found;
    struct spmd_strategy again;
    struct spmd_costs c = {spmd_machines[0]->profile, OVERLAP_FORWARD, true, NULL, NULL};
    c.profile.devices = 8;
    assert_int_equal(spmd_model("tmlp:layers=2", true, &g), STATUS_OK);
    assert_int_equal(spmd_search(&(struct spmd_search){.graph = &g, .costs = &c}, &memory, &found),
                     STATUS_OK);
    found.strategy.model = "model";
    char *text = text_of(&g, &found.strategy);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char *edited = with(text, wrong[i].behind, wrong[i].from, wrong[i].to);
        assert_int_equal(read_text(edited, &g, &memory, &again), STATUS_PARSE);
        if (!message_says(error_message(), wrong[i].message))
            fail_msg("%s, not '%s'", error_message(), wrong[i].message);
        free(edited);
    }
    free(text);
    arena_free(&memory);
    spmd_graph_free(&g);
}

static void every_failed_allocation_is_reported(void **state)
{
    struct spmd_graph g = {0};
    struct arena memory = {0};
    struct spmd_found found;
    struct spmd_costs c = {spmd_machines[0]->profile, OVERLAP_FULL, false, NULL, NULL};
    c.profile.devices = 4;
    const struct spmd_search q = {.graph = &g, .costs = &c};
    assert_int_equal(spmd_model("tmlp:layers=1", false, &g), STATUS_OK);
    FOR_EACH_ALLOC_FAILURE(spmd_search(&q, &memory, &found));
    arena_free(&memory);
    spmd_graph_free(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pair_of_forms_has_its_steps_or_none),
        cmocka_unit_test(forms_are_read_as_they_are_written),
        cmocka_unit_test(products_have_the_signatures_of_the_paper),
        cmocka_unit_test(products_of_experts_have_five_signatures_and_the_full_one),
        cmocka_unit_test(other_operators_have_the_signatures_of_the_paper),
        cmocka_unit_test(operators_of_several_tensors_have_theirs),
        cmocka_unit_test(attention_has_its_bias_right_unless_it_is_to_be_the_published_one),
        cmocka_unit_test(operators_refuse_what_they_cannot_be),
        cmocka_unit_test(the_numbers_of_the_published_code_come_out),
        cmocka_unit_test(more_overlap_never_costs_time),
        cmocka_unit_test(models_say_what_they_do_not_know),
        cmocka_unit_test(a_hint_is_kept_or_its_node_is_named),
        cmocka_unit_test(strategies_are_read_as_they_were_written),
        cmocka_unit_test(a_strategy_file_that_is_wrong_is_refused_with_its_place),
        cmocka_unit_test(every_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
