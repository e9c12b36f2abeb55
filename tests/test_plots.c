/* plots: pictures and tables appear complete or not at all; traces are read with care. */
#include "plots/plot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/random.h"
#include "measured/bytes.h"
#include "plots/figure.h"
#include "plots/labels.h"
#include "plots/trace_events.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/put.h"

/* Two ranks, one microbatch, a message, a name for the first rank only. */
static const char trace[] =
    "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n"
    "{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": 3, \"args\": {\"name\": \"rank 3 "
    "it's\"}},\n"
    "{\"name\": \"0F0\", \"cat\": \"forward\", \"ph\": \"X\", \"ts\": 0, \"dur\": 1500, \"pid\": 3,"
    " \"tid\": 0, \"args\": {\"stage\": 0, \"microbatch\": 0}},\n"
    "{\"name\": \"0SEND_F0\", \"cat\": \"send\", \"ph\": \"X\", \"ts\": 1500, \"dur\": 250.5,"
    " \"pid\": 3, \"tid\": 1, \"args\": {\"microbatch\": 0}},\n"
    "{\"name\": \"message\", \"cat\": \"flow\", \"ph\": \"s\", \"id\": 1, \"ts\": 1500, \"pid\": "
    "3},\n"
    "{\"name\": \"1B0\", \"cat\": \"backward\", \"ph\": \"X\", \"ts\": 2000, \"dur\": 3000,"
    " \"pid\": 1, \"args\": {\"microbatch\": 0}},\n"
    "{\"name\": \"UPDATE\", \"cat\": \"update\", \"ph\": \"X\", \"ts\": 5000, \"dur\": 100, "
    "\"pid\": 1}"
    "\n]}\n";

static void need_gnuplot(void)
{
    if (system("command -v gnuplot >/dev/null 2>&1") != 0) {
        print_message("gnuplot is not installed\n");
        skip();
    }
}

/* Read a whole file into text[room]. */
static void slurp(const char *path, char *text, size_t room)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t n = fread(text, 1, room - 1, f);
    text[n] = '\0';
    fclose(f);
}

static void assert_starts(const char *path, const char *start)
{
    char text[256];
    slurp(path, text, sizeof text);
    if (strncmp(text, start, strlen(start)) != 0)
        fail_msg("%s starts with %.20s", path, text);
    remove(path);
}

/* Strings of these measurements are borrowed, so they are never freed. */
static struct measurement file(char *engine, char *plan, double iteration_s)
{
    return (struct measurement){.engine = engine, .plan = plan, .iteration_s = iteration_s};
}

static const struct provenance by = {"foreline test", "plot --kind ?> \"x\"", NULL, 0};
#define MADE_BY "# plotted by foreline test: plot --kind ?>  x \n"

static const char *const names[] = {"f0", "f1", "f2", "f3"};

static const struct timeline_window all = {0};
static const char *const trace_path = "test_plots.json";

static void draws_a_timeline_with_its_table(void **state)
{
    need_gnuplot();
    put_bytes("test_plots.json", trace, strlen(trace));
    assert_int_equal(plot_timeline(&trace_path, 1, &all, "test_plots.svg", &by), STATUS_OK);
    char table[1000], svg[60000];
    slurp("test_plots.tsv", table, sizeof table);
    assert_string_equal(table,
                        MADE_BY "# rank\tname\top\tkind\tmicrobatch\tstart_s\tend_s\n"
                                "3\trank 3 it's\t0F0\tforward\t0\t0\t0.0015\n"
                                "3\trank 3 it's\t0SEND_F0\tcommunication\t0\t0.0015\t0.0017505\n"
                                "1\trank 1\t1B0\tbackward\t0\t0.002\t0.005\n"
                                "1\trank 1\tUPDATE\tupdate\t-\t0.005\t0.0051\n");
    slurp("test_plots.svg", svg, sizeof svg);
    assert_non_null(strstr(svg, "Time (ms)"));
    assert_non_null(strstr(svg, "</svg>"));
    assert_non_null(strstr(svg, "<?foreline foreline test: plot --kind  > \"x\"?>"));
    remove("test_plots.json");
    remove("test_plots.svg");
    remove("test_plots.tsv");
}

