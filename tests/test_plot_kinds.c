/* Kinds of pictures that read tables and measurements: the plotted data against sums by hand. */
#include "plots/kind.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file.h"
#include "plots/axis.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/put.h"

static const struct provenance by = {"foreline test", "plot", NULL, 0};
#define MADE_BY "# plotted by foreline test: plot\n"
#define ERRORS  "; error bars: lowest to highest of repeats\n"
#define MEDIANS "# medians of up to 3 rows\n"
#define REPEATS "# medians of up to 3 rows" ERRORS

static const char svg[] = "test_plot_kinds.svg", tsv[] = "test_plot_kinds.tsv";

static void need_gnuplot(void)
{
    if (system("command -v gnuplot >/dev/null 2>&1") != 0) {
        print_message("gnuplot is not installed\n");
        skip();
    }
}

static struct plot_table parse(const char *text)
{
    struct plot_table t = {0};
    if (table_parse("t.tsv", text, strlen(text), &t) != STATUS_OK)
        fail_msg("%s", error_message());
    return t;
}

/* The picture's table must be `expected` after the line of provenance. */
static void expect_table(const char *expected)
{
    char *text = NULL;
    size_t length;
    assert_int_equal(file_read(tsv, &text, &length), STATUS_OK);
    assert_memory_equal(text, MADE_BY, strlen(MADE_BY));
    assert_string_equal(text + strlen(MADE_BY), expected);
    free(text);
    remove(svg);
    remove(tsv);
}

static void draw_table(const char *kind, const char *text, struct plot_source s)
{
    const struct plot_kind *k;
    const char *const path[] = {"t.tsv"};
    struct plot_table t = parse(text);
    s.n = 1;
    s.path = path;
    s.table = &t;
    assert_int_equal(plot_kind_find(kind, &k), STATUS_OK);
    if (k->draw(&s, svg, &by) != STATUS_OK)
        fail_msg("%s", error_message());
    table_free(&t);
}

/* Two plans at three bandwidths; one point is measured three times, one is missing. */
static const char sweep[] = "# foreline 0.1: sweep\n"
                            "nic\tplan\tsamples_per_s\titeration_s\n"
                            "10Gbps\tb\t20\t2\n"
                            "1Gbps\ta\t5\t8\n"
                            "1Gbps\tb\t4\t10\n"
                            "10Gbps\ta\t9\t4\n"
                            "10Gbps\ta\t10\t4\n"
                            "10Gbps\ta\t30\t4\n"
                            "# said in between\n"
                            "\n"
                            "100Gbps\tb\t40\t1\n";

/* A line for each plan would be a point; then plans are no lines, and x where nothing else is. */
static void plans_of_one_row_are_no_lines(void **state)
{
    need_gnuplot();
    draw_table("throughput", "plan\tmicrobatches\tsamples_per_s\na\t1\t10\nb\t2\t12\nc\t4\t13\n",
               (struct plot_source){0});
    expect_table("# line\tmicrobatches\tsamples per second\n-\t1\t10\n-\t2\t12\n-\t4\t13\n");
    draw_table("throughput", "plan\tengine\tsamples_per_s\na\ttcp\t10\nb\ttcp\t12\n",
               (struct plot_source){0});
    expect_table("# line\tplan\tsamples per second\n-\ta\t10\n-\tb\t12\n");
    draw_table("throughput",
               "plan\tengine\tmicrobatches\tsamples_per_s\na\ttcp\t1\t10\na\ttcp\t2\t12\n"
               "a\tmpi\t1\t11\na\tmpi\t2\t13\n",
               (struct plot_source){0});
    expect_table("# engine\tmicrobatches\tsamples per second\n"
                 "tcp\t1\t10\ntcp\t2\t12\nmpi\t1\t11\nmpi\t2\t13\n");
}

