/* Loads models, platforms and plans by name. */
#include "study/load.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/digest.h"
#include "core/base/file.h"
#include "core/base/path.h"
#include "core/base/text.h"
#include "core/lower/lower.h"
#include "model/import.h"
#include "model/papers.h"
#include "model/zoo.h"
#include "sim/platform/platform.h"
#include "sim/platform/variant.h"
#include "study/captured.h"
#include "topologies/cache.h"
#include "topologies/write.h"

/* A name that does not exist, or parameters that it does not have, are the user's mistake; a file
 * that is not there is a failure like any other. */
static enum status of_name(const char *spec, enum status st)
{
    size_t name = strcspn(spec, ":@");
    bool is_file = memchr(spec, '/', name) || memchr(spec, '.', name);
    return st == STATUS_INVALID && !is_file ? STATUS_USAGE : st;
}

static enum status build_published(const char *spec, struct model *out)
{
    const struct papers_of_models *papers;
    PASS(papers_load_models(&papers));
    return papers->build(spec, out);
}

/* A word without a slash or a dot can only be a name of the zoo, everything else is a file. */
enum status load_model_with(const char *spec, const struct import_options *options,
                            struct model *out)
{
    bool is_name = !strchr(spec, '/') && !strchr(spec, '.') && strcmp(spec, "-") != 0;
    if (papers_has_model(spec))
        return of_name(spec, build_published(spec, out));
    if (zoo_has(spec) || is_name) /* or says which names there are */
        return of_name(spec, zoo_build(spec, out));
    struct import_options o = *options;
    char *path = NULL;
    enum status st = import_split_choices(spec, &path, &o.choices);
    if (st == STATUS_OK)
        st = model_import(path, &o, out);
    free(path);
    return st;
}

enum status load_tokens(const char *spec, size_t tokens, char **out)
{
    const char *join = strchr(spec, ':') && strchr(spec, '=') ? "," : ":";
    size_t room = strlen(spec) + sizeof ":tokens=18446744073709551615";
    PASS(ARRAY_NEW(*out, room));
    snprintf(*out, room, "%s%stokens=%zu", spec, join, tokens);
    return STATUS_OK;
}

enum status load_model(const char *spec, struct model *out)
{
    return load_model_with(spec, &(struct import_options){.minibatch_size = 1}, out);
}

enum status load_model_apart(const char *spec, struct model *out)
{
    return load_model_with(spec, &(struct import_options){.minibatch_size = 1, .nodes_apart = true},
                           out);
}

enum status load_model_members(const char *spec, struct model *out, struct import_members *members)
{
    return load_model_with(spec, &(struct import_options){.minibatch_size = 1, .members = members},
                           out);
}

/* The file `base` with changes, as a file of its own:
 *   1. read the text of the base;
 *   2. apply the changes to the text (sim/platform/variant.h), so that comments and order stay;
 *   3. keep the result in the cache under the hash of its contents. */
static enum status vary(const char *base, const char *changes, char **path)
{
    enum status st;
    char *text = NULL;
    size_t length;
    struct file_text varied = {0};
    TRY(file_read(base, &text, &length));
    const struct platform_text platform = {base, text};
    TRY(file_text_open(&varied));
    TRY(file_text_close(&varied, platform_vary(&platform, changes, varied.stream)));
    TRY(cache_file("variant", varied.text, varied.length, path));
out:
    free(varied.text);
    free(text);
    return st;
}

/* Changes behind "@" make a file of their own in the cache, named by the hash of its contents: the
 * same changes are the same file, also for several processes at once. */
enum status load_platform(const char *name, char **path)
{
    enum status st;
    char *base = NULL, *file = NULL;
    const char *at = strrchr(name, '@');
    if (!at || access(name, F_OK) == 0) /* a file may be called so */
        return of_name(name, topology_resolve(name, path));
    TRY(text_copy(name, &base));
    base[at - name] = '\0';
    TRY(of_name(name, topology_resolve(base, &file)));
    st = of_name(name, vary(file, at + 1, path));
    if (st != STATUS_OK)
        st = error_context(st, "%s", name);
out:
    free(base);
    free(file);
    return st;
}