/* Copies of a measured run share the lower lane with communication. */
static void draws_copies(void **state)
{
    need_gnuplot();
    static const char copies[] =
        "{\"traceEvents\":[{\"ph\":\"X\",\"cat\":\"forward\",\"name\":\"gemm\",\"pid\":0,\"tid\":0,"
        "\"ts\":0,\"dur\":10},{\"ph\":\"X\",\"cat\":\"copy\",\"name\":\"Memcpy HtoD\",\"pid\":0,"
        "\"tid\":2,\"ts\":2,\"dur\":5}]}";
    char table[1000], svg[60000];
    put_bytes("test_plots.json", copies, strlen(copies));
    assert_int_equal(plot_timeline(&trace_path, 1, &all, "test_plots.svg", &by), STATUS_OK);
    slurp("test_plots.tsv", table, sizeof table);
    assert_non_null(strstr(table, "0\trank 0\tMemcpy HtoD\tcopies\t-\t2e-06\t7e-06\n"));
    slurp("test_plots.svg", svg, sizeof svg);
    assert_non_null(strstr(svg, ">copies<"));
    remove("test_plots.json");
    remove("test_plots.svg");
    remove("test_plots.tsv");
}

static void draws_several_traces_on_one_axis(void **state)
{
    need_gnuplot();
    static const char *const two[] = {"test_plots.json", "test_plots_b.json"};
    char table[2000], svg[60000];
    put_bytes(two[0], trace, strlen(trace));
    put_bytes(two[1], trace, strlen(trace));
    assert_int_equal(plot_timeline(two, 2, &all, "test_plots.svg", &by), STATUS_OK);
    slurp("test_plots.tsv", table, sizeof table);
    assert_non_null(strstr(table, "3\ttest_plots: rank 3 it's\t0F0\tforward\t0\t0\t0.0015\n"));
    assert_non_null(strstr(table, "1\ttest_plots_b: rank 1\tUPDATE\tupdate\t-\t0.005\t0.0051\n"));
    slurp("test_plots.svg", svg, sizeof svg);
    assert_non_null(strstr(svg, ">test_plots_b<"));
    FOR_EACH_ALLOC_FAILURE(plot_timeline(two, 2, &all, "test_plots.svg", &by));
    put_bytes(two[1], "{", 1);
    assert_int_equal(plot_timeline(two, 2, &all, "test_plots.svg", &by), STATUS_PARSE);
    remove(two[1]);
}

static void every_extension_gives_its_kind_of_file(void **state)
{
    need_gnuplot();
    const struct measurement m[] = {file("simgrid", "a.json", 1), file("tcp", "a.json", 1.1)};
    assert_int_equal(plot_bars(m, names, 2, "test_plots.png", &by), STATUS_OK);
    assert_starts("test_plots.png", "\x89PNG");
    assert_int_equal(plot_scatter(m, names, 2, "test_plots.pdf", &by), STATUS_OK);
    assert_starts("test_plots.pdf", "%PDF");
    assert_int_equal(plot_scatter(m, names, 2, "test_plots.svg", &by), STATUS_OK);
    assert_starts("test_plots.svg", "<?xml");
    assert_starts("test_plots.tsv", MADE_BY "# plan\tpredicted_by\tmeasured_by\tmeasured_s");
    assert_int_equal(plot_bars(m, names, 2, "test_plots.jpeg", &by), STATUS_USAGE);
    assert_message(error_message(), "test_plots.jpeg .svg .png .pdf");
}

/* Predictions first, the median of the runs, the error against it. */
static void bars_list_plans_by_engine(void **state)
{
    need_gnuplot();
    const struct measurement m[] = {file("tcp", "out/b.json", 4), file("tcp", "out/b.json", 6),
                                    file("analytic", "out/b.json", 4),
                                    file("simgrid", "out/a.json", 2)};
    char table[500];
    assert_int_equal(plot_bars(m, names, 4, "test_plots.svg", &by), STATUS_OK);
    slurp("test_plots.tsv", table, sizeof table);
    assert_string_equal(table, MADE_BY "# plan\tengine\titeration_s\terror\tfiles\n"
                                       "b\tanalytic\t4\t-0.2\t1\nb\ttcp\t5\t-\t2\n"
                                       "a\tsimgrid\t2\t-\t1\n");
    remove("test_plots.svg");
    remove("test_plots.tsv");
}