static void throughput_takes_the_median_of_repeats_in_order_of_x(void **state)
{
    need_gnuplot();
    draw_table("throughput", sweep, (struct plot_source){0});
    expect_table(REPEATS "# plan\tnic (Gb/s)\tsamples per second\tlow\thigh\n"
                         "b\t1\t4\t-\t-\nb\t10\t20\t-\t-\nb\t100\t40\t-\t-\n"
                         "a\t1\t5\t-\t-\na\t10\t10\t9\t30\n");
    draw_table("throughput", sweep, (struct plot_source){.y = "iteration_s"});
    expect_table(MEDIANS "# plan\tnic (Gb/s)\titeration (s)\n"
                         "b\t1\t10\nb\t10\t2\nb\t100\t1\na\t1\t8\na\t10\t4\n");
    draw_table("throughput", sweep, (struct plot_source){.x = "plan", .by = "nic"});
    expect_table(REPEATS "# nic\tplan\tsamples per second\tlow\thigh\n"
                         "1Gbps\tb\t4\t-\t-\n1Gbps\ta\t5\t-\t-\n10Gbps\tb\t20\t-\t-\n"
                         "10Gbps\ta\t10\t9\t30\n100Gbps\tb\t40\t-\t-\n");
}

/* Stages and a seed are not shown: of each number of stages the median of its seeds, of these the
 * best. Median over all would be 6 and 4.5, which nobody measured. */
static void settings_that_are_not_shown_count_with_their_best(void **state)
{
    static const char table[] = "nic\tplan.stages\tseed\tplan\tstatus\tsamples_per_s\titeration_s\n"
                                "1\t2\t1\ts2\tok\t10\t4\n"
                                "1\t2\t2\ts2\tok\t11\t5\n"
                                "1\t2\t3\ts2\tok\t90\t6\n"
                                "1\t4\t1\ts4\tok\t1\t7\n"
                                "1\t4\t2\ts4\tok\t2\t8\n"
                                "2\t4\t1\ts4\tok\t3\t3\n";
    need_gnuplot();
    draw_table("throughput", table, (struct plot_source){.x = "nic", .by = "status"});
    expect_table("# highest over plan.stages; medians of up to 3 rows" ERRORS
                 "# status\tnic\tsamples per second\tlow\thigh\n"
                 "ok\t1\t11\t10\t90\nok\t2\t3\t-\t-\n");
    draw_table("throughput", table,
               (struct plot_source){.x = "nic", .by = "status", .y = "iteration_s"});
    expect_table("# lowest over plan.stages; medians of up to 3 rows" ERRORS
                 "# status\tnic\titeration (s)\tlow\thigh\n"
                 "ok\t1\t5\t4\t6\nok\t2\t3\t-\t-\n");
    draw_table("throughput", table, (struct plot_source){.x = "nic", .by = "plan"});
    expect_table(REPEATS "# plan\tnic\tsamples per second\tlow\thigh\n"
                         "s2\t1\t11\t10\t90\ns4\t1\t1.5\t1\t2\ns4\t2\t3\t-\t-\n");
    draw_table("heatmap", table, (struct plot_source){.x = "nic", .y = "status"});
}

/* x is the first setting that varies; the picture says which others do. Results are none. */
static void names_other_settings_that_could_be_x(void **state)
{
    (void)state;
    draw_table("throughput",
               "nic\tgpus\tracks\tsamples_per_s\tbubble\n1\t2\t3\t5\t0.1\n2\t4\t3\t7\t0.2\n",
               (struct plot_source){0});
    expect_table("# --x could be gpus, too\n# line\tnic\tsamples per second\n-\t1\t5\n-\t2\t7\n");
}

static void speedup_is_over_the_smallest_x_for_rates_and_times(void **state)
{
    need_gnuplot();
    draw_table("speedup", sweep, (struct plot_source){0});
    expect_table(MEDIANS "# plan\tnic (Gb/s)\tspeed-up (dashed: linear)\n"
                         "b\t1\t1\nb\t10\t5\nb\t100\t10\na\t1\t1\na\t10\t2\n");
    draw_table("speedup", sweep, (struct plot_source){.y = "iteration_s"});
    expect_table(MEDIANS "# plan\tnic (Gb/s)\tspeed-up (dashed: linear)\n"
                         "b\t1\t1\nb\t10\t5\nb\t100\t10\na\t1\t1\na\t10\t2\n");
}

static void regret_is_against_the_best_of_the_same_x(void **state)
{
    need_gnuplot();
    draw_table("regret", sweep, (struct plot_source){0});
    expect_table(MEDIANS "# plan\tnic (Gb/s)\tbehind the best (%)\n"
                         "b\t1\t25\nb\t10\t0\nb\t100\t0\na\t1\t0\na\t10\t100\n");
    draw_table("regret", sweep, (struct plot_source){.y = "iteration_s"});
    expect_table(MEDIANS "# plan\tnic (Gb/s)\tbehind the best (%)\n"
                         "b\t1\t25\nb\t10\t0\nb\t100\t0\na\t1\t0\na\t10\t100\n");
}

