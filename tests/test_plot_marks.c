/* What pictures say beside their data, and how they mark it: notes, legends, numbers on axes,
 * inks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "plots/kind.h"
#include "tests/cmocka.h"
#include "tests/put.h"

static const struct provenance by = {"foreline test", "plot", NULL, 0};
static const char svg[] = "test_plot_marks.svg", tsv[] = "test_plot_marks.tsv",
                  input[] = "test_plot_marks_in.tsv", trace[] = "test_plot_marks.json";

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

/* The picture of these measurements. */
static char *measured(const char *kind, const struct measurement *m, size_t n)
{
    const struct plot_kind *k;
    static const char *const path[] = {"a.json", "b.json", "c.json"};
    const struct plot_source s = {.n = n, .path = path, .m = m};
    need_gnuplot();
    assert_int_equal(plot_kind_find(kind, &k), STATUS_OK);
    if (k->draw(&s, svg, &by) != STATUS_OK)
        fail_msg("%s", error_message());
    return slurp(svg);
}

/* The picture of a table, as `foreline plot` draws it. */
static char *tabled(const char *kind, const char *text, struct plot_request r)
{
    const struct plot_kind *k;
    const char *const path[] = {input};
    need_gnuplot();
    put_text(input, text);
    r.path = path;
    r.n = 1;
    assert_int_equal(plot_kind_find(kind, &k), STATUS_OK);
    if (plot_files(k, &r, svg, &by) != STATUS_OK)
        fail_msg("%s", error_message());
    return slurp(svg);
}

static void has(char *text, const char *const *parts, bool wanted)
{
    for (; *parts; parts++)
        if (!message_says(text, *parts) == wanted)
            fail_msg("'%s' is %s in the picture", *parts, wanted ? "not" : "there");
}
#define HAS(text, ...)   has(text, (const char *const[]){__VA_ARGS__, NULL}, true)
#define LACKS(text, ...) has(text, (const char *const[]){__VA_ARGS__, NULL}, false)

static struct measured_rank half_busy(double step_s)
{
    return (struct measured_rank){.name = "r0",
                                  .busy_s = step_s / 2,
                                  .idle_s = step_s / 2,
                                  .weight_bytes = 3 << 20,
                                  .peak_bytes = 3 << 20,
                                  .memory_bytes = INT64_C(8) << 30};
}

/* ---- runs */

/* Of four steps the faster of the middle two, 0.3 s, is what ranks and links are of; 0.35 s is the
 * median. */
static void pictures_of_a_run_say_which_step_they_show(void **state)
{
    (void)state;
    double steps[] = {0.2, 0.4, 0.3, 0.6};
    struct measured_rank r = half_busy(0.3), p = half_busy(0.25);
    struct measured_link link = {"wire", 5, 0.5};
    const struct measurement m[] = {{.engine = "tcp",
                                     .iteration_s = 0.35,
                                     .iterations = 4,
                                     .iterations_s = steps,
                                     .ranks = 1,
                                     .rank = &r,
                                     .links = 1,
                                     .link = &link},
                                    {.engine = "simgrid",
                                     .iteration_s = 0.25,
                                     .iterations = 1,
                                     .iterations_s = &(double){0.25},
                                     .ranks = 1,
                                     .rank = &p,
                                     .links = 1,
                                     .link = &link}};
    char *text = measured("breakdown", m, 2);
    HAS(text, "300 ms (3 of 4)<", ">250 ms<", "the faster of two");
    free(text);
    text = measured("breakdown", &m[1], 1);
    LACKS(text, "the faster of two");
    free(text);
    text = measured("links", m, 1);
    HAS(text, "step 3 of 4: 300 ms; their median is 350 ms");
    free(text);
    text = measured("links", &m[1], 1);
    LACKS(text, "step");
    free(text);
}

/* 0.04 % of what the device has: the bar has the scale, the capacity is said. */
static void small_memory_is_seen_beside_large_devices(void **state)
{
    (void)state;
    struct measured_rank r = half_busy(1);
    const struct measurement m = {.iteration_s = 1, .ranks = 1, .rank = &r};
    char *text = measured("memory", &m, 1);
    HAS(text, ">3 MiB<", "(MiB)", "devices have 8 GiB");
    LACKS(text, ">capacity<");
    free(text);
    r.memory_bytes = 10 << 20;
    text = measured("memory", &m, 1);
    HAS(text, ">capacity<");
    free(text);
}

