/* Constants fitted to runs: those that made the runs are found again, intervals hold the truth as
 * often as they say, what runs cannot tell is said, and what cannot be fitted is refused.
 *
 * Runs are plans of language models on H100s, timed on a platform whose constants are drawn; that
 * platform is written here, not by the fit. */
#include "study/fit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/provenance.h"
#include "core/base/random.h"
#include "sim/platform/platform.h"
#include "sim/platform/properties.h"
#include "sim/platform/variant.h"
#include "study/evaluate.h"
#include "tests/cmocka.h"
#include "tests/put.h"
#include "tests/sample.h"

static const char table[] = BINARY_DIR "/fit-runs.csv", truth_path[] = BINARY_DIR "/fit-truth.xml",
                  out_path[] = BINARY_DIR "/fit-out.xml";
static const struct provenance by = {"foreline", "test -- with dashes", NULL, 0};

#define LARGE "llama3-70b,\"rail:nodes=32,gpus=8,type=H100\",megatron,"
#define SMALL "llama3-8b,\"rail:nodes=4,gpus=8,type=H100\",megatron,"
static const char names[] =
    "model,platform,framework,stages,tensor-parallel,replicas,zero,batch,iteration_s\n";
/* Of two groups of runs, without their times: sequences, shards and sums of each that differ. */
static const char *const runs[2][5] = {
    {LARGE "4,8,8,0,256,", LARGE "1,1,256,3,256,", LARGE "1,8,32,3,512,",
     "llama3-70b:tokens=32768,\"rail:nodes=32,gpus=8,type=H100\",megatron,4,8,8,0,64,",
     "llama3-70b:tokens=2048,\"rail:nodes=32,gpus=8,type=H100\",megatron,1,2,128,3,256,"},
    {SMALL "1,1,32,3,64,", SMALL "1,8,4,1,64,", SMALL "2,2,8,0,64,",
     "llama3-8b:tokens=32768,\"rail:nodes=4,gpus=8,type=H100\",megatron,1,4,8,3,8,",
     "llama3-8b:tokens=1024,\"rail:nodes=16,gpus=8,type=H100\",megatron,1,1,128,3,128,"}};
enum { RUNS = 5 };

static void demand(enum status st)
{
    if (st != STATUS_OK)
        fail_msg("%s", error_message());
}

static void plan_path(size_t k, char path[256])
{
    snprintf(path, 256, "%s/fit-plan-%zu.json", BINARY_DIR, k);
}

/* Number i of a stream of standard normals (Box and Muller 1958). */
static double normal(uint64_t key, uint64_t i)
{
    double u = random_unit(key, 2 * i), v = random_unit(key, 2 * i + 1);
    return sqrt(-2 * log(1 - u)) * cos(8 * atan(1) * v);
}

/* Plans of a group of runs, as settings say them, as files. */
static void make_plans(size_t group, struct fit *f)
{
    FILE *t = fopen(table, "w");
    assert_non_null(t);
    fputs(names, t);
    for (size_t k = 0; k < RUNS; k++)
        fprintf(t, "%s\n", runs[group][k]);
    assert_int_equal(fclose(t), 0);
    demand(fit_read_rows(table, stderr, f));
    assert_int_equal(f->rows, RUNS);
    for (size_t k = 0; k < RUNS; k++) {
        char path[256];
        const struct loaded_plan *p = &f->row[k].plan;
        plan_path(k, path);
        demand(plan_write(&p->plan, &p->model, &p->topology, path, &by));
    }
}

/* What makes the runs: properties of devices, and changes of links. */
struct truth {
    double device[FITTED_DEVICE], nvlink, rail;
};