/* Only platforms that are read know their devices; the name replaces the one that the reader took
 * from the path. */
enum status load_topology(const char *name, struct topology *out, char **path)
{
    enum status st;
    char *found = NULL;
    struct topology t = {0};
    TRY(load_platform(name, &found));
    TRY(platform_read(found, &t));
    free(t.name); /* a path may differ from machine to machine */
    t.name = NULL;
    TRY(text_copy(name, &t.name));
    *out = t;
    *path = found;
    t = (struct topology){0};
    found = NULL;
out:
    topology_free(&t);
    free(found);
    return st;
}

/* The name behind a key, from here, and unchanged. */
static enum status find_named(const struct json_document *d, const char *path, const char *key,
                              const char *name, char **out)
{
    enum status st;
    char *found = NULL;
    TRY(path_find(name, path, &found));
    TRY(plan_check_file(d, key, found));
    *out = found;
    found = NULL;
out:
    free(found);
    return st;
}

enum status load_plan_names(const char *path, const struct load_instead *instead,
                            struct json_document *out, char **model, char **platform)
{
    enum status st;
    struct json_document d = {0};
    char *first = NULL, *second = NULL, *model_found = NULL;
    TRY(captured_is_no_plan(path));
    TRY(json_read(path, plan_format, PLAN_VERSION, &d));
    TRY(plan_references(&d, &first, &second));
    TRY(instead->model ? text_copy(instead->model, &model_found)
                       : find_named(&d, path, "model", first, &model_found));
    TRY(instead->platform ? text_copy(instead->platform, platform)
                          : find_named(&d, path, "platform", second, platform));
    *model = model_found;
    *out = d;
    model_found = NULL;
    d = (struct json_document){0};
out:
    free(first);
    free(second);
    free(model_found);
    json_document_free(&d);
    return st;
}

enum status load_of_plan(enum status st, const char *what, const char *path)
{
    return st == STATUS_OK ? st : error_context(st, "the %s of %s", what, path);
}

/* The hash of the file, and of what is taken instead. */
static enum status hash_plan(const struct json_document *d, const struct load_instead *o,
                             char **out)
{
    char hex[DIGEST_HEX];
    struct file_text t;
    PASS(file_text_open(&t));
    fputs(d->text, t.stream);
    if (o->model)
        fprintf(t.stream, "\nmodel %s", o->model);
    if (o->platform)
        fprintf(t.stream, "\nplatform %s", o->platform);
    if (o->batch > 0)
        fprintf(t.stream, "\nbatch %zu", o->batch);
    PASS(file_text_close(&t, STATUS_OK));
    digest_hex(t.text, t.length, hex);
    free(t.text);
    return text_copy(hex, out);
}

static enum status plan_take_name(const char *name, char **field)
{
    if (!name)
        return STATUS_OK;
    free(*field);
    *field = NULL;
    return text_copy(name, field);
}

/* What plan_read() has taken from the file gives way. */
static enum status plan_take_instead(const struct load_instead *o, struct loaded_plan *p)
{
    PASS(plan_take_name(o->model, &p->plan.model));
    PASS(plan_take_name(o->platform, &p->plan.platform));
    if (o->model && p->plan.steps > 0)
        return error_set(STATUS_INVALID, "--model cannot replace the model of a plan with "
                                         "\"steps\", which lists the sizes of its tensors");
    if (!o->batch)
        return STATUS_OK;
    if (o->batch % p->plan.microbatch_size != 0)
        return error_set(STATUS_INVALID,
                         "batch %zu is not a multiple of the plan's microbatch size %" PRIu32,
                         o->batch, p->plan.microbatch_size);
    p->plan.microbatches = (uint32_t)(o->batch / p->plan.microbatch_size);
    return plan_check(&p->plan, &p->model, &p->topology);
}

/* A name that only the file says is the file's mistake. */
static enum status of_file(enum status st, const char *given, const char *what, const char *path)
{
    if (given)
        return st;
    st = load_of_plan(st, what, path);
    return st == STATUS_USAGE ? STATUS_INVALID : st;
}