static void a_heat_map_reads_columns_and_matrices(void **state)
{
    need_gnuplot();
    draw_table("heatmap", sweep, (struct plot_source){.x = "nic", .y = "plan"});
    expect_table(MEDIANS
                 "# plan\tnic (Gb/s)\tsamples per second\n"
                 "b\t1Gbps\t4\nb\t10Gbps\t20\nb\t100Gbps\t40\na\t1Gbps\t5\na\t10Gbps\t10\n");
    draw_table("heatmap",
               "# bandwidth_Bps\tx\ty\tz\nx\t-\t1e9\t2e9\ny\t3e9\t-\t4e9\nz\t5e9\t6e9\t-\n",
               (struct plot_source){0});
    expect_table("# from\tto\tbandwidth (GB/s)\n"
                 "x\ty\t1\nx\tz\t2\ny\tx\t3\ny\tz\t4\nz\tx\t5\nz\ty\t6\n");
}

/* ---- measurements */

static struct measured_rank rank(char *name, uint32_t stage, int64_t stash)
{
    return (struct measured_rank){.name = name,
                                  .stage = stage,
                                  .busy_s = 6,
                                  .update_s = 1,
                                  .exposed_comm_s = 3,
                                  .idle_s = 1,
                                  .exposed_s = {[FOR_PIPELINE] = 1, [FOR_DATA] = 2},
                                  .peak_bytes = 60 + stash,
                                  .weight_bytes = 10,
                                  .gradient_bytes = 20,
                                  .state_bytes = 30,
                                  .stash_bytes = stash,
                                  .memory_bytes = 1000};
}

static void draw_measurement(const char *kind, const struct measurement *m, size_t n)
{
    const struct plot_kind *k;
    const char *const path[] = {"out/a.json", "b.json"};
    const struct plot_source s = {.n = n, .path = path, .m = m};
    assert_int_equal(plot_kind_find(kind, &k), STATUS_OK);
    if (k->draw(&s, svg, &by) != STATUS_OK)
        fail_msg("%s", error_message());
}

static void a_breakdown_adds_up_to_the_iteration(void **state)
{
    need_gnuplot();
    struct measured_rank r[] = {rank("r0", 0, 1), rank("r1", 1, 2)};
    const struct measurement m[] = {
        {.engine = "simgrid", .iteration_s = 10, .ranks = 2, .rank = r},
        {.engine = "analytic", .iteration_s = 10, .ranks = 1, .rank = r}};
    draw_measurement("breakdown", m, 2);
    expect_table("# file\tengine\tcompute_s\toptimizer_s\texposed_pipeline_s\texposed_data_s\t"
                 "exposed_ties_s\texposed_shards_s\texposed_tensor_s\texposed_experts_s\t"
                 "exposed_context_s\texposed_host_s\texposed_norm_s\tbubble_s\n"
                 "out/a.json\tsimgrid\t5\t1\t1\t2\t0\t0\t0\t0\t0\t0\t0\t1\n"
                 "b.json\tanalytic\t5\t1\t1\t2\t0\t0\t0\t0\t0\t0\t0\t1\n");
}

static void memory_shows_the_fullest_rank_of_each_stage_in_their_order(void **state)
{
    need_gnuplot();
    struct measured_rank r[] = {rank("r0", 1, 5), rank("r1", 0, 7), rank("r2", 1, 9)};
    const struct measurement m = {.iteration_s = 10, .ranks = 3, .rank = r};
    draw_measurement("memory", &m, 1);
    expect_table(
        "# bar\trank\tweight_bytes\tgradient_bytes\tstate_bytes\tstash_bytes\t"
        "scratch_bytes\tpeak_bytes\tmemory_bytes\n"
        "stage 0\tr1\t10\t20\t30\t7\t0\t67\t1000\nstage 1\tr2\t10\t20\t30\t9\t0\t69\t1000\n");
}