/* Names come from files: nothing in them may become a gnuplot command. */
static void names_cannot_inject_commands(void **state)
{
    need_gnuplot();
    char plan[] = "'\nsystem('touch test_plots_injected')\n`touch test_plots_injected`.json";
    char engine[] = "'; system('touch test_plots_injected') #";
    const struct measurement m[] = {file("simgrid", plan, 1), file(engine, plan, 1.1),
                                    file("analytic", plan, 1), file("tcp", plan, 1)};
    assert_int_equal(plot_bars(m, names, 4, "test_plots.svg", &by), STATUS_OK);
    assert_int_equal(plot_scatter(m, names, 4, "test_plots.svg", &by), STATUS_OK);
    assert_int_equal(plot_scatter(m, names, 2, "test_plots.svg", &by), STATUS_OK);
    assert_int_not_equal(access("test_plots_injected", F_OK), 0);
    remove("test_plots.svg");
    remove("test_plots.tsv");
}

static void a_missing_gnuplot_is_named_and_nothing_is_left(void **state)
{
    const struct measurement m[] = {file("simgrid", "a.json", 1), file("tcp", "a.json", 1.1)};
    char path[4096];
    snprintf(path, sizeof path, "%s", getenv("PATH"));
    setenv("PATH", "/nowhere", 1);
    enum status st = plot_bars(m, names, 2, "test_plots_missing.svg", &by);
    setenv("PATH", path, 1);
    assert_int_equal(st, STATUS_EXTERNAL);
    assert_message(error_message(), "installed gnuplot-nox");
    assert_int_not_equal(access("test_plots_missing.svg", F_OK), 0);
    assert_int_not_equal(access("test_plots_missing.tsv", F_OK), 0);
}

static void a_failing_gnuplot_is_reported_and_nothing_is_left(void **state)
{
    need_gnuplot();
    struct figure f = {0};
    const struct figure_geometry g = {
        .width = 100, .height = 100, .left = 10, .right = 10, .top = 10, .bottom = 10};
    assert_int_equal(figure_open("test_plots_bad.svg", &g, &by, &f), STATUS_OK);
    fprintf(f.script, "plot no_such_function(x)\n");
    assert_int_equal(figure_finish(&f), STATUS_EXTERNAL);
    assert_message(error_message(), "no_such_function");
    assert_int_not_equal(access("test_plots_bad.svg", F_OK), 0);
    assert_int_not_equal(access("test_plots_bad.tsv", F_OK), 0);
}

static void scatter_needs_something_to_pair(void **state)
{
    const struct measurement m[] = {file("simgrid", "a.json", 1), file("tcp", "b.json", 1)};
    assert_int_equal(plot_scatter(m, names, 2, "test_plots.svg", &by), STATUS_INFEASIBLE);
}

static void malformed_traces_are_refused_with_their_place(void **state)
{
    static const struct {
        const char *text, *message;
    } bad[] = {
        {"{}", "test_plots.json:1 --trace wrote"},
        {"[]", "test_plots.json:1 --trace wrote"},
        {"{\"traceEvents\": []}", "test_plots.json:1 traceEvents trace"},
        {"{\"traceEvents\": [7]}", "test_plots.json:1 traceEvents[0 object"},
        {"{\"traceEvents\": [{\"ph\": \"X\", \"cat\": \"forward\", \"ts\": -1}]}",
         "test_plots.json:1 traceEvents[0].ts -1 range 0 1e+15"},
        {"{\"traceEvents\": [{\"ph\": \"X\", \"cat\": \"forward\", \"ts\": 1}]}",
         "test_plots.json:1: traceEvents[0]: \"dur\" is missing"},
    };
    struct trace_events t = {.n = 7};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        put_bytes("test_plots.json", bad[i].text, strlen(bad[i].text));
        assert_int_equal(trace_events_read("test_plots.json", NULL, &t), STATUS_PARSE);
        assert_message(error_message(), bad[i].message);
        assert_int_equal(t.n, 7);
    }
    remove("test_plots.json");
}

static void traces_survive_truncation_at_every_byte(void **state)
{
    for (size_t n = 0; n < strlen(trace) - 2; n++) {
        struct trace_events t = {0};
        put_bytes("test_plots.json", trace, n);
        assert_int_equal(trace_events_read("test_plots.json", NULL, &t), STATUS_PARSE);
    }
    remove("test_plots.json");
}

static void ranks_come_in_the_order_of_their_ids(void **state)
{
    struct trace_events t = {0};
    put_bytes("test_plots.json", trace, strlen(trace));
    assert_int_equal(trace_events_read("test_plots.json", NULL, &t), STATUS_OK);
    assert_int_equal(t.rows, 2);
    assert_int_equal(t.pid[0], 1);
    assert_null(t.rank[0]);
    assert_string_equal(t.rank[1], "rank 3 it's");
    assert_int_equal(t.n, 4); /* the arrow is no op */
    assert_int_equal(t.event[0].row, 1);
    assert_int_equal(t.event[2].row, 0);
    assert_int_equal(t.event[3].microbatch, -1);
    trace_events_free(&t);
    remove("test_plots.json");
}

