/* Exports and imports of plans, from names of files to files. */
#include "study/frameworks/port.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "model/config.h"
#include "model/zoo.h"
#include "study/evaluate.h"
#include "study/frameworks/setup.h"
#include "study/load.h"
#include "study/memory_answer.h"
#include "study/planning.h"
#include "study/warn.h"

/* ---- export */

/* The model's sizes, or a note that the framework must be told about them otherwise. */
static enum status port_describe(const char *model, struct setup *s)
{
    struct architecture a;
    struct architecture_choice c;
    enum status st = config_find(model, &a, &c);
    if (st == STATUS_NOMEM)
        return st;
    s->tokens = st == STATUS_OK ? c.tokens : 0;
    if (st == STATUS_OK && zoo_has(model) && !strstr(model, "layers=")) { /* as it is published */
        s->model = arena_text_n(&s->keys->memory, model, strcspn(model, ":"));
        if (!s->model)
            return STATUS_NOMEM;
    }
    if (st == STATUS_OK && s->tokens == 0)
        s->tokens = a.context < 4096 ? a.context : 4096; /* as architecture_build() has it */
    if (st == STATUS_OK && setup_of_architecture(&a, &c, s))
        return STATUS_OK;
    int64_t layers = s->a.layers;
    s->a = (struct architecture){.layers = layers};
    return setup_add_note(s, NOTE_LOST,
                          "the sizes of model %s, which the framework's arguments cannot describe; "
                          "add them to the script yourself",
                          model);
}

/* The framework's own reason, with its name before it; other failures pass. */
static enum status port_cannot(const struct dialect *f, enum status st)
{
    char why[1024];
    if (st != STATUS_UNSUPPORTED)
        return st;
    snprintf(why, sizeof why, "%s", error_message());
    return error_set(st, "%s cannot express this plan: %s", f->title, why);
}

/* *why: the framework warns against the plan; NULL: not asked. */
static enum status says(const char *launcher, const struct plan *p, const struct model *m,
                        const struct topology *t, const char *model, const char **why)
{
    enum status st;
    struct keys k = {.path = "plan", .format = KEYS_TREE};
    struct setup s = {.keys = &k};
    const struct dialect *to;
    TRY(text_find("framework", launcher, dialects, dialects_n, &to));
    TRY(port_cannot(to, setup_of_plan(p, m, t, &s)));
    TRY(port_describe(model, &s));
    TRY(port_cannot(to, setup_express(&s, to)));
    if (why)
        *why = to->warns ? to->warns(&s) : NULL;
out:
    keys_free(&k);
    return st;
}

enum status port_says(const char *launcher, const struct plan *p, const struct model *m,
                      const struct topology *t, const char *model)
{
    return says(launcher, p, m, t, model, NULL);
}

enum status port_launches(const struct plan *p, const struct model *m, const struct topology *t,
                          const char *model, char *refused)
{
    const struct framework *f = plan_framework(p);
    const char *why = NULL;
    enum status st =
        f && f->launcher
            ? says(f->launcher, p, m, t, model, &why)
            : error_set(STATUS_UNSUPPORTED,
                        "foreline writes no launch scripts for the framework of this plan");
    if (st == STATUS_OK && why)
        st = error_set(STATUS_UNSUPPORTED, "%s warns against %s", f->launcher, why);
    if (st != STATUS_OK)
        snprintf(refused, EVALUATION_REFUSED, "%s", error_message());
    return st;
}

/* Whose times and memory the plan's prediction has, where that is not what `to` runs. */
static enum status note_framework(const struct plan *p, const struct dialect *to, struct setup *s)
{
    const struct framework *f = plan_framework(p);
    bool nemo = strcmp(to->name, "nemo") == 0; /* runs Megatron-Core */
    if (f && f->launcher && strstr(nemo ? "megatron" : to->name, f->launcher))
        return STATUS_OK;
    return f ? setup_add_note(s, NOTE_ASSUMED,
                              "time and memory are predicted for %s (%s); with %s they may differ",
                              f->name, f->summary, to->title)
             : setup_add_note(
                   s, NOTE_ASSUMED,
                   "time and memory are predicted for foreline's own executor, because the plan "
                   "names no framework; to predict %s, make the plan with --framework",
                   to->title);
}