static void links_list_all_in_the_table_and_draw_the_busiest(void **state)
{
    need_gnuplot();
    struct measured_link link[] = {{"slow", 5, 0.1}, {"fast", 7, 0.9}};
    const struct measurement m = {.iteration_s = 10, .links = 2, .link = link};
    draw_measurement("links", &m, 1);
    char *text = NULL;
    size_t length;
    assert_int_equal(file_read(svg, &text, &length), STATUS_OK);
    const char *fast = strstr(text, "fast"), *slow = strstr(text, "slow");
    assert_true(fast && slow && fast < slow);
    free(text);
    expect_table("# link\tbytes\tbusy_fraction\nslow\t5\t0.1\nfast\t7\t0.9\n");
}

/* ---- tables */

static void malformed_tables_are_refused_with_their_line(void **state)
{
    static const struct {
        const char *text, *message;
    } bad[] = {
        {"", "t.tsv:1 table"},
        {"a\tb\n", "t.tsv:2 table"},
        {"# only\n# comments\n", "t.tsv:3 table"},
        {"words\na\tb\n", "t.tsv:1 separated"},
        {"a\ta\n1\t2\n", "t.tsv:1: column 'a' twice"},
        {"a\t\n1\t2\n", "t.tsv:1: column 2 has no name"},
        {"a\tb\n1\t2\n1\n", "t.tsv:3 1 cells 2"},
        {"a\tb\n1\t2\t3\n", "t.tsv:2 3 cells 2"},
    };
    struct plot_table t = {.rows = 7};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(table_parse("t.tsv", bad[i].text, strlen(bad[i].text), &t), STATUS_PARSE);
        assert_message(error_message(), bad[i].message);
        assert_int_equal(t.rows, 7);
    }
    assert_int_equal(table_parse("t.tsv", "a\tb\n1\0\t2\n", 9, &t), STATUS_PARSE);
}

static void a_table_survives_truncation_at_every_byte(void **state)
{
    for (size_t n = 0; n < sizeof sweep; n++) {
        struct plot_table t = {0};
        if (table_parse("t.tsv", sweep, n, &t) == STATUS_OK)
            assert_true(t.rows >= 1 && t.columns >= 2);
        table_free(&t);
    }
}

static void commas_in_values_are_no_new_condition(void **state)
{
    static const char text[] = "platform\tnic\tt_s\nfat-tree:nodes=16,gpus=8\t10Gbps\t1\n"
                               "fat-tree:nodes=16,gpus=8\t25Gbps\t2\nx,nic=1\t10Gbps\t3\n";
    static const struct {
        const char *where, *t_s;
    } row[] = {{"platform=fat-tree:nodes=16,gpus=8,nic=25Gbps", "2"},
               {"nic=10Gbps,platform=fat-tree:nodes=16,gpus=8", "1"},
               {"platform=x\\,nic=1", "3"}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct plot_table t = parse(text);
        assert_int_equal(table_filter(&t, row[i].where), STATUS_OK);
        assert_int_equal(t.rows, 1);
        assert_string_equal(table_cell(&t, 0, 2), row[i].t_s);
        table_free(&t);
    }
    struct plot_table t = parse(text);
    assert_int_equal(table_filter(&t, "nic=10Gbps,platfrom=x"), STATUS_INVALID);
    assert_message(error_message(), "column 'platfrom'");
    table_free(&t);
}

static void tables_may_have_commas(void **state)
{
    struct plot_table t = parse("Time (seconds),Best Metric\n0.5,\"a,\"\"b\"\"\"\n1,'=SUM(A1)\n");
    assert_int_equal(t.columns, 2);
    assert_int_equal(t.rows, 2);
    assert_string_equal(t.name[1], "Best Metric");
    assert_string_equal(table_cell(&t, 0, 1), "a,\"b\"");
    assert_string_equal(table_cell(&t, 1, 1), "=SUM(A1)");
    table_free(&t);
}

static void rows_are_kept_by_the_values_of_columns(void **state)
{
    struct plot_table t = parse(sweep);
    assert_int_equal(table_filter(&t, "plan=a,nic=10Gbps"), STATUS_OK);
    assert_int_equal(t.rows, 3);
    assert_string_equal(table_cell(&t, 2, 2), "30");
    assert_int_equal(table_filter(&t, "nic"), STATUS_INVALID);
    assert_int_equal(table_filter(&t, "gpu=1"), STATUS_INVALID);
    assert_message(error_message(), "t.tsv: column 'gpu'; nic, plan, samples_per_s, iteration_s");
    assert_int_equal(table_filter(&t, "plan=b"), STATUS_INVALID);
    assert_message(error_message(), "t.tsv: no row with plan = 'b'");
    table_free(&t);
}