static double time_of(const struct fit_row *row, const struct truth *truth)
{
    char links[128], words[512], id[] = "fitted", *text = NULL;
    struct file_text varied = {0}, list = {0};
    struct topology t = {0};
    struct measurement m = {0};
    size_t n;
    snprintf(links, sizeof links, "nvlink.bandwidth=x%.17g,rail.bandwidth=x%.17g", truth->nvlink,
             truth->rail);
    demand(file_text_open(&list));
    fitted_put(truth->device, list.stream);
    demand(file_text_close(&list, STATUS_OK));
    snprintf(words, sizeof words, "%s", list.text);
    demand(file_read(row->plan.platform, &text, &n));
    const struct platform_text own = {row->plan.platform, text};
    demand(file_text_open(&varied));
    demand(file_text_close(&varied, platform_vary(&own, links, varied.stream)));
    FILE *to = fopen(truth_path, "w");
    assert_non_null(to);
    const struct platform_text changed = {truth_path, varied.text};
    demand(platform_set_properties(&changed, &(struct platform_property_text){id, words}, 1, to));
    assert_int_equal(fclose(to), 0);
    demand(platform_read(truth_path, &t));
    const struct evaluation_context context = {
        .model = &row->plan.model, .topology = &t, .platform = truth_path, .no_links = true};
    demand(evaluate_plan(&row->plan.plan, &context, &engine_analytic, &m, NULL, NULL));
    double seconds = m.iteration_s;
    measurement_free(&m);
    topology_free(&t);
    free(text);
    free(varied.text);
    free(list.text);
    return seconds;
}

/* The table of the plans with what the truth makes of them, times a normal of standard deviation
 * `noise`. */
static void make_runs(const struct fit *f, const struct truth *truth, double noise, uint64_t seed)
{
    FILE *t = fopen(table, "w");
    assert_non_null(t);
    fputs("# of a test\nplan,iteration_s\n\n", t);
    for (size_t k = 0; k < RUNS; k++) {
        fprintf(t, "fit-plan-%zu.json, %.17g\n", k,
                time_of(&f->row[k], truth) * exp(noise * normal(seed, k)));
    }
    assert_int_equal(fclose(t), 0);
}

static double true_times(const struct truth *truth, const struct fit_constant *c)
{
    if (c->what < FITTED_DEVICE)
        return fitted_times(truth->device[c->what]);
    return c->what == FITTED_latency            ? 1
           : !strcmp(c->name, "rail.bandwidth") ? truth->rail
                                                : truth->nvlink;
}

static void fit_table(struct fit *f)
{
    demand(fit_measured(&(struct fit_options){.rows = table, .notes = stderr}, f));
}

static void remove_all(void)
{
    char path[256];
    unlink(table);
    unlink(truth_path);
    unlink(out_path);
    for (size_t k = 0; k < RUNS; k++) {
        plan_path(k, path);
        unlink(path);
    }
}

/* Two or three constants changed by up to 30 %: those that the runs tell, of whose variance
 * beforehand a tenth is left, are found within 3 %, and what is fitted is what was measured. */
static void constants_that_made_the_runs_are_found_again(void **state)
{
    size_t found = 0, all = 0;
    for (uint64_t draw = 0; draw < (test_everything() ? 40 : 4); draw++) {
        struct fit group = {0}, f = {0};
        struct truth truth = {.nvlink = 1, .rail = 1};
        double *const some[] = {&truth.device[FITTED_products], &truth.rail,
                                draw % 3 ? &truth.device[FITTED_attention] : &truth.nvlink};
        make_plans(draw % 2, &group);
        for (size_t i = 0; i < 2 + draw % 2; i++)
            *some[i] = exp(0.3 * (2 * random_unit(900 + draw, i) - 1));
        make_runs(&group, &truth, 0, 0);
        fit_table(&f);
        for (size_t k = 0; k < f.constants; k++) {
            double times = true_times(&truth, &f.constant[k]);
            if (f.constant[k].state != FIT_FREE || f.constant[k].told < 0.9)
                continue;
            bool near = fabs(f.constant[k].value / times - 1) < 0.03;
            all++;
            found += near;
            if (!near)
                print_message("draw %d: %s is %.3f, found %.3f\n", (int)draw, f.constant[k].name,
                              times, f.constant[k].value);
        }
        assert_true(f.error < 0.01);
        fit_free(&f);
        fit_free(&group);
    }
    print_message("%zu of %zu constants within 3 %%\n", found, all);
    assert_true(all > 0 && found >= all * 19 / 20);
    remove_all();
}