/* What `to` is told, in the opened file. */
static enum status write_arguments(const struct dialect *to, struct loaded_plan *l,
                                   const char *model, struct setup *s, FILE *out)
{
    char title[256];
    if (to->of_plan)
        return port_cannot(to, to->of_plan(&l->plan, &l->model, out));
    PASS(topology_find_nodes(&l->topology));
    PASS(port_cannot(to, setup_of_plan(&l->plan, &l->model, &l->topology, s)));
    PASS(port_describe(model, s));
    PASS(port_cannot(to, setup_express(s, to)));
    PASS(note_framework(&l->plan, to, s));
    const char *why = to->warns ? to->warns(s) : NULL;
    if (why)
        PASS(setup_add_note(s, NOTE_LOST, "%s warns against %s", to->title, why));
    snprintf(title, sizeof title, "%s for %s%s%s, by foreline plan export", l->plan.model,
             to->title, to->version ? " " : "", to->version ? to->version : "");
    to->write(s, title, out);
    return STATUS_OK;
}

/* What would go wrong where the arguments are run. */
static enum status port_warn(struct loaded_plan *l, FILE *notes)
{
    const struct evaluation_context context = {.model = &l->model, .topology = &l->topology};
    PASS(topology_find_nodes(&l->topology));
    warn_of_overlap(&l->plan, &l->topology, notes);
    return memory_warn(&l->plan, &context, notes);
}

/* The file is there only when all of it has been written. */
enum status port_export(const struct arguments *a, const char *plan, FILE *notes)
{
    enum status st;
    struct loaded_plan l = {0};
    struct keys k = {.path = plan, .format = KEYS_TREE};
    struct setup s = {.keys = &k};
    struct json_document d = {0};
    struct file_out f = {0};
    char *model = NULL, *platform = NULL;
    const struct dialect *to = NULL;
    if (!a->port.to)
        return error_set(STATUS_USAGE, "'plan export' needs --to NAME, such as --to megatron");
    TRY(text_find("framework", a->port.to, dialects, dialects_n, &to));
    TRY(load_plan_names(plan, &(struct load_instead){0}, &d, &model, &platform));
    TRY(load_plan_only(plan, &l));
    TRY(file_create(a->output ? a->output : "-", &f));
    TRY(write_arguments(to, &l, model, &s, f.stream));
    TRY(file_commit(&f));
    setup_print_notes(&s, notes);
    TRY(port_warn(&l, notes));
out:
    file_discard(&f);
    free(platform);
    free(model);
    json_document_free(&d);
    loaded_plan_free(&l);
    keys_free(&k);
    return st;
}

/* ---- import */

/* The name of the model's file: that of the plan with another ending. */
static enum status port_name_model(const char *plan, char **out)
{
    size_t n = strlen(plan), room = n + sizeof ".model.json";
    n -= n > 5 && !strcmp(plan + n - 5, ".json") ? 5 : 0;
    PASS(ARRAY_NEW(*out, room));
    snprintf(*out, room, "%.*s.model.json", (int)n, plan);
    return STATUS_OK;
}

/* A model by its sizes: built, and where there is a plan file, written beside it. */
static enum status model_of_sizes(struct setup *s, const char *plan, char **spec, struct model *out)
{
    enum status st;
    struct architecture a;
    struct file_out f = {0};
    struct file_text said = {0};
    char *path = NULL;
    const struct architecture_choice c = {
        .tokens = s->tokens, .dtype = (enum data_type)s->dtype, .flash = !s->plain_attention};
    TRY(setup_architecture(s, &a));
    st = architecture_build(&a, &c, "imported", out);
    if (st == STATUS_INVALID)
        st = error_context(st, "%s", s->keys->path);
    TRY(st);
    if (!plan)
        goto out;
    TRY(port_name_model(plan, &path));
    TRY(file_text_open(&said));
    fprintf(said.stream, "%s:flash=%d", path, !s->plain_attention);
    if (s->tokens > 0)
        fprintf(said.stream, ",tokens=%" PRId64, s->tokens);
    fprintf(said.stream, ",dtype=%s", data_type_names[s->dtype]);
    TRY(file_text_close(&said, STATUS_OK));
    *spec = said.text;
    TRY(file_create(path, &f));
    config_write(&a, f.stream);
    TRY(file_commit(&f));
out:
    file_discard(&f);
    free(path);
    return st;
}