static void axes_choose_units_that_read_well(void **state)
{
    static const struct {
        const char *text, *label;
        double last;
    } cases[] = {
        {"a_s\tx\n0.001\t\n0.25\t\n", "a (ms)", 250},
        {"size_bytes\tx\n1048576\t\n2097152\t\n", "size (MiB)", 2},
        {"link_Bps\tx\n1e9\t\n2e9\t\n", "link (GB/s)", 2},
        {"m\tx\n1ms\t\n20us\t\n", "m (ms)", 0.02},
        {"m\tx\n1GBps\t\n2GBps\t\n", "m (GB/s)", 2},
        {"m\tx\n1\t\n10Gbps\t\n", "m", 1},
        {"samples_per_s\tx\n1\t\n25000\t\n", "samples per second (thousands)", 25},
        {"busy_fraction\tx\n0.1\t\n0.5\t\n", "busy (%)", 50},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct plot_table t = parse(cases[i].text);
        struct axis a = {0};
        assert_int_equal(axis_read(&t, 0, &a), STATUS_OK);
        assert_string_equal(a.label, cases[i].label);
        assert_float_equal(a.at[1], cases[i].last, 1e-9);
        axis_free(&a);
        table_free(&t);
    }
}

/* Names and cells come from files: nothing in them may become a gnuplot command. */
static void cells_cannot_inject_commands(void **state)
{
    need_gnuplot();
    const char text[] = "x'; system('touch test_kinds_injected')\tplan\tsamples_per_s\n"
                        "'; system('touch test_kinds_injected') #\t`touch test_kinds_injected`\t1\n"
                        "\\'$(touch test_kinds_injected)\tEOD\t2\n";
    draw_table("throughput", text, (struct plot_source){0});
    draw_table("heatmap", text,
               (struct plot_source){.y = "plan", .x = "x'; system('touch test_kinds_injected')"});
    assert_int_not_equal(access("test_kinds_injected", F_OK), 0);
    remove(svg);
    remove(tsv);
}

static void what_cannot_be_drawn_is_said_in_one_line(void **state)
{
    static const struct {
        const char *kind, *text, *message;
        struct plot_source s;
    } cases[] = {
        {"throughput", "a\tb\n1\t2\n", "t.tsv column 'a'", {0}},
        {"throughput", "a\tsamples_per_s\n1\t2\n", "t.tsv column varies", {0}},
        {"throughput", "a\tb\n1\tx\n2\ty\n", "t.tsv 'b' numbers", {.y = "b"}},
        {"heatmap", "a\tb\n1\tx\n2\ty\n", "t.tsv columns 'a'", {0}},
    };
    const char *const path[] = {"t.tsv"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct plot_kind *k;
        struct plot_table t = parse(cases[i].text);
        struct plot_source s = cases[i].s;
        s.n = 1;
        s.path = path;
        s.table = &t;
        assert_int_equal(plot_kind_find(cases[i].kind, &k), STATUS_OK);
        assert_int_equal(k->draw(&s, svg, &by), STATUS_INVALID);
        assert_message(error_message(), cases[i].message);
        assert_int_not_equal(access(svg, F_OK), 0);
        table_free(&t);
    }
}

static void expect_text(const char *path, const char *expected)
{
    char *text = NULL;
    size_t length;
    assert_int_equal(file_read(path, &text, &length), STATUS_OK);
    assert_string_equal(text, expected);
    free(text);
}

/* The table of plotted data goes where nobody said: not in the place of what is plotted, nor of any
 * other file that a picture did not leave. */