static enum status of_instead(enum status st, const struct load_instead *o)
{
    if (st == STATUS_OK || (!o->model && !o->platform))
        return st;
    return error_context(st, "the plan does not fit %s", o->model ? o->model : o->platform);
}

enum status load_plan_instead(const char *path, const struct load_instead *o, FILE *warnings,
                              struct loaded_plan *out)
{
    enum status st;
    struct loaded_plan p = {0};
    struct json_document d = {0};
    char *model = NULL, *platform = NULL;

    TRY(load_plan_names(path, o, &d, &model, &platform));
    TRY(hash_plan(&d, o, &p.sha256));
    TRY(of_file(load_model(model, &p.model), o->model, "model", path));
    st = load_topology(platform, &p.topology, &p.platform);
    TRY(of_file(st, o->platform, "platform", path));
    st = plan_read(&d, &p.model, &p.topology, &p.plan);
    st = st == STATUS_OK ? plan_take_instead(o, &p) : st == STATUS_USAGE ? STATUS_INVALID : st;
    TRY(of_instead(st, o));
    if (warnings)
        TRY(plan_warn(&d, &p.plan, &p.model, warnings));
    MOVE(out, p);
out:
    loaded_plan_free(&p);
    free(model);
    free(platform);
    json_document_free(&d);
    return st;
}

enum status load_plan_warn(const char *path, FILE *warnings, struct loaded_plan *out)
{
    return load_plan_instead(path, &(struct load_instead){0}, warnings, out);
}

enum status load_plan_only(const char *path, struct loaded_plan *out)
{
    return load_plan_warn(path, stderr, out);
}

/* Whatever a plan file names is looked for beside it too (core/base/path.h). */
enum status load_plan(const char *path, struct loaded_plan *out)
{
    enum status st;
    struct loaded_plan p = {0};
    TRY(load_plan_only(path, &p));
    TRY(plan_lower(&p.plan, &p.model, &p.topology, &p.program));
    MOVE(out, p);
out:
    loaded_plan_free(&p);
    return st;
}

void loaded_plan_free(struct loaded_plan *p)
{
    program_free(&p->program);
    plan_free(&p->plan);
    topology_free(&p->topology);
    model_free(&p->model);
    free(p->platform);
    free(p->sha256);
    *p = (struct loaded_plan){0};
}

/* Measurements are compared by plan_sha256 first (core/data/compare.h); names are for people, so
 * they are as seen from the current directory. */
enum status load_label(const struct loaded_plan *p, const char *path, const char *engine,
                       struct measurement *m)
{
    free(m->engine);
    m->engine = NULL;
    PASS(text_copy(engine, &m->engine));
    if (p->plan.framework && !m->parameters_sha256)
        PASS(text_copy(p->plan.framework, &m->framework));
    PASS(text_copy(path, &m->plan));
    PASS(text_copy(p->sha256, &m->plan_sha256));
    PASS(path_seen(p->plan.model, path, &m->model));
    PASS(path_seen(p->plan.platform, path, &m->platform));
    return STATUS_OK;
}

/* "--slow" is about compute (core/data/perturb.h) and about links (core/data/faults.h): the latter
 * are taken out first, the rest are names of ranks, devices and stages. */
enum status load_faults(const char *slow, const char *fail, const char *kill,
                        struct perturbation *slower, struct faults *faults)
{
    enum status st = STATUS_OK;
    char *rest = NULL;
    if (slow && (st = faults_take_slow(faults, slow, &rest)) == STATUS_OK && rest)
        st = perturbation_add_slow(slower, rest);
    free(rest);
    if (st != STATUS_OK)
        return error_context(st, "--slow");
    if (fail && (st = faults_add(faults, FAULT_FAIL, fail)) != STATUS_OK)
        return error_context(st, "--fail");
    if (kill && (st = faults_add(faults, FAULT_KILL, kill)) != STATUS_OK)
        return error_context(st, "--kill");
    return st;
}
