/* Pictures of cuts and graphs: where boxes and lines stand, which cuts are the front, and tables by
 * hand. */
#include "plots/kind.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/random.h"
#include "plots/layered.h"
#include "tests/cmocka.h"
#include "tests/fault.h"

static const struct provenance by = {"foreline test", "plot", NULL, 0};
#define MADE_BY "# plotted by foreline test: plot\n"
static const char svg[] = "test_plot_graph.svg", tsv[] = "test_plot_graph.tsv";

static void need_gnuplot(void)
{
    if (system("command -v gnuplot >/dev/null 2>&1") != 0) {
        print_message("gnuplot is not installed\n");
        skip();
    }
}

static enum status draw(const char *kind, const char *text, struct plot_source s)
{
    enum status st;
    const struct plot_kind *k;
    const char *const path[] = {"t.tsv"};
    struct plot_table t = {0};
    TRY(table_parse("t.tsv", text, strlen(text), &t));
    s.n = 1;
    s.path = path;
    s.table = &t;
    TRY(plot_kind_find(kind, &k));
    st = k->draw(&s, svg, &by);
out:
    table_free(&t);
    return st;
}

static char *slurp(const char *path)
{
    char *text = NULL;
    size_t length;
    assert_int_equal(file_read(path, &text, &length), STATUS_OK);
    remove(path);
    return text;
}

static void expect(enum status st, const char *table)
{
    if (st != STATUS_OK)
        fail_msg("%s", error_message());
    char *text = slurp(tsv);
    assert_memory_equal(text, MADE_BY, strlen(MADE_BY));
    assert_string_equal(text + strlen(MADE_BY), table);
    free(text);
}

static bool has(const char *text, const char *word)
{
    return strstr(text, word) != NULL;
}

/* ---- layered drawings */

/* A diamond with a line beside it: 0 -> 1 -> 3 -> 4, 0 -> 2 -> 3, 0 -> 4. */
static void a_diamond_has_four_columns_and_one_line_for_all_readers(void **state)
{
    static const struct layered_edge edge[] = {{0, 1}, {0, 2}, {1, 3}, {2, 3}, {0, 4}, {3, 4}};
    static const double box[5] = {10, 10, 10, 10, 10};
    static const size_t column[5] = {0, 1, 1, 2, 3};
    struct layered l;
    assert_int_equal(layered_place(5, edge, 6, box, 4, &l), STATUS_OK);
    assert_int_equal(l.columns, 4);
    assert_int_equal(l.items, 7); /* from 0 to 4 past two columns */
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(l.item[i].column, column[i]);
        assert_false(l.item[i].passes);
    }
    assert_int_equal(l.source[0], 0);
    assert_int_equal(l.source[4], 6);
    assert_int_equal(l.item[6].before, 5);
    assert_int_equal(l.item[5].before, 0);
    assert_true(fabs(l.item[1].y - l.item[2].y) >= 14 - 1e-9);
    layered_free(&l);
    layered_free(&l);
}

/* An input that is read late stands beside its reader, and not at the left end. */
static void inputs_stand_before_their_first_reader(void **state)
{
    static const struct layered_edge edge[] = {{0, 1}, {1, 2}, {2, 4}, {3, 4}};
    static const double box[5] = {1, 1, 1, 1, 1};
    struct layered l;
    assert_int_equal(layered_place(5, edge, 4, box, 1, &l), STATUS_OK);
    assert_int_equal(l.item[3].column, 2);
    assert_int_equal(l.items, 5);
    layered_free(&l);
    assert_int_equal(layered_place(1, NULL, 0, box, 1, &l), STATUS_OK);
    assert_int_equal(l.columns, 1);
    layered_free(&l);
}

enum { NODES = 60 };

static size_t random_edges(uint64_t seed, size_t n, struct layered_edge *edge, double *box)
{
    size_t edges = 0;
    for (size_t to = 0; to < n; to++) {
        box[to] = 10 + (double)(random_next(&seed) % 40);
        for (size_t from = to > 12 ? to - 12 : 0; from < to; from++)
            if (random_next(&seed) % 6 == 0)
                edge[edges++] = (struct layered_edge){from, to};
    }
    return edges;
}

