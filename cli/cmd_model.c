/* model - the zoo, what a model consists of, and models from other tools' files. */
#include "cli/command.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/json.h"
#include "core/base/units.h"
#include "core/data/model.h"
#include "exec/calibrate/profile.h"
#include "host/folder.h"
#include "host/screen.h"
#include "model/import.h"
#include "model/papers.h"
#include "model/zoo.h"
#include "partition/alike.h"
#include "study/load.h"
#include "study/model_text.h"
#include "study/point.h"

static const char details[] =
    "list           list the zoo: models built from hyper-parameters, which can be overridden\n"
    "show MODEL     print ops, work, memory and totals of a zoo model or a model file\n"
    "import FILE    convert another tool's file into a model file (-o model.json)\n"
    "compare A B    test if two graphs are isomorphic, and if each is two-terminal "
    "series-parallel\n"
    "profile MODEL  measure every op here, forward and backward, and write the model with its "
    "times\n"
    "\n"
    "MODEL is a name of the zoo with overrides (gpt2-small:layers=6,hidden=512), or a file\n"
    "('-': stdin) in foreline's JSON or a format that 'model list' names.\n"
    "Work and activation sizes are per sample, and FLOP count a multiply-add as two. stash is the\n"
    "memory that an op keeps from forward to backward.\n"
    "With a profile, times are per microbatch of the size stated above the table.";

/* ---- subcommands */

static void model_print_row(const char *name, const char *summary, const struct model *m)
{
    char parameters[MODEL_GROUPED];
    printf("%-16s  %15s  %5zu  %6g  %s\n", name, model_grouped(model_parameters(m), parameters),
           m->n, m->tokens_per_sample, summary);
}

static void print_overrides(const struct zoo_entry *e)
{
    printf("%-16s  ", e->name);
    for (size_t k = 0; k < e->parameters; k++) {
        const struct zoo_parameter *p = &e->parameter[k];
        printf("%s%s=", k ? "," : "", p->name);
        if (p->names)
            fputs(p->names[p->value], stdout);
        else
            printf("%" PRId64, p->value);
    }
    putchar('\n');
}

/* Opens the object of a model, and in it that of its overrides. */
static void open_row(struct json_writer *w, const char *name, const char *summary,
                     const struct model *m)
{
    json_open_object(w, NULL, false);
    json_put_string(w, "name", name);
    json_put_string(w, "summary", summary);
    json_put_integer(w, "parameters", model_parameters(m));
    json_put_integer(w, "ops", (int64_t)m->n);
    json_put_real(w, "tokens_per_sample", m->tokens_per_sample);
    json_open_object(w, "overrides", true);
}

static void put_zoo_row(struct json_writer *w, const struct zoo_entry *e, const struct model *m)
{
    open_row(w, e->name, e->summary, m);
    for (size_t k = 0; k < e->parameters; k++) {
        const struct zoo_parameter *p = &e->parameter[k];
        if (p->names)
            json_put_string(w, p->name, p->names[p->value]);
        else
            json_put_integer(w, p->name, p->value);
    }
    json_close(w);
    json_close(w);
}

/* Models by operators (docs/reference/partitioners.md), as rows like those of the zoo. */
static enum status list_published(const struct papers_of_models *papers, struct json_writer *w)
{
    struct model m = {0};
    for (size_t i = 0; i < papers_models_n; i++) {
        char name[64];
        const struct papers_model *p = &papers_models[i];
        snprintf(name, sizeof name, "%s%s", p->name, p->alone ? "" : ":ops=1");
        PASS(papers->build(name, &m));
        if (!w)
            model_print_row(name, p->summary, &m);
        if (w)
            open_row(w, name, p->summary, &m);
        for (const struct papers_option *o = papers->option; w && o->name; o++)
            json_put_integer(w, o->name, o->standard);
        for (int k = 0; w && k < 2; k++)
            json_close(w);
        model_free(&m);
    }
    return STATUS_OK;
}

static void print_published_overrides(const struct papers_of_models *papers)
{
    for (size_t i = 0; i < papers_models_n; i++) {
        if (!papers_models[i].alone)
            continue; /* the same, behind ops=1, with other defaults of seq, top and classes */
        printf("%-16s  ", papers_models[i].name);
        for (const struct papers_option *o = papers->option; o->name; o++)
            printf("%s%s=%" PRId64, o > papers->option ? "," : "", o->name, o->standard);
        putchar('\n');
    }
}