static void tables_of_others_stay(void **state)
{
    need_gnuplot();
    static const char data[] = "nic\tplan\titeration_s\n1\ta\t1\n2\ta\t2\n";
    const struct plot_kind *k;
    const char *const path[] = {"test_plot_kinds_in.tsv"};
    const struct plot_request r = {.path = path, .n = 1, .x = "nic", .by = "plan"};
    put_text(path[0], data);
    assert_int_equal(plot_kind_find("throughput", &k), STATUS_OK);
    assert_int_equal(plot_files(k, &r, "test_plot_kinds_in.svg", &by), STATUS_INVALID);
    assert_message(error_message(), "would overwrite this input");
    put_text("test_plot_kinds_notes.tsv", "my notes\n");
    assert_int_equal(plot_files(k, &r, "test_plot_kinds_notes.svg", &by), STATUS_IO);
    assert_message(error_message(), "not written by foreline");
    expect_text("test_plot_kinds_notes.tsv", "my notes\n");
    expect_text(path[0], data);
    assert_int_not_equal(access("test_plot_kinds_notes.svg", F_OK), 0);
    assert_int_equal(plot_files(k, &r, svg, &by), STATUS_OK);
    assert_int_equal(plot_files(k, &r, svg, &by), STATUS_OK); /* our own is replaced */
    /* ... and is an input like any other when it is plotted itself */
    const char *const again[] = {tsv};
    const struct plot_request own = {.path = again, .n = 1};
    assert_int_equal(plot_files(k, &own, svg, &by), STATUS_INVALID);
    unlink("test_plot_kinds_notes.tsv");
    unlink(path[0]);
}

static enum status draw_all(void)
{
    enum status st;
    const struct plot_kind *k;
    static const char *const kinds[] = {"throughput", "heatmap"};
    const char *const path[] = {"test_plot_kinds_in.tsv"};
    const struct plot_request r = {
        .path = path, .n = 1, .x = "nic", .y = NULL, .by = "plan", .where = "iteration_s=4"};
    struct plot_request h = r;
    h.y = "plan";
    for (size_t i = 0; i < 2; i++) {
        TRY(plot_kind_find(kinds[i], &k));
        TRY(plot_files(k, i ? &h : &r, svg, &by));
    }
out:
    return st;
}

static struct measured_rank one_rank[1];
static const struct measurement one = {
    .engine = "e", .iteration_s = 10, .ranks = 1, .rank = one_rank};

static enum status draw_stack(void)
{
    const char *const path[] = {"a.json"};
    const struct plot_source s = {.n = 1, .path = path, .m = &one};
    enum status st = plot_memory_kind.draw(&s, svg, &by);
    return st == STATUS_OK ? plot_breakdown_kind.draw(&s, svg, &by) : st;
}

static void releases_everything_when_memory_runs_out(void **state)
{
    need_gnuplot();
    put_text("test_plot_kinds_in.tsv", sweep);
    FOR_EACH_ALLOC_FAILURE(draw_all());
    one_rank[0] = rank("r0", 0, 1);
    FOR_EACH_ALLOC_FAILURE(draw_stack());
    remove("test_plot_kinds_in.tsv");
    remove(svg);
    remove(tsv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_of_one_row_are_no_lines),
        cmocka_unit_test(throughput_takes_the_median_of_repeats_in_order_of_x),
        cmocka_unit_test(settings_that_are_not_shown_count_with_their_best),
        cmocka_unit_test(names_other_settings_that_could_be_x),
        cmocka_unit_test(speedup_is_over_the_smallest_x_for_rates_and_times),
        cmocka_unit_test(regret_is_against_the_best_of_the_same_x),
        cmocka_unit_test(a_heat_map_reads_columns_and_matrices),
        cmocka_unit_test(a_breakdown_adds_up_to_the_iteration),
        cmocka_unit_test(memory_shows_the_fullest_rank_of_each_stage_in_their_order),
        cmocka_unit_test(links_list_all_in_the_table_and_draw_the_busiest),
        cmocka_unit_test(malformed_tables_are_refused_with_their_line),
        cmocka_unit_test(a_table_survives_truncation_at_every_byte),
        cmocka_unit_test(rows_are_kept_by_the_values_of_columns),
        cmocka_unit_test(commas_in_values_are_no_new_condition),
        cmocka_unit_test(tables_may_have_commas),
        cmocka_unit_test(axes_choose_units_that_read_well),
        cmocka_unit_test(cells_cannot_inject_commands),
        cmocka_unit_test(what_cannot_be_drawn_is_said_in_one_line),
        cmocka_unit_test(tables_of_others_stay),
        cmocka_unit_test(releases_everything_when_memory_runs_out),
    };
    return cmocka_run_group_tests_name("plot_kinds", tests, NULL, NULL);
}
