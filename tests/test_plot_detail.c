/* Pictures of much: windows and shares of timelines, names that are long or strange, many plans,
 * large platforms. */
#include "plots/kind.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/random.h"
#include "plots/tree.h"
#include "tests/cmocka.h"
#include "tests/fault.h"

static const struct provenance by = {"foreline test", "plot", NULL, 0};
#define MADE_BY "# plotted by foreline test: plot\n"
static const char svg[] = "test_plot_detail.svg", tsv[] = "test_plot_detail.tsv";
static const char *const trace = "test_plot_detail.json";

static void need_gnuplot(void)
{
    if (system("command -v gnuplot >/dev/null 2>&1") != 0) {
        print_message("gnuplot is not installed\n");
        skip();
    }
}

static char *slurp(const char *path)
{
    char *text = NULL;
    size_t length;
    assert_int_equal(file_read(path, &text, &length), STATUS_OK);
    return text;
}

/* ---- timelines */

struct op {
    int rank, category; /* 0: forward, 1: backward, 2: send */
    int start, end;     /* microseconds */
};

static void write_trace(const struct op *op, size_t n)
{
    static const char *const category[] = {"forward", "backward", "send"};
    FILE *f = fopen(trace, "w");
    assert_non_null(f);
    fputs("{\"traceEvents\": [", f);
    for (size_t i = 0; i < n; i++)
        fprintf(f,
                "%s{\"name\": \"op%zu\", \"cat\": \"%s\", \"ph\": \"X\", \"ts\": %d, \"dur\": %d, "
                "\"pid\": %d}\n",
                i ? "," : "", i, category[op[i].category], op[i].start, op[i].end - op[i].start,
                op[i].rank);
    fputs("]}", f);
    assert_int_equal(fclose(f), 0);
}

static enum status draw(const struct timeline_window *w)
{
    return plot_timeline(&trace, 1, w, svg, &by);
}

static void drawn(const struct timeline_window *w)
{
    if (draw(w) != STATUS_OK)
        fail_msg("%s", error_message());
}

static size_t count(const char *text, const char *what)
{
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, what)); at += strlen(what))
        n++;
    return n;
}