static enum status model_list_zoo(const struct arguments *a)
{
    struct model m = {0};
    struct json_writer w = {.stream = stdout};
    const struct papers_of_models *papers = NULL;
    if (papers_load_models(&papers) != STATUS_OK)
        fprintf(stderr, "this table lacks the models of the published papers: %s\n",
                error_message());
    if (a->json) {
        json_open_object(&w, NULL, false);
        json_open_array(&w, "models", false);
    } else {
        printf("%-16s  %15s  %5s  %6s  %s\n", "# model", "parameters", "ops", "tokens", "summary");
    }
    for (size_t i = 0; i < zoo_n; i++) {
        PASS(zoo_build(zoo[i]->name, &m));
        if (a->json)
            put_zoo_row(&w, zoo[i], &m);
        else
            model_print_row(zoo[i]->name, zoo[i]->summary, &m);
        model_free(&m);
    }
    if (papers)
        PASS(list_published(papers, a->json ? &w : NULL));
    if (a->json) {
        json_close(&w);
        json_close(&w);
        return STATUS_OK;
    }
    printf("\n%-16s  %s\n", "# model", "overrides with their defaults");
    for (size_t i = 0; i < zoo_n; i++)
        print_overrides(zoo[i]);
    if (papers)
        print_published_overrides(papers);
    printf("\n%-16s  %s\n", "# importer", "reads");
    for (size_t i = 0; i < importers_n; i++)
        printf("%-16s  %s\n", importers[i]->name, importers[i]->summary);
    return STATUS_OK;
}

static enum status model_import_file(const struct arguments *a, const char *path, struct model *out)
{
    const struct import_options o = {.minibatch_size = a->measure.minibatch_size,
                                     .device = a->measure.device};
    return load_model_with(path, &o, out);
}

static enum status model_show(const struct invocation *in, const char *spec)
{
    const struct arguments *a = &in->a;
    enum status st = STATUS_OK;
    struct model m = {0};
    if (!zoo_has(spec) && !papers_has_model(spec) && strcmp(spec, "-") != 0 && !strchr(spec, ':') &&
        access(spec, F_OK) != 0)
        FAIL(STATUS_USAGE,
             "'%s' is neither a file nor a zoo model; list the zoo with foreline model list", spec);
    if (zoo_has(spec) && (a->measure.device || arguments_given(a, "minibatch-size")))
        FAIL(STATUS_USAGE, "--%s applies to imported profiles only, but '%s' is a zoo model",
             a->measure.device ? "device" : "minibatch-size", spec);
    TRY(zoo_has(spec) ? load_model(spec, &m) : model_import_file(a, spec, &m));
    if (a->json)
        TRY(model_write(&m, "-", &in->by));
    else
        model_print(&m, stdout);
out:
    model_free(&m);
    return st;
}

static enum status import_file(const struct invocation *in, const char *path)
{
    const struct arguments *a = &in->a;
    enum status st = STATUS_OK;
    struct model m = {0};
    char parameters[MODEL_GROUPED];
    if (!a->output)
        FAIL(STATUS_USAGE, "'model import' needs -o FILE, the model file to write");
    TRY(model_import_file(a, path, &m));
    TRY(model_write(&m, a->output, &in->by));
    fprintf(stderr, "%s: %zu ops, %zu edges, %s parameters\n", a->output, m.n, m.edges,
            model_grouped(model_parameters(&m), parameters));
out:
    model_free(&m);
    return st;
}

static void print_graph(const char *name, const struct model *m, bool series_parallel)
{
    printf("%-24s  %zu ops, %zu edges, %sseries-parallel\n", name, m->n, m->edges,
           series_parallel ? "" : "not ");
}

static enum status model_compare_files(const char *first, const char *second)
{
    enum status st;
    struct model a = {0}, b = {0};
    enum model_alike alike;
    bool parts[2];
    TRY(load_model(first, &a));
    TRY(load_model(second, &b));
    TRY(model_series_parallel(&a, &parts[0]));
    TRY(model_series_parallel(&b, &parts[1]));
    TRY(model_alike(&a, &b, &alike));
    print_graph(first, &a, parts[0]);
    print_graph(second, &b, parts[1]);
    printf("%-24s  %s\n", "isomorphic", model_alike_names[alike]);
out:
    model_free(&a);
    model_free(&b);
    return st;
}