/* Whatever the graph: lines go to the right, column by column, and nothing overlaps. */
static void nothing_overlaps(void **state)
{
    static struct layered_edge edge[NODES * 12];
    double box[NODES];
    const double gap = 5;
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct layered l;
        size_t n = 2 + seed % (NODES - 1), edges = random_edges(seed, n, edge, box);
        assert_int_equal(layered_place(n, edge, edges, box, gap, &l), STATUS_OK);
        for (size_t k = 0; k < edges; k++) {
            size_t at = l.source[k];
            assert_int_equal(l.item[at].column + 1, l.item[edge[k].to].column);
            for (; l.item[at].passes; at = l.item[at].before)
                assert_int_equal(l.item[l.item[at].before].column + 1, l.item[at].column);
            assert_int_equal(at, edge[k].from);
        }
        for (size_t a = 0; a < l.items; a++) {
            const struct layered_item *x = &l.item[a];
            assert_true(x->y - x->height / 2 >= -1e-6 && x->y + x->height / 2 <= l.height + 1e-6);
            for (size_t b = 0; b < a; b++)
                if (l.item[b].column == x->column)
                    assert_true(fabs(l.item[b].y - x->y) >=
                                (l.item[b].height + x->height) / 2 + gap - 1e-6);
        }
        layered_free(&l);
    }
}

/* Of two lines that need not cross, none do: the order of readers is that of what they read. */
static void lines_that_need_not_cross_do_not(void **state)
{
    static const struct layered_edge edge[] = {{0, 1}, {0, 2}, {0, 3}, {3, 4}, {2, 5}, {1, 6}};
    static const double box[7] = {1, 1, 1, 1, 1, 1, 1};
    struct layered l;
    assert_int_equal(layered_place(7, edge, 6, box, 1, &l), STATUS_OK);
    for (size_t a = 3; a < 6; a++)
        for (size_t b = 3; b < a; b++)
            assert_true((l.item[edge[a].from].y - l.item[edge[b].from].y) *
                            (l.item[edge[a].to].y - l.item[edge[b].to].y) >
                        0);
    layered_free(&l);
}

static enum status place_some(void)
{
    static struct layered_edge edge[NODES * 12];
    double box[NODES];
    struct layered l = {0};
    enum status st = layered_place(NODES, edge, random_edges(3, NODES, edge, box), box, 5, &l);
    layered_free(&l);
    return st;
}

/* ---- graphs */

static const char model[] = "op\tlayer\tstage\tinputs\nin\t\t0: a + 1\t\nb.one\tb\t0: a + 1\t0\n"
                            "b.two\tb\t1: c\t1\nout\t\t1: c\t2,0\n";

static void a_graph_has_a_box_for_each_op(void **state)
{
    need_gnuplot();
    expect(draw("graph", model, (struct plot_source){0}),
           "# box\tops\tfirst\tlast\tstage\tcolumn\treads\n"
           "0\t1\tin\tin\t0: a + 1\t0\t\n1\t1\tb.one\tb.one\t0: a + 1\t1\t0\n"
           "2\t1\tb.two\tb.two\t1: c\t2\t1\n3\t1\tout\tout\t1: c\t3\t0,2\n");
    char *text = slurp(svg);
    assert_true(has(text, ">0: a + 1<") && has(text, ">b.one<") && has(text, ">out<"));
    assert_true(has(text, "4 ops in 4 boxes; black: between stages"));
    free(text);
}

/* 45 layers of two ops in two stages that share the sixteenth, and a chain of ops without layers
 * behind: a box for each layer's part in a stage, and the chain is one with the last layer. */
static void large_models_have_a_box_for_each_layer(void **state)
{
    need_gnuplot();
    char text[8192];
    size_t n = (size_t)sprintf(text, "op\tlayer\tstage\tinputs\nx\t\t0: a\t\n");
    for (int i = 0; i < 90; i++)
        n += (size_t)sprintf(text + n, "h%d.%c\th%d\t%s\t%d%s\n", i / 2, i % 2 ? 'q' : 'p', i / 2,
                             i < 31 ? "0: a" : "1: b", i, i % 2 || i == 0 ? "" : ",0");
    for (int i = 90; i < 96; i++)
        n += (size_t)sprintf(text + n, "end%d\t\t1: b\t%d\n", i, i);
    assert_int_equal(draw("graph", text, (struct plot_source){0}), STATUS_OK);
    char *drawn = slurp(svg);
    assert_true(has(drawn, "97 ops in 47 boxes"));
    free(drawn);
    drawn = slurp(tsv);
    assert_true(has(drawn, "\n16\t1\th15.p\th15.p\t0: a\t16\t0,15\n"));
    assert_true(has(drawn, "\n17\t1\th15.q\th15.q\t1: b\t17\t16\n"));
    assert_true(has(drawn, "\n46\t8\th44.p\tend95\t1: b\t46\t0,45\n"));
    free(drawn);
}