static void a_window_shows_its_ops_and_ranks_alone(void **state)
{
    need_gnuplot();
    static const struct op op[] = {
        {0, 0, 0, 10}, {0, 1, 10, 30}, {1, 0, 5, 12}, {2, 0, 20, 40}, {9, 1, 30, 50}};
    write_trace(op, 5);
    drawn(&(struct timeline_window){.from_s = 11e-6, .to_s = 21e-6});
    char *text = slurp(tsv);
    assert_null(strstr(text, "op0")); /* ended before */
    assert_null(strstr(text, "op4")); /* begins behind */
    assert_non_null(strstr(text, "op1"));
    assert_non_null(strstr(text, "op2"));
    assert_non_null(strstr(text, "op3"));
    free(text);
    drawn(&(struct timeline_window){.ranks = "0,2-9"});
    text = slurp(tsv);
    assert_null(strstr(text, "rank 1"));
    assert_int_equal(count(text, "\trank "), 4);
    free(text);
    text = slurp(svg);
    assert_non_null(strstr(text, "only ranks 0,2-9"));
    assert_null(strstr(text, ">rank 1<"));
    free(text);
    static const char *const wrong[] = {"", "x", "1,", ",1", "3-1", "-1", "1-2-3", "1;2", "1.5"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(draw(&(struct timeline_window){.ranks = wrong[i]}), STATUS_USAGE);
    assert_int_equal(draw(&(struct timeline_window){.ranks = "3-8"}), STATUS_INVALID);
    assert_int_equal(draw(&(struct timeline_window){.ranks = "0,9999"}), STATUS_USAGE);
    assert_message(error_message(), "--ranks rank 9999");
    assert_int_equal(draw(&(struct timeline_window){.ranks = "0-10"}), STATUS_USAGE);
    assert_int_equal(draw(&(struct timeline_window){.from_s = 5e-5}), STATUS_INVALID);
    assert_int_equal(draw(&(struct timeline_window){.from_s = 2e-5, .to_s = 1e-5}), STATUS_USAGE);
    FOR_EACH_ALLOC_FAILURE(draw(&(struct timeline_window){.ranks = "0,2-9", .to_s = 1}));
}

/* Three of the share columns of a line: communication, forward, backward. */
static size_t read_shares(const char *text, const char *row, double (*share)[3])
{
    size_t n = 0, length = strlen(row);
    for (const char *at = text; *at; at += strcspn(at, "\n") + 1) {
        double from, to, copies, compute;
        if (strncmp(at, row, length) != 0 || at[length] != '\t')
            continue;
        assert_int_equal(sscanf(at + length, "%lf %lf %lf %lf %lf %lf %lf", &from, &to, &copies,
                                &share[n][0], &compute, &share[n][1], &share[n][2]),
                         7);
        n++;
    }
    return n;
}

/* Ops far narrower than a pixel, overlapping within a category: every microsecond is looked at. */
static void shares_agree_with_counting_every_microsecond(void **state)
{
    need_gnuplot();
    enum { OPS = 6000, COLUMN = 50, MOST = 400 };
    static struct op op[OPS];
    static unsigned char busy[2][3][MOST * COLUMN];
    double share[MOST][3];
    for (uint64_t seed = 1; seed <= 3; seed++) {
        uint64_t r = seed;
        memset(busy, 0, sizeof busy);
        for (size_t i = 0; i < OPS; i++) { /* forward and backward never at once */
            int third = (int)(random_next(&r) % 3), start = (int)(random_next(&r) % 9000);
            start = third == 2 ? start : start / 20 * 20 + third * 10;
            op[i] = (struct op){(int)(i % 2), third, start, start + 1 + (int)(random_next(&r) % 9)};
        }
        write_trace(op, OPS);
        for (size_t i = 0; i < OPS; i++)
            memset(&busy[op[i].rank][op[i].category][op[i].start], 1,
                   (size_t)(op[i].end - op[i].start));
        drawn(&(struct timeline_window){.to_s = 1});
        char *text = slurp(tsv);
        size_t columns = read_shares(text, "rank 1", share);
        free(text);
        assert_in_range(columns, 100, MOST);
        drawn(&(struct timeline_window){.to_s = (double)columns * COLUMN * 1e-6});
        text = slurp(tsv);
        for (int rank = 0; rank < 2; rank++) {
            assert_int_equal(read_shares(text, rank ? "rank 1" : "rank 0", share), columns);
            for (size_t c = 0; c < columns; c++)
                for (int k = 0; k < 3; k++) {
                    static const int category[] = {2, 0, 1}; /* in the order of the table */
                    int sum = 0;
                    for (size_t us = c * COLUMN; us < (c + 1) * COLUMN; us++)
                        sum += busy[rank][category[k]][us];
                    assert_float_equal(share[c][k], (double)sum / COLUMN, 1e-4);
                }
        }
        free(text);
    }
}

/* 130 ranks become rows of four; in each half of them are busy, in the last one of two. */
static void many_ranks_share_rows(void **state)
{
    need_gnuplot();
    static struct op op[130];
    double share[400][3];
    for (int i = 0; i < 130; i++)
        op[i] = (struct op){i, i % 2, 0, 1000};
    write_trace(op, 130);
    drawn(&(struct timeline_window){0});
    char *text = slurp(tsv);
    assert_non_null(strstr(text, "\nranks 124–127\t"));
    assert_null(strstr(text, "\nrank "));
    assert_true(read_shares(text, "ranks 128–129", share) > 100);
    assert_float_equal(share[50][1], 0.5, 1e-6);
    assert_float_equal(share[50][2], 0.5, 1e-6);
    free(text);
    text = slurp(svg);
    assert_message(text, "mean 4 ranks");
    free(text);
    remove(trace);
}

/* ---- names and many plans */

/* 30 plans in one corner, and one whose name is long: the key has them all. */
static void many_plans_have_letters_and_a_key(void **state)
{
    need_gnuplot();
    enum { PLANS = 30 };
    char plan[PLANS][128];
    struct measurement m[2 * PLANS] = {0};
    const char *name[2 * PLANS];
    for (int i = 0; i < PLANS; i++) {
        snprintf(plan[i], sizeof plan[i], i ? "plan-%d.json" : "%d%0100d-end.json", i, 7);
        for (int k = 0; k < 2; k++) {
            m[2 * i + k] = (struct measurement){.engine = k ? (char *)"tcp" : (char *)"simgrid",
                                                .plan = plan[i],
                                                .iteration_s = i < 28 ? 1 + i * 1e-4 : 1e-6 * i};
            name[2 * i + k] = plan[i];
        }
    }
    assert_int_equal(plot_scatter(m, name, sizeof m / sizeof *m, svg, &by), STATUS_OK);
    char *text = slurp(svg);
    for (int i = 1; i < PLANS; i++) {
        char one[32];
        snprintf(one, sizeof one, ">plan-%d<", i);
        assert_int_equal(count(text, one), 1);
    }
    assert_int_equal(count(text, ">ad<"), 2); /* at the point, and in the key */
    assert_non_null(strstr(text, "…"));
    free(text);
    text = slurp(tsv);
    assert_non_null(strstr(text, plan[0])); /* the table has whole names */
    free(text);
    assert_int_equal(plot_bars(m, name, sizeof m / sizeof *m, svg, &by), STATUS_OK);
    text = slurp(tsv);
    plan[0][strlen(plan[0]) - strlen(".json")] = '\0';
    assert_non_null(strstr(text, plan[0]));
    free(text);
}

static void draw_table(const char *text, struct plot_source s)
{
    struct plot_table t = {0};
    const char *const path[] = {"t.tsv"};
    assert_int_equal(table_parse("t.tsv", text, strlen(text), &t), STATUS_OK);
    s.n = 1;
    s.path = path;
    s.table = &t;
    if (plot_throughput_kind.draw(&s, svg, &by) != STATUS_OK)
        fail_msg("%s", error_message());
    table_free(&t);
}

/* What stands at the bars' ends is only drawn where there are bars. */
static void words_are_bars(void **state)
{
    need_gnuplot();
    draw_table("kind\tplan\tsamples_per_s\nring\ta\t11.25\nring\tb\t22.5\ntree\ta\t45.5\n",
               (struct plot_source){.x = "kind", .rows = "only x=1"});
    char *text = slurp(svg);
    static const char *const has[] = {
        ">11.25<", ">22.5<", ">45.5<", ">ring<",
        ">tree<",  ">a<",    ">b<",    "Samples per second of each kind",
        "only x=1"};
    for (size_t i = 0; i < sizeof has / sizeof *has; i++)
        if (!strstr(text, has[i]))
            fail_msg("no %s", has[i]);
    free(text);
}

/* Lines that stand for numbers say of what. */
static void numbers_in_a_legend_have_their_name(void **state)
{
    need_gnuplot();
    draw_table("n\tseats\tsamples_per_s\n1\t8\t1\n2\t8\t2\n1\t16\t3\n",
               (struct plot_source){.x = "n", .by = "seats"});
    char *text = slurp(svg);
    assert_non_null(strstr(text, ">seats 8<"));
    assert_non_null(strstr(text, ">seats 16<"));
    free(text);
}

static void names_of_any_letters_leave_a_readable_svg(void **state)
{
    need_gnuplot();
    draw_table(
        "n\tplan\tsamples_per_s\n1\tGr\xf6\xdf"
        "e\t1\n2\tGr\xf6\xdf"
        "e\t3\n1\t計画\t2\n"
        "1\tan endless name, an endless name, an endless name, an endless name, to the end\t2\n",
        (struct plot_source){.x = "n"});
    char *text = slurp(svg);
    assert_non_null(strstr(text, "Gr??e"));
    assert_non_null(strstr(text, "計画"));
    assert_non_null(strstr(text, "to the end<"));
    assert_null(strchr(text, '\xf6'));
    free(text);
    remove(svg);
    remove(tsv);
}

/* ---- platforms */

static void a_tree_collapses_what_does_not_fit(void **state)
{
    need_gnuplot();
    enum { N = 400 };
    static char name[N][8];
    static const char *device[N], *type[N];
    static uint32_t node[N], all[N];
    for (size_t i = 0; i < N; i++) {
        snprintf(name[i], sizeof name[i], "g%zu", i);
        device[i] = name[i];
        type[i] = "T";
        node[i] = (uint32_t)i / 4;
    }
    const struct plot_tree_level level[] = {{"nv", 2e9, 1e-6, 3, N / 4, node},
                                            {"net", 1e9, 2e-6, 0, 1, all}};
    const struct plot_tree tree = {N, 2, device, type, 5e9, level};
    assert_int_equal(plot_tree(&tree, NULL, svg, &by), STATUS_OK);
    char *text = slurp(svg);
    assert_non_null(strstr(text, "1 GB/s, 2 us"));
    assert_non_null(strstr(text, "400 devices"));
    assert_non_null(strstr(text, "1 group, bisection 5 GB/s"));
    assert_non_null(strstr(text, "100 groups, 3:1 upwards"));
    assert_non_null(strstr(text, ">98 more<")); /* of 100 nodes two fit, four devices each */
    assert_non_null(strstr(text, ">g7<"));
    assert_null(strstr(text, ">g8<"));
    assert_non_null(strstr(text, ">3:1<")); /* on the way up */
    free(text);
    text = slurp(tsv);
    const char *expected = MADE_BY "# level\tjoined_by\tbandwidth_Bps\tlatency_s\tgroups\tdevices"
                                   "\toversubscription\tbisection_Bps\n"
                                   "2\tnet\t1e+09\t2e-06\t1\t400\t0\t5e+09\n"
                                   "1\tnv\t2e+09\t1e-06\t100\t400\t3\t0\n";
    assert_string_equal(text, expected);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_window_shows_its_ops_and_ranks_alone),
        cmocka_unit_test(shares_agree_with_counting_every_microsecond),
        cmocka_unit_test(many_ranks_share_rows),
        cmocka_unit_test(many_plans_have_letters_and_a_key),
        cmocka_unit_test(words_are_bars),
        cmocka_unit_test(a_tree_collapses_what_does_not_fit),
        cmocka_unit_test(numbers_in_a_legend_have_their_name),
        cmocka_unit_test(names_of_any_letters_leave_a_readable_svg),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