/* ---- scatter */

/* Rings for analytic and full marks for simgrid, whichever file comes first. */
static void marks_of_engines_do_not_depend_on_the_order_of_files(void **state)
{
    (void)state;
    const struct measurement m[] = {
        {.engine = "simgrid", .plan = "p", .iteration_s = 1},
        {.engine = "tcp", .plan = "p", .iteration_s = 1.1},
        {.engine = "analytic", .plan = "p", .iteration_s = 1},
    };
    const struct measurement back[] = {m[2], m[1], m[0]};
    for (int i = 0; i < 2; i++) {
        char *text = measured("scatter", i ? back : m, 3);
        /* gnuplot's points 6 (ring) and 7, which its SVG counts from 0, in both engines' colours */
        HAS(text, "xlink:href='#gpPt5'", "xlink:href='#gpPt6'");
        LACKS(text, "xlink:href='#gpPt8'");
        free(text);
    }
}

/* ---- timelines */

/* Three passes of 400 layers each, narrower than a pixel, are three boxes, with their numbers;
 * digits on the yellow of weight gradients are black. */
static void layers_of_a_pass_are_one_box_and_numbers_can_be_read(void **state)
{
    (void)state;
    static const char *const kind[] = {"forward", "backward", "weight"};
    const struct plot_kind *k;
    const char *const path[] = {trace};
    const struct plot_source s = {.n = 1, .path = path};
    need_gnuplot();
    FILE *f = fopen(trace, "w");
    assert_non_null(f);
    fputs("{\"otherData\": {\"step\": 7}, \"traceEvents\": [", f);
    for (int i = 0; i < 1200; i++)
        fprintf(f,
                "%s{\"name\": \"op%d\", \"cat\": \"%s\", \"ph\": \"X\", \"ts\": %d, \"dur\": 10, "
                "\"pid\": 0, \"args\": {\"microbatch\": %d}}\n",
                i ? "," : "", i, kind[i / 400], 10 * i, 4 + i / 400);
    fputs("]}", f);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(plot_kind_find("timeline", &k), STATUS_OK);
    assert_int_equal(k->draw(&s, svg, &by), STATUS_OK);
    char *text = slurp(svg);
    HAS(text, ">4</tspan>", ">5</tspan>", ">6</tspan>", "step 7 of the run");
    LACKS(text, "shares of the time");
    const char *six = strstr(text, ">6</tspan>");
    while (strncmp(six, "fill=\"rgb(", 10) != 0)
        six--;
    assert_memory_equal(six, "fill=\"rgb(0,0,0)\"", 17);
    free(text);
    assert_int_equal(k->draw(&s, tsv, &by),
                     STATUS_OK); /* alone: every op, though they are narrow */
    text = slurp(tsv);
    HAS(text, "op0\t", "op1199\t");
    free(text);
    remove(trace);
}

/* ---- tables */

static void all_numbers_of_an_axis_stand_there_where_they_fit(void **state)
{
    (void)state;
    char *text =
        tabled("throughput", "nic\tsamples_per_s\n100\t1\n150\t2\n180\t3\n200\t4\n250\t5\n400\t6\n",
               (struct plot_request){0});
    HAS(text, ">100<", ">150<", ">180<", ">200<", ">250<", ">400<");
    free(text);
    text = tabled("throughput", "GPUs\tsamples_per_s\n1024\t1\n16384\t2\n131072\t3\n",
                  (struct plot_request){0});
    HAS(text, ">16384<", ">131072<");
    free(text);
}