/* All constants drawn as the table expects them, noise of 5 %: nine of ten intervals hold the
 * truth. */
static void intervals_hold_the_truth_as_often_as_they_say(void **state)
{
    size_t inside[FIT_CONSTANTS] = {0}, of[FIT_CONSTANTS] = {0}, held = 0, all = 0;
    char name[FIT_CONSTANTS][FIT_NAME];
    for (uint64_t draw = 0; draw < (test_everything() ? 100 : 10); draw++) {
        struct fit group = {0}, f = {0};
        struct truth truth = {0};
        double *const some[] = {&truth.rail, &truth.nvlink};
        make_plans(draw % 2, &group);
        for (size_t i = 0; i < FITTED_DEVICE + 2; i++) {
            const struct fitted_row *e =
                &fitted_rows[i < FITTED_DEVICE ? i : (size_t)FITTED_bandwidth];
            double x = normal(draw, i) * e->width;
            *(i < FITTED_DEVICE ? &truth.device[i] : some[i - FITTED_DEVICE]) =
                fmax(fmin(exp(x), e->most), e->least);
        }
        make_runs(&group, &truth, 0.05, 7000 + draw);
        fit_table(&f);
        for (size_t k = 0; k < f.constants; k++) {
            const struct fit_constant *c = &f.constant[k];
            double times = true_times(&truth, c);
            if (c->state == FIT_SILENT)
                continue;
            of[k]++;
            memcpy(name[k], c->name, FIT_NAME);
            inside[k] += times >= c->low && times <= c->high;
        }
        fit_free(&f);
        fit_free(&group);
    }
    for (size_t k = 0; k < FIT_CONSTANTS; k++) {
        if (of[k] > 0)
            print_message("%s: %zu of %zu\n", name[k], inside[k], of[k]);
        held += inside[k];
        all += of[k];
    }
    print_message("%zu of %zu intervals hold the truth\n", held, all);
    assert_true(all > 0 && (double)held >= 0.9 * (double)all);
    remove_all();
}

/* A platform that is written, and read and fitted again, says the same. */
static void the_platform_that_is_written_has_the_constants(void **state)
{
    struct fit group = {0}, f = {0};
    struct truth truth = {
        .device = {[FITTED_products] = 0.8, [FITTED_host] = 1.3}, .nvlink = 1, .rail = 0.6};
    struct topology t = {0};
    struct measurement m = {0};
    make_plans(0, &group);
    make_runs(&group, &truth, 0, 0);
    fit_table(&f);
    assert_true(f.begin_error > 0.05);
    assert_near(f.error, 0, 2e-3);
    demand(fit_write_platform(&f, NULL, out_path, &by));
    demand(platform_read(out_path, &t));
    const struct evaluation_context context = {
        .model = &group.row[0].plan.model, .topology = &t, .platform = out_path, .no_links = true};
    demand(evaluate_plan(&group.row[0].plan.plan, &context, &engine_analytic, &m, NULL, NULL));
    assert_near(m.iteration_s / f.row[0].fitted_s, 1, 1e-6);
    struct fit_platform again = {0};
    demand(fit_read_platform(out_path, &f, &again));
    assert_near(again.earlier[FITTED_products], 0.8, 0.02);
    fit_platform_free(&again);
    demand(fit_write_platform(&f, "rail:nodes=64,gpus=8,type=H100", out_path, &by));
    topology_free(&t);
    demand(platform_read(out_path, &t));
    assert_int_equal(t.n, 512);
    measurement_free(&m);
    topology_free(&t);
    fit_free(&f);
    fit_free(&group);
    remove_all();
}

/* Runs on one node say nothing of the network between nodes; runs that differ in nothing cannot
 * tell two constants apart. */