/* What the user names, what the file names, or the file's sizes. */
static enum status port_find_model(const struct arguments *a, struct setup *s, char **spec,
                                   struct model *out)
{
    const bool written = a->output && strcmp(a->output, "-") != 0;
    if (!a->model && !s->model) {
        if (a->output && !written)
            return error_set(
                STATUS_USAGE,
                "-o -: the model cannot be written to standard output; name it with --model M");
        return model_of_sizes(s, a->output, spec, out);
    }
    if (a->model)
        PASS(text_copy(a->model, spec));
    else if (s->tokens > 0)
        PASS(load_tokens(s->model, (size_t)s->tokens, spec));
    else
        PASS(text_copy(s->model, spec));
    return load_model(*spec, out);
}

/* What the user names, or nodes with a rail of the usual GPU. */
static enum status find_platform(const struct arguments *a, struct setup *s, char **spec)
{
    int64_t per_node = s->per_node > 0 && s->devices % s->per_node == 0 ? s->per_node
                       : s->devices % 8 == 0                            ? 8
                                                                        : 1;
    if (a->platform)
        return text_copy(a->platform, spec);
    PASS(ARRAY_NEW(*spec, 96));
    snprintf(*spec, 96, "rail:nodes=%" PRId64 ",gpus=%" PRId64 ",type=H100", s->devices / per_node,
             per_node);
    return setup_add_note(s, NOTE_ASSUMED, "the platform %s; override it with --platform P", *spec);
}

/* Of the plan that was made, not of the file. */
static void port_print_summary(const struct setup *s, const struct dialect *from,
                               const struct plan *p, const struct model *m, FILE *out)
{
    const struct plan_stage *stage = &p->stage[0];
    fprintf(out, "%s: %" PRId64 " devices = tensor %u", from->name, s->devices, s->tensor_parallel);
    if (p->sequence_parallel)
        fputs(" with sequence parallelism", out);
    fprintf(out, " x pipeline %" PRId64, s->pipeline);
    if (s->chunks > 1)
        fprintf(out, " (%zu stages)", p->stages);
    if (s->context_parallel > 1)
        fprintf(out, " x context %u", s->context_parallel);
    fprintf(out, " x %u replicas", plan_streams(stage));
    if (stage->expert_parallel > 1)
        fprintf(out, ", experts over %u", stage->expert_parallel);
    fprintf(out, "; %u microbatches of %u, %s, ZeRO %u, recompute %s; %.4g billion parameters\n",
            p->microbatches, p->microbatch_size, p->schedule, p->zero,
            plan_recompute_names[stage->recompute], (double)model_parameters(m) / 1e9);
}

/* How many devices: what the user says, else what the file says, else those of the named
 * platform. */
static enum status port_find_devices(const struct arguments *a, struct setup *s)
{
    enum status st;
    struct topology t = {0};
    char *path = NULL;
    size_t devices = a->devices;
    bool said = s->devices > 0 || s->nodes > 0 || s->per_node > 0;
    if (devices == 0 && !said && a->platform) {
        TRY(load_topology(a->platform, &t, &path));
        devices = t.n;
    }
    st = setup_settle(s, (int64_t)devices);
out:
    free(path);
    topology_free(&t);
    return st;
}

/* What is asked for where the file says it already, or what only a file without sizes leaves
 * open. */
static enum status check_asked(const struct arguments *a, const struct setup *s,
                               const struct dialect *from)
{
    static const char *const open[] = {"split-at",           "microbatches", "microbatch-size",
                                       "optimizer",          "schedule",     "recompute",
                                       "no-input-pipelining"};
    if (from->to_plan && a->devices > 0)
        return error_set(STATUS_USAGE, "--gpus has no effect: %s defines the ranks", s->keys->path);
    for (size_t i = 0; i < sizeof open / sizeof *open && !from->to_plan; i++)
        if (arguments_given(a, open[i]))
            return error_set(STATUS_USAGE,
                             "--%s has no effect: %s files define it (override with --set)",
                             open[i], from->title);
    if (from->to_plan && !a->model && a->output)
        return error_set(STATUS_USAGE, "%s files do not name a model; give it with --model M",
                         from->title);
    return STATUS_OK;
}