static void scales_of_colour_have_round_numbers(void **state)
{
    (void)state;
    static const struct plot_request r = {.x = "a", .y = "b", .value = "v"};
    char *text = tabled("heatmap", "a\tb\tv\n1\t1\t12.6\n1\t2\t63.1\n2\t1\t30\n", r);
    HAS(text, ">20<", ">40<", ">60<");
    LACKS(text, ">37.9<");
    free(text);
    text = tabled("heatmap", "a\tb\tv\n1\t1\t3.3\n1\t2\t900\n2\t1\t30\n", r);
    HAS(text, ">5<", ">10<", ">100<", ">500<");
    free(text);
}

/* Eight words that have no room side by side are turned, and all are there. */
static void heat_maps_name_every_row_and_column(void **state)
{
    (void)state;
    static const struct plot_request r = {.x = "model", .y = "platform", .value = "v"};
    char table[4096] = "model\tplatform\tv\n", row[64];
    for (int i = 0; i < 40; i++) {
        snprintf(row, sizeof row, "long-model-%d\tplatform-%d\t%d\n", i, i % 30, i + 1);
        strcat(table, row);
    }
    char *text = tabled("heatmap", table, r);
    for (int i = 0; i < 40; i++) {
        snprintf(row, sizeof row, ">long-model-%d<", i);
        HAS(text, row);
        snprintf(row, sizeof row, ">platform-%d<", i % 30);
        HAS(text, row);
    }
    free(text);
}

static void titles_labels_and_sizes_are_obeyed(void **state)
{
    (void)state;
    static const char rows[] = "nic\tplan\titeration_s\n1\ta\t1\n2\ta\t2\n1\tb\t3\n2\tb\t5\n";
    static const struct plot_request r = {.x = "nic",
                                          .look.title = "My title",
                                          .look.xlabel = "my x",
                                          .look.ylabel = "my y",
                                          .look.size = "640x500",
                                          .look.log = "xy"};
    char *text = tabled("throughput", rows, r);
    HAS(text, ">My title<", ">my x<", ">my y<", "width=\"640\" height=\"500\"");
    LACKS(text, ">iteration (s)<", ">nic<");
    free(text);
    struct plot_request h = r;
    h.y = "plan";
    h.look.log = NULL;
    text = tabled("heatmap", rows, h);
    HAS(text, ">My title<", ">my x<", ">my y<", "width=\"640\" height=\"500\"");
    free(text);
}

static void styles_that_a_kind_has_not_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *kind, *message;
        struct plot_request r;
    } bad[] = {
        {"heatmap", "plot heatmap --log", {.look.log = "x"}},
        {"timeline", "plot timeline --size", {.look.size = "640x480"}},
        {"bars", "plot bars --ylabel", {.look.ylabel = "y"}},
        {"profile", "plot profile --xlabel", {.look.xlabel = "x"}},
        {"throughput", "--log 'z'", {.look.log = "z"}},
        {"throughput", "--size: got '1x1', expected WIDTHxHEIGHT", {.look.size = "1x1"}},
        {"throughput", "--size: got '640x480 ', expected", {.look.size = "640x480 "}},
        {"throughput", "--log lowest 0", {.look.log = "y"}},
        {"heatmap",
         "--size figure needs",
         {.x = "nic", .y = "nic", .value = "iteration_s", .look.size = "200x200"}},
    };
    const char *const path[] = {input};
    put_text(input, "nic\titeration_s\n1\t0\n2\t2\n");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const struct plot_kind *k;
        struct plot_request r = bad[i].r;
        r.path = path;
        r.n = 1;
        assert_int_equal(plot_kind_find(bad[i].kind, &k), STATUS_OK);
        assert_int_equal(plot_files(k, &r, svg, &by), STATUS_USAGE);
        assert_message(error_message(), bad[i].message);
    }
}

/* Of repeats from the lowest to the highest; of one row its standard deviation, in the unit of
 * y. */
static void repeats_and_deviations_are_error_bars(void **state)
{
    (void)state;
    char *text =
        tabled("throughput", "nic\titeration_s\n1\t1\n1\t2\n2\t2\n", (struct plot_request){0});
    HAS(text, "highest repeats");
    LACKS(text, "standard deviation");
    free(text);
    text = tabled("throughput", "nic\titeration_s\titeration_stddev_s\n1\t.1\t.05\n2\t.2\t.15\n",
                  (struct plot_request){0});
    HAS(text, "standard deviation", " 300<"); /* the axis reaches 200 + 150 ms */
    free(text);
    text = tabled("throughput", "nic\titeration_s\n1\t1\n2\t2\n", (struct plot_request){0});
    LACKS(text, "error bars");
    free(text);
}