static void graphs_that_cannot_be_drawn_are_refused(void **state)
{
    static char text[40000];
    size_t n = (size_t)sprintf(text, "op\tlayer\tstage\tinputs\nx\t\t\t\ny\t\t\t\n");
    for (int i = 2; i < 600; i++)
        n += (size_t)sprintf(text + n, "o%d\t\t\t0,1\n", i);
    assert_int_equal(draw("graph", text, (struct plot_source){0}), STATUS_INVALID);
    assert_message(error_message(), "600 boxes");
    assert_int_equal(
        draw("graph", "op\tlayer\tstage\tinputs\nx\t\t64: a\t\n", (struct plot_source){0}),
        STATUS_INVALID);
    assert_message(error_message(), "stage 64");
    assert_int_equal(draw("graph", "op\tstage\nx\t\n", (struct plot_source){0}), STATUS_INVALID);
    need_gnuplot();
    assert_int_equal(
        draw("graph", model, (struct plot_source){.style = {.width = 480, .height = 60}}),
        STATUS_USAGE);
}

/* ---- candidates */

static const char cuts[] =
    "# foreline 0.1: plan\nproposer\tcut_bytes\tsamples_per_s\titeration_s\tfits\n"
    "b\t2048\t10\t0.4\t1\na\t1024\t9\t0.5\t1\na\t1024\t8\t0.6\t1\n"
    "b\t3072\t9.5\t0.45\t1\nc\t4096\t99\t0.1\t0\nb\t5120\t12\t0.3\t1\n";

static void the_front_has_what_no_smaller_cut_is_as_fast_as(void **state)
{
    need_gnuplot();
    expect(draw("candidates", cuts, (struct plot_source){0}),
           "# proposer\tcut (KiB)\tsamples per second\tfront\n"
           "a\t1\t9\tfront\na\t1\t8\t-\nb\t2\t10\tfront\nb\t3\t9.5\t-\nb\t5\t12\tbest\n");
    char *text = slurp(svg);
    assert_true(has(text, ">b: 12<") && has(text, "1 of 6 do not fit into memory"));
    assert_false(has(text, ">c<")); /* who has no point has no key */
    free(text);
    expect(draw("candidates", cuts, (struct plot_source){.y = "iteration_s", .by = "fits"}),
           "# fits\tcut (KiB)\titeration (ms)\tfront\n"
           "1\t1\t500\tfront\n1\t1\t600\t-\n1\t2\t400\tfront\n1\t3\t450\t-\n1\t5\t300\tbest\n");
    expect(draw("candidates", "proposer\tcut_bytes\titeration_s\tfits\nx\t0\t2\t0\n",
                (struct plot_source){0}),
           "# proposer\tcut (KiB)\titeration (s)\tfront\nx\t0\t2\tbest\n");
}

static void candidates_that_cannot_be_drawn_are_refused(void **state)
{
    assert_int_equal(draw("candidates", "a\tb\n1\t2\n", (struct plot_source){0}), STATUS_INVALID);
    assert_int_equal(draw("candidates", "proposer\tcut_bytes\titeration_s\nx\tmuch\t2\n",
                          (struct plot_source){0}),
                     STATUS_INVALID);
    assert_message(error_message(), "'cut_bytes' not numbers");
    assert_int_equal(draw("candidates", "proposer\tcut_bytes\titeration_s\nx\t0\t2\n",
                          (struct plot_source){.style = {.log_x = true}}),
                     STATUS_USAGE);
}

static enum status draw_both(void)
{
    enum status st = draw("candidates", "proposer\tcut_bytes\titeration_s\nx\t0\t2\ny\t1\t1\n",
                          (struct plot_source){0});
    return st == STATUS_OK ? draw("graph", model, (struct plot_source){0}) : st;
}

static void releases_everything_when_memory_runs_out(void **state)
{
    FOR_EACH_ALLOC_FAILURE(place_some());
    need_gnuplot();
    FOR_EACH_ALLOC_FAILURE(draw_both());
    remove(svg);
    remove(tsv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_diamond_has_four_columns_and_one_line_for_all_readers),
        cmocka_unit_test(inputs_stand_before_their_first_reader),
        cmocka_unit_test(nothing_overlaps),
        cmocka_unit_test(lines_that_need_not_cross_do_not),
        cmocka_unit_test(a_graph_has_a_box_for_each_op),
        cmocka_unit_test(large_models_have_a_box_for_each_layer),
        cmocka_unit_test(graphs_that_cannot_be_drawn_are_refused),
        cmocka_unit_test(the_front_has_what_no_smaller_cut_is_as_fast_as),
        cmocka_unit_test(candidates_that_cannot_be_drawn_are_refused),
        cmocka_unit_test(releases_everything_when_memory_runs_out),
    };
    return cmocka_run_group_tests_name("plot_graph", tests, NULL, NULL);
}