/* What the dialect's files launch, which torchtitan may leave uncompiled; NULL: nothing is known of
 * it. */
static const struct framework *launched_by(const struct dialect *from, const struct setup *s)
{
    bool titan = strcmp(from->title, dialect_torchtitan.title) == 0;
    for (size_t i = 0; i < frameworks_n; i++)
        if (titan ? !strcmp(frameworks[i]->name, s->compiled ? "compiled" : "eager")
                  : frameworks[i]->launcher && !strcmp(frameworks[i]->launcher, from->name))
            return frameworks[i];
    return NULL;
}

/* The framework, and gradients that are summed as before: what the file says is no default of the
 * framework. */
static enum status set_framework(struct plan *p, const struct model *m, const char *name)
{
    int64_t bytes = plan_reduce_bytes(p, m);
    bool summed = p->stage[0].replicas > 1;
    PASS(plan_set_framework(p, name));
    p->reduce_dtype = DATA_ANY;
    if (summed && plan_reduce_bytes(p, m) != bytes)
        p->reduce_dtype = bytes == 4 ? DATA_fp32 : DATA_bf16;
    return STATUS_OK;
}

/* Who issues the kernels is in no file: what they launch, where plans have a framework by
 * themselves. Files that have plans of their own name none. */
static enum status take_framework(const struct arguments *a, const struct framework *its,
                                  const struct model *m, const struct topology *t, struct plan *p,
                                  FILE *notes)
{
    struct framework_choice taken = plan_choose_framework(a, m, t);
    if (taken.name && its)
        taken.name = its->name;
    if (its || taken.name)
        fprintf(notes, "assumed: times and memory of %s (override with --framework)\n",
                taken.name ? framework_of(taken.name).summary : frameworks[0]->summary);
    return set_framework(p, m, taken.name);
}

/* The model file is written before the plan that refers to it by hash. */
enum status port_import(const struct arguments *a, const char *const *file, size_t files,
                        const struct provenance *by, FILE *out, FILE *notes)
{
    enum status st;
    struct keys k = {0};
    struct setup s = {.keys = &k};
    struct model m = {0};
    struct topology t = {0};
    struct plan p = {0};
    char *model = NULL, *platform = NULL, *path = NULL;
    const struct dialect *from = NULL;
    TRY(keys_read(file, files, a->port.sets.item, a->port.sets.n, &k));
    TRY(dialect_recognise(&k, &from));
    TRY(setup_read(&s, from->row, from->rows));
    TRY(from->after(&s));
    TRY(check_asked(a, &s, from));
    if (from->print)
        from->print(&s, out);
    if (from->to_plan && !a->model) {
        setup_print_notes(&s, notes);
        goto out;
    }
    if (!from->to_plan)
        TRY(port_find_devices(a, &s));
    TRY(port_find_model(a, &s, &model, &m));
    TRY(find_platform(a, &s, &platform));
    TRY(load_topology(platform, &t, &path));
    TRY(from->to_plan ? from->to_plan(&s, a, &m, &t, &p) : setup_to_plan(&s, &m, &t, &p));
    if (a->framework || from->to_plan)
        TRY(set_framework(&p, &m, a->framework));
    else
        TRY(take_framework(a, launched_by(from, &s), &m, &t, &p, notes));
    if (!from->print)
        port_print_summary(&s, from, &p, &m, out);
    setup_print_notes(&s, notes);
    TRY(warn_of_clip(&p, &m, &t, notes));
    if (a->output) {
        MOVE(&p.model, model);
        MOVE(&p.platform, platform);
        TRY(plan_write(&p, &m, &t, a->output, by));
    }
out:
    plan_free(&p);
    topology_free(&t);
    model_free(&m);
    free(path);
    free(platform);
    free(model);
    keys_free(&k);
    return st;
}