static void a_profile_counts_what_is_not_0(void **state)
{
    need_gnuplot();
    static const char rows[] =
        "layer\tkind\tforward_s\tbackward_s\tactivation_bytes\tparameter_bytes\n"
        "a\tlinear\t1e-3\t2e-3\t1000\t4000\n"
        "b\trelu\t1e-4\t1e-4\t1000\t0\n";
    const struct plot_kind *k;
    struct plot_table t;
    (void)state;
    assert_int_equal(table_parse("p", rows, sizeof rows - 1, &t), STATUS_OK);
    const char *const path[] = {"p"};
    const struct plot_request r = {.path = path, .n = 1, .table = &t};
    assert_int_equal(plot_kind_find("profile", &k), STATUS_OK);
    if (plot_files(k, &r, svg, &by) != STATUS_OK)
        fail_msg("%s", error_message());
    char *text = slurp(svg);
    HAS(text, ">Parameter (KiB)<", "1 of 2 layers have parameters", ">Activation (KiB)<",
        ">Time (ms)<", ">Layer (ms)<");
    free(text);
    table_free(&t);
}

/* The plan that is the best everywhere has no bar, but a name. */
static void the_best_is_in_the_legend_of_regret(void **state)
{
    (void)state;
    char *text = tabled("regret",
                        "case\tplan\tsamples_per_s\nu\tfirst\t2\nu\tsecond\t1\nv\tfirst\t2\n"
                        "v\tsecond\t1\n",
                        (struct plot_request){.x = "case"});
    HAS(text, ">first<", ">second<");
    free(text);
}

/* Each plan has one number of stages: over them nothing is sought. Of two engines lines of cases
 * show one. */
static void notes_name_what_differs_and_lines_are_cases_rather_than_engines(void **state)
{
    (void)state;
    static const char rows[] = "case\tnic\tway\tplan\tstatus\tengine\tsamples_per_s\n"
                               "a\t1\tx\t-\tok\tanalytic\t1\n"
                               "a\t2\tx\t-\tok\tanalytic\t2\n"
                               "b\t1\ty\t-\tok\tanalytic\t3\n"
                               "b\t2\ty\t-\tok\tanalytic\t4\n"
                               "b\t2\ty\t-\tok\tsimgrid\t5\n";
    char *text = tabled("throughput", rows, (struct plot_request){.x = "nic"});
    HAS(text, ">a<", ">b<", "only engine=analytic");
    LACKS(text, "highest over");
    free(text);
    text = tabled("throughput", rows, (struct plot_request){.x = "nic", .by = "engine"});
    HAS(text, "highest over case, way");
    free(text);
}

static int clean(void **state)
{
    (void)state;
    remove(svg);
    remove(tsv);
    remove(input);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pictures_of_a_run_say_which_step_they_show),
        cmocka_unit_test(small_memory_is_seen_beside_large_devices),
        cmocka_unit_test(marks_of_engines_do_not_depend_on_the_order_of_files),
        cmocka_unit_test(layers_of_a_pass_are_one_box_and_numbers_can_be_read),
        cmocka_unit_test(all_numbers_of_an_axis_stand_there_where_they_fit),
        cmocka_unit_test(scales_of_colour_have_round_numbers),
        cmocka_unit_test(heat_maps_name_every_row_and_column),
        cmocka_unit_test(titles_labels_and_sizes_are_obeyed),
        cmocka_unit_test(styles_that_a_kind_has_not_are_refused),
        cmocka_unit_test(repeats_and_deviations_are_error_bars),
        cmocka_unit_test(a_profile_counts_what_is_not_0),
        cmocka_unit_test(the_best_is_in_the_legend_of_regret),
        cmocka_unit_test(notes_name_what_differs_and_lines_are_cases_rather_than_engines),
    };
    return cmocka_run_group_tests_name("plot_marks", tests, NULL, clean);
}