/* Sums of one profile. */
static void model_print_profile(const struct model *m, const struct model_profile *p,
                                const struct calibrate_spread *spread, size_t ranks)
{
    double forward_s = 0, backward_s = 0, flop = 0;
    for (size_t i = 0; i < m->n; i++) {
        forward_s += p->forward_s[i];
        backward_s += p->backward_s[i];
        flop += (m->op[i].forward_flop + m->op[i].backward_flop) * p->samples;
    }
    fprintf(stderr,
            "%s: %zu ops on %s, microbatches of %g sample%s: forward %s, backward %s, %s\n"
            "measured on %zu rank%s at the same time\n"
            "spread of repetitions (interquartile range / median): %.1f %% (median op), %.0f %% "
            "(worst op)\n"
            "standard deviations of all ops / their total time: %.0f %%; simulate it with --jitter "
            "%.0f%%\n",
            m->name, m->n, p->device, p->samples, p->samples == 1 ? "" : "s",
            units_of(UNIT_SECONDS, forward_s).text, units_of(UNIT_SECONDS, backward_s).text,
            units_of(UNIT_FLOPS, flop / (forward_s + backward_s)).text, ranks,
            ranks == 1 ? "" : "s", 100 * spread->median, 100 * spread->worst, 100 * spread->jitter,
            100 * spread->jitter);
}

/* The strategy on one device of a model that the zoo's layers do not make up; others have none. */
static enum status plan_alone(const struct invocation *in, const struct model *m,
                              struct loaded_plan *out)
{
    enum status st;
    char folder[FOLDER_TEMPORARY], path[FOLDER_FILE];
    if (!papers_has_model(m->name))
        return STATUS_OK;
    PASS(folder_temporary(folder));
    folder_file(folder, "plan.json", path);
    TRY(point_plan_alone(m->name, in->a.batch, path, &in->by));
    TRY(load_plan(path, out));
out:
    folder_remove(folder);
    return st;
}

static enum status model_add_profile(const struct invocation *in, const char *spec)
{
    const struct arguments *a = &in->a;
    enum status st = STATUS_OK;
    struct model m = {0};
    struct calibrate_spread spread;
    const bool gpu = a->measure.device && !strcmp(a->measure.device, "cuda");
    struct loaded_plan alone = {0};
    const struct papers_of_models *papers = NULL;
    struct profile_options o = {.batch = a->batch,
                                .ranks = gpu ? 1 : a->run.ranks,
                                .repeats = a->run.repeats,
                                .notes = screen_drawing(),
                                .gpu = gpu,
                                .cudnn = a->launch.cudnn};
    size_t k = 0;
    if (!a->output && !a->measure.graph)
        return error_set(STATUS_USAGE, "'model profile' needs -o FILE or --graph FILE");
    if (a->measure.device && !gpu && strcmp(a->measure.device, "cpu") != 0)
        return error_set(STATUS_USAGE, "--device: got %s, expected cpu or cuda", a->measure.device);
    if (a->launch.cudnn && !gpu)
        return error_set(STATUS_USAGE, "--cudnn needs --device cuda");
    if (a->measure.graph)
        TRY(papers_load_models(&papers));
    TRY(load_model(spec, &m));
    TRY(arguments_try_files(a));
    TRY(gpu ? STATUS_OK : plan_alone(in, &m, &alone));
    o.strategy = alone.program.ranks > 0 ? &alone.program : NULL;
    TRY(profile_ops(&m, &o, &spread));
    while (strcmp(m.profile[k].device, gpu ? "cuda" : "cpu") != 0 ||
           m.profile[k].samples != (double)a->batch || m.profile[k].tensor_parallel != 1)
        k++;
    if (a->output)
        TRY(model_write(&m, a->output, &in->by));
    if (papers)
        TRY(papers->write_pipedream(&m, k, a->measure.graph));
    model_print_profile(&m, &m.profile[k], &spread, o.ranks);
out:
    loaded_plan_free(&alone);
    model_free(&m);
    return st;
}

static enum status model(struct invocation *in)
{
    static const struct {
        const char *name;
        enum status (*run)(const struct invocation *in, const char *model);
    } all[] = {{"show", model_show}, {"import", import_file}, {"profile", model_add_profile}};
    const char *word = in->operands > 0 ? in->operand[0] : "";
    PASS(arguments_check(&in->a, settings_taker("model", word)));
    if (in->operands == 1 && !strcmp(word, "list"))
        return model_list_zoo(&in->a);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (in->operands == 2 && !strcmp(word, all[i].name))
            return all[i].run(in, in->operand[1]);
    if (in->operands == 3 && !strcmp(word, "compare"))
        return model_compare_files(in->operand[1], in->operand[2]);
    return error_set(
        STATUS_USAGE,
        "expected foreline model list, show MODEL, import FILE, compare A B or profile MODEL");
}

const struct command command_model = {
    .name = "model",
    .synopsis = "list | show MODEL | import FILE | compare A B | profile MODEL",
    .summary = "list, show, import, compare and profile models",
    .details = details,
    .examples = "foreline model list\n"
                "foreline model show gpt2-small:layers=6\n",
    .run = model,
};