/* Ranks 0 .. ranks - 1 of a run of 32 microbatches, every op of a random length. */
static void put_ranks(const char *path, int ranks, bool sends)
{
    struct bytes_out f = {0};
    assert_int_equal(bytes_create(path, false, &f), STATUS_OK);
    fputs("{\"otherData\": {\"step\": 3}, \"traceEvents\": [", f.stream);
    for (int r = 0; r < ranks; r++) {
        double at = 10.0 * r;
        fprintf(f.stream,
                "%s{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": %d, "
                "\"args\": {\"name\": \"rank %d\"}}",
                r ? ",\n" : "", r, r);
        for (int m = 0; m < 64; m++) {
            double us = 100 + (double)(random_at((uint64_t)r, (uint64_t)m) % 900);
            fprintf(f.stream,
                    ",\n{\"name\": \"%d\", \"cat\": \"%s\", \"ph\": \"X\", \"ts\": %.3f, "
                    "\"dur\": %.3f, \"pid\": %d, \"args\": {\"microbatch\": %d}}",
                    m,
                    m % 2                 ? "backward"
                    : sends && m % 8 == 0 ? "send"
                                          : "forward",
                    at, us, r, m / 2);
            at += us;
        }
    }
    fputs("]}\n", f.stream);
    assert_int_equal(bytes_commit(&f), STATUS_OK);
}

static void drawn_alike(const char *a, const char *b)
{
    char *x, *y;
    size_t n, m;
    assert_int_equal(file_read(a, &x, &n), STATUS_OK);
    assert_int_equal(file_read(b, &y, &m), STATUS_OK);
    assert_int_equal(n, m);
    assert_memory_equal(x, y, n);
    free(x);
    free(y);
    remove(a);
    remove(b);
}

/* What is not in sight is not kept, whatever the trace has besides. */
static void a_part_is_drawn_as_the_trace_of_that_part(void **state)
{
    const char *const whole[] = {"test_plots_all.json.gz"};
    const char *const part[] = {"test_plots_part.json"};
    const struct timeline_window w = {0.002, 0.009, "0-7", NULL};
    const struct trace_filter filter = {{1, &(struct trace_range){0, 7}}, w.from_s, w.to_s};
    struct trace_events t = {0}, every = {0};
    need_gnuplot();
    put_ranks(whole[0], 256, true);
    put_ranks(part[0], 8, true);
    assert_int_equal(trace_events_read(whole[0], &filter, &t), STATUS_OK);
    assert_int_equal(trace_events_read(part[0], NULL, &every), STATUS_OK);
    assert_int_equal(t.rows, 8);
    size_t in_sight = 0;
    for (size_t i = 0; i < every.n; i++)
        in_sight += every.event[i].end_s > w.from_s && every.event[i].start_s < w.to_s;
    assert_int_equal(t.n, in_sight);
    assert_true(in_sight > 8 && in_sight < every.n / 2);
    assert_int_equal(t.step, 3);
    assert_int_equal(plot_timeline(whole, 1, &w, "test_plots_all.svg", &by), STATUS_OK);
    assert_int_equal(plot_timeline(part, 1, &w, "test_plots_part.svg", &by), STATUS_OK);
    drawn_alike("test_plots_all.svg", "test_plots_part.svg");
    drawn_alike("test_plots_all.tsv", "test_plots_part.tsv");
    trace_events_free(&t);
    trace_events_free(&every);
    remove(whole[0]);
    remove(part[0]);
}

/* The limit is of what is kept. */
static void a_trace_may_have_more_ops_than_are_kept(void **state)
{
    const struct trace_filter filter = {{1, &(struct trace_range){3, 3}}, 0, 0};
    struct trace_events t = {0};
    put_ranks("test_plots_all.json.gz", 32, false);
    assert_int_equal(limits_set("size=0.00048828125"), STATUS_OK);
    assert_int_equal(trace_events_read("test_plots_all.json.gz", NULL, &t), STATUS_INVALID);
    assert_message(error_message(), "choose fewer --ranks, --from and --to");
    assert_int_equal(trace_events_read("test_plots_all.json.gz", &filter, &t), STATUS_OK);
    assert_int_equal(t.n, 64);
    assert_int_equal(limits_set("size=1"), STATUS_OK);
    trace_events_free(&t);
    remove("test_plots_all.json.gz");
}