static void what_runs_cannot_tell_is_said(void **state)
{
    struct fit f = {0};
    char *text = NULL;
    size_t n;
    put_text(table, "model,platform,framework,tensor-parallel,replicas,batch,iteration_s,memory\n"
                    "llama3-8b,\"rail:nodes=1,gpus=8,type=H100\",megatron,8,1,8,1.8s,30GiB\n"
                    "llama3-8b,\"rail:nodes=1,gpus=8,type=H100\",megatron,8,1,16,3.6s,31GiB\n"
                    "llama3-8b,\"rail:nodes=1,gpus=8,type=H100\",megatron,8,1,32,,\n");
    fit_table(&f);
    assert_int_equal(f.measured, 2);
    assert_true(f.row[2].fitted_s > 1.1 * f.row[2].begin_s);
    assert_int_equal(f.memories, 2);
    FILE *out = fopen(out_path, "w");
    assert_non_null(out);
    fit_print(&f, out);
    fit_print_json(&f, &by, out);
    assert_int_equal(fclose(out), 0);
    demand(file_read(out_path, &text, &n));
    if (!strstr(text, "they say nothing: ") || !strstr(text, "cannot tell "))
        fail_msg("%s", text);
    for (size_t k = 0; k < f.constants; k++)
        if (!strncmp(f.constant[k].name, "rail", 4) || f.constant[k].what == FITTED_hop)
            assert_int_equal(f.constant[k].state, FIT_SILENT);
    free(text);
    fit_free(&f);
    remove_all();
}

static void refused(const char *text, const char *only, const char *message)
{
    struct fit f = {0};
    put_text(table, text);
    FILE *notes = tmpfile();
    char said[4096] = "";
    assert_non_null(notes);
    const struct fit_options o = {.rows = table, .only = only, .notes = notes};
    assert_true(fit_measured(&o, &f) != STATUS_OK);
    rewind(notes);
    size_t n = fread(said, 1, sizeof said - 1, notes);
    snprintf(said + n, sizeof said - n, "%s", error_message());
    fclose(notes);
    if (!message_says(said, message))
        fail_msg("'%s' does not say '%s'", said, message);
}

static void broken_tables_say_where(void **state)
{
    static const char laptop[] = "model,platform,stages,iteration_s\ngpt-tiny,laptop,2,1\n"
                                 "gpt-tiny,laptop,1,1\n";
    refused("", NULL, "rows");
    refused("plan,iteration_s\nq.json,x\nr.json,-1\n", NULL,
            "fit-runs.csv:2: iteration_s: got 'x' fit-runs.csv:3 2 of 2 rows cannot be used");
    refused("missing.json,1\nmissing.json,2\n", NULL, "fit-runs.csv:1: missing.json");
    refused("model,platform,colour,iteration_s\ngpt-tiny,laptop,red,1\n", NULL,
            "fit-runs.csv:2 colour");
    refused("model,platform,stagse,iteration_s\ngpt-tiny,laptop,2,1\n", NULL,
            "fit-runs.csv:2 stagse stages");
    refused("model,platform,stages,iteration_s\ngpt-tiny,laptop,2000,1\n", NULL, "fit-runs.csv:2");
    refused("model,platform,iteration_s,memory\ngpt-tiny,laptop,1s,lots\n", NULL, "memory lots");
    refused("model,platform,iteration_s\ngpt-tiny,laptop,1s\n", NULL, "1 measured run two");
    refused(laptop, "colour", "colour products, attention");
    remove_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constants_that_made_the_runs_are_found_again),
        cmocka_unit_test(intervals_hold_the_truth_as_often_as_they_say),
        cmocka_unit_test(the_platform_that_is_written_has_the_constants),
        cmocka_unit_test(what_runs_cannot_tell_is_said),
        cmocka_unit_test(broken_tables_say_where),
    };
    return cmocka_run_group_tests_name("fit", tests, NULL, NULL);
}