static bool apart(const struct label *a, const struct label *b)
{
    return a->x + a->width <= b->x || b->x + b->width <= a->x ||
           a->y + a->height / 2 <= b->y - b->height / 2 ||
           b->y + b->height / 2 <= a->y - a->height / 2;
}

/* Sixteen points on nearly one spot: all labels find a place of their own inside the picture. */
static void labels_keep_apart_and_inside(void **state)
{
    enum { N = 16 };
    struct label label[N];
    double point[N][2];
    srand(1);
    for (int i = 0; i < N; i++) {
        point[i][0] = 200 + rand() % 20;
        point[i][1] = 200 + rand() % 20;
        label[i] = (struct label){.point_x = point[i][0],
                                  .point_y = point[i][1],
                                  .width = 50,
                                  .height = 16,
                                  .left = i % 2};
    }
    labels_place(label, N, (const double(*)[2])point, N, 400, 400);
    for (int i = 0; i < N; i++) {
        assert_true(label[i].x >= 0 && label[i].x + label[i].width <= 400);
        for (int k = 0; k < i; k++)
            assert_true(apart(&label[i], &label[k]));
    }
    /* alone, a label is beside its point */
    labels_place(label, 1, (const double(*)[2])point, 1, 400, 400);
    assert_true(label[0].y == point[0][1] && label[0].x > point[0][0]);
}

static void labels_without_room_are_left_out(void **state)
{
    enum { MANY = 400 };
    static struct label label[MANY];
    static double point[MANY][2];
    size_t placed = 0;
    for (int i = 0; i < MANY; i++) {
        point[i][0] = 200 + i % 3;
        point[i][1] = 200 + i % 5;
        label[i] = (struct label){
            .point_x = point[i][0], .point_y = point[i][1], .width = 50, .height = 16};
    }
    labels_place(label, MANY, (const double(*)[2])point, MANY, 400, 400);
    for (int i = 0; i < MANY; i++) {
        placed += label[i].placed;
        for (int k = 0; k < i; k++)
            assert_true(!label[i].placed || !label[k].placed || apart(&label[i], &label[k]));
    }
    assert_in_range(placed, 8, MANY - 1);
}

static void releases_everything_when_memory_runs_out(void **state)
{
    need_gnuplot();
    const struct measurement m[] = {file("simgrid", "a.json", 1), file("tcp", "a.json", 1.1),
                                    file("tcp", "b.json", 1)};
    put_bytes("test_plots.json", trace, strlen(trace));
    FOR_EACH_ALLOC_FAILURE(plot_timeline(&trace_path, 1, &all, "test_plots.svg", &by));
    FOR_EACH_ALLOC_FAILURE(plot_scatter(m, names, 3, "test_plots.svg", &by));
    FOR_EACH_ALLOC_FAILURE(plot_bars(m, names, 3, "test_plots.svg", &by));
    remove("test_plots.json");
    remove("test_plots.svg");
    remove("test_plots.tsv");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_a_timeline_with_its_table),
        cmocka_unit_test(draws_copies),
        cmocka_unit_test(draws_several_traces_on_one_axis),
        cmocka_unit_test(every_extension_gives_its_kind_of_file),
        cmocka_unit_test(bars_list_plans_by_engine),
        cmocka_unit_test(names_cannot_inject_commands),
        cmocka_unit_test(a_missing_gnuplot_is_named_and_nothing_is_left),
        cmocka_unit_test(a_failing_gnuplot_is_reported_and_nothing_is_left),
        cmocka_unit_test(scatter_needs_something_to_pair),
        cmocka_unit_test(malformed_traces_are_refused_with_their_place),
        cmocka_unit_test(traces_survive_truncation_at_every_byte),
        cmocka_unit_test(ranks_come_in_the_order_of_their_ids),
        cmocka_unit_test(a_part_is_drawn_as_the_trace_of_that_part),
        cmocka_unit_test(a_trace_may_have_more_ops_than_are_kept),
        cmocka_unit_test(labels_keep_apart_and_inside),
        cmocka_unit_test(labels_without_room_are_left_out),
        cmocka_unit_test(releases_everything_when_memory_runs_out),
    };
    return cmocka_run_group_tests_name("plots", tests, NULL, NULL);
}
