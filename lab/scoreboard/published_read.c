/* Reads measured runs of the published schema: {"source": {...}, "rows": [...]}.
 *
 * One table says where each member of a configuration stands. Keys that are absent or null leave it
 * at 0; keys that are not in the table are ignored. */
#include "lab/scoreboard/published.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/looks.h"
#include "core/base/order.h"

void published_free(struct published *p)
{
    free(p->row);
    free(p->profile);
    arena_free(&p->memory);
    *p = (struct published){0};
}

struct published_row *published_add(struct published *p, const char *set)
{
    bool known = false;
    for (size_t i = 0; i < p->sets && !known; i++)
        known = strcmp(p->set[i], set) == 0;
    if (p->rows == PUBLISHED_ROWS) {
        error_set(STATUS_INVALID, "the tables of published runs have more than %d rows",
                  PUBLISHED_ROWS);
        return NULL;
    }
    if (ARRAY_ROOM(p->row, p->rows) != STATUS_OK)
        return NULL;
    if (!known) {
        if (ARENA_ROOM(&p->memory, p->set, p->sets) != STATUS_OK)
            return NULL;
        p->set[p->sets] = arena_text(&p->memory, set);
        if (!p->set[p->sets++])
            return NULL;
    }
    struct published_row *row = &p->row[p->rows++];
    row->set = row->config.source = arena_text(&p->memory, set);
    return row->set ? row : NULL;
}

/* The first reason stays. */
enum status published_leave_out(struct published *p, struct published_row *row, const char *fmt,
                                ...)
{
    char text[PUBLISHED_REASON];
    va_list list;
    if (row->left_out)
        return STATUS_OK;
    va_start(list, fmt);
    vsnprintf(text, sizeof text, fmt, list);
    va_end(list);
    row->left_out = arena_text(&p->memory, text);
    return row->left_out ? STATUS_OK : STATUS_NOMEM;
}

/* ---- members */

/* LOOSE: a number, or a text that begins with one; other texts do not say it. */
enum kind { NUMBER, LOOSE, SAID, TEXT, REAL };

static const struct published_field {
    const char *object, *key; /* object NULL: of the row itself */
    enum kind kind;
    size_t offset; /* in struct published_row */
    double most;   /* of numbers */
} fields[] = {
#define FIELD(object, key, kind, member, most)                                                     \
    {                                                                                              \
        object, key, kind, offsetof(struct published_row, member), most                            \
    }
    FIELD(NULL, "id", TEXT, id, 0),
    FIELD("model", "name", TEXT, config.name, 0),
    FIELD("model", "layers", NUMBER, config.layers, ARCHITECTURE_LAYERS),
    FIELD("model", "hidden", NUMBER, config.hidden, 1 << 20),
    FIELD("model", "heads", NUMBER, config.heads, 1 << 16),
    FIELD("model", "kv_heads", NUMBER, config.kv_heads, 1 << 16),
    FIELD("model", "head_dim", NUMBER, config.head_dim, 1 << 16),
    FIELD("model", "ffn", NUMBER, config.ffn, 1 << 22),
    FIELD("model", "vocab", NUMBER, config.vocab, 1 << 26),
    FIELD("model", "seq", NUMBER, config.seq, 1 << 24),
    FIELD("model", "experts", NUMBER, config.experts, 1 << 16),
    FIELD("model", "top_k", NUMBER, config.top_k, 1 << 16),
    FIELD("model", "expert_ffn", NUMBER, config.expert_ffn, 1 << 22),
    FIELD("model", "moe_layers", NUMBER, config.moe_layers, ARCHITECTURE_LAYERS),
    FIELD("model", "sliding_window", LOOSE, config.window, 1 << 28),
    FIELD("model", "sliding_window_layers", LOOSE, config.window_layers, ARCHITECTURE_LAYERS),
    FIELD("model", "gated_mlp", SAID, config.gated, 0),
    FIELD("model", "tied_embeddings", SAID, config.tied, 0),
    FIELD("model", "biases", SAID, config.biases, 0),
    FIELD("model", "learned_positions", SAID, config.learned, 0),
    FIELD(NULL, "framework", TEXT, config.framework, 0),
    FIELD(NULL, "system", TEXT, config.system, 0),
    FIELD(NULL, "gpu", TEXT, config.gpu, 0),
    FIELD(NULL, "network", TEXT, config.network, 0),
    FIELD(NULL, "dtype", TEXT, config.dtype, 0),
    FIELD(NULL, "gpus", NUMBER, config.gpus, PUBLISHED_GPUS),
    FIELD(NULL, "gpus_per_node", LOOSE, config.gpus_per_node, 1024),
    FIELD(NULL, "tp", NUMBER, config.tp, PUBLISHED_GPUS),
    FIELD(NULL, "pp", NUMBER, config.pp, PUBLISHED_GPUS),
    FIELD(NULL, "vp", LOOSE, config.vp, ARCHITECTURE_LAYERS),
    FIELD(NULL, "cp", NUMBER, config.cp, PUBLISHED_GPUS),
    FIELD(NULL, "ep", NUMBER, config.ep, PUBLISHED_GPUS),
    FIELD(NULL, "micro_batch", LOOSE, config.micro_batch, PUBLISHED_BATCH),
    FIELD(NULL, "local_batch", NUMBER, config.local_batch, PUBLISHED_BATCH),
    FIELD(NULL, "global_batch", NUMBER, config.global_batch, PUBLISHED_BATCH),
    FIELD(NULL, "num_microbatches", LOOSE, config.microbatches, PUBLISHED_BATCH),
    FIELD(NULL, "grad_accum", LOOSE, config.microbatches, PUBLISHED_BATCH),
    FIELD(NULL, "sequence_parallel", SAID, config.sequence_parallel, 0),
    FIELD(NULL, "torch_compile", SAID, config.compiled, 0),
    FIELD(NULL, "async_tp", SAID, config.async_tp, 0),
    FIELD(NULL, "zero", TEXT, config.zero, 0),
    FIELD(NULL, "fsdp_mixed_precision", TEXT, config.reduce, 0),
    FIELD(NULL, "recompute", TEXT, config.recompute, 0),
    FIELD(NULL, "schedule", TEXT, config.schedule, 0),
    FIELD(NULL, "task", TEXT, config.task, 0),
    FIELD(NULL, "layout_note", TEXT, config.layout, 0),
    FIELD(NULL, "attention", TEXT, config.attention, 0),
    FIELD(NULL, "tp_comm_overlap", TEXT, config.tp_overlap, 0),
    FIELD(NULL, "optimizer_step", TEXT, config.optimizer_step, 0),
    FIELD(NULL, "container", TEXT, config.container, 0),
    FIELD(NULL, "table", TEXT, config.table, 0),
    FIELD("recipe", "cuda_graph_impl", TEXT, config.graph, 0),
    FIELD("recipe", "moe_flex_dispatcher_backend", TEXT, config.dispatcher, 0),
    FIELD("recipe", "cuda_graph_scope", TEXT, config.graph_scope, 0),
    FIELD("recipe", "expert_tensor_parallel_size", NUMBER, config.expert_tp, PUBLISHED_GPUS),
    FIELD("recipe", "moe_a2a_overlap", SAID, config.exchange_overlap, 0),
    FIELD("recipe", "use_megatron_fsdp", SAID, config.fsdp, 0),
    FIELD("recipe", "use_mcore_fsdp", SAID, config.fsdp, 0),
    FIELD("metrics", "iteration_time_s", REAL, measured.step_s,
          1e9), /* the last one that is said */
    FIELD("metrics", "step_time_s", REAL, measured.step_s, 1e9),
    FIELD("metrics", "tokens_per_s_per_gpu", REAL, measured.tokens_per_s, 1e12),
    FIELD("metrics", "tokens_per_s_per_gpu_if_causal", REAL, measured.tokens_if, 1e12),
    FIELD("metrics", "tokens_per_s_per_gpu_if_full_attention", REAL, measured.tokens_if, 1e12),
    FIELD("metrics", "samples_per_s", REAL, measured.samples_per_s, 1e12),
    FIELD("metrics", "step_time_s_if_full_attention", REAL, measured.derived_s, 1e9),
    FIELD("metrics", "step_time_s_if_causal", REAL, measured.derived_s, 1e9),
    FIELD("metrics", "step_time_s_derived", REAL, measured.derived_s, 1e9),
    FIELD("metrics", "memory_gib", REAL, measured.memory_gib, 1e6),
    FIELD("metrics", "mem_max_allocated_gib", REAL, measured.last_gib, 1e6),
#undef FIELD
};
enum { FIELDS = sizeof fields / sizeof *fields };

/* Where the file has something else than it should; the row is left out then. */
struct reading {
    struct published *p;
    struct published_row *row;
};

static enum status published_read_put_text(struct reading *r, const struct json_at *at,
                                           const char **out)
{
    const char *text = NULL;
    char number[32];
    bool yes = false;
    double value = 0;
    if (json_kind(at) == JSON_IS_BOOL) {
        PASS(json_get_bool(at, &yes));
        text = yes ? "True" : "False";
    } else if (json_kind(at) == JSON_IS_NUMBER) {
        PASS(json_get_real(at, -INFINITY, INFINITY, &value));
        snprintf(number, sizeof number, "%.15g", value);
        text = number;
    } else if (json_kind(at) == JSON_IS_TEXT) {
        PASS(json_get_string(at, &text));
    } else {
        return STATUS_OK; /* lists say more than is asked for */
    }
    if (strlen(text) > PUBLISHED_TEXT)
        return published_leave_out(r->p, r->row, "%s has more than %d letters", at->key,
                                   PUBLISHED_TEXT);
    *out = arena_text(&r->p->memory, text);
    return *out ? STATUS_OK : STATUS_NOMEM;
}

/* true, 1 and "True" say yes. */
static enum status put_said(struct reading *r, const struct json_at *at, int64_t *out)
{
    const char *text = "";
    bool yes = false;
    double number = 0;
    if (json_kind(at) == JSON_IS_BOOL) {
        PASS(json_get_bool(at, &yes));
    } else if (json_kind(at) == JSON_IS_NUMBER) {
        PASS(json_get_real(at, -INFINITY, INFINITY, &number));
        yes = number > 0;
    } else if (json_kind(at) == JSON_IS_TEXT) {
        PASS(json_get_string(at, &text));
        yes = strcmp(text, "True") == 0 || strcmp(text, "true") == 0 || strcmp(text, "1") == 0;
    } else {
        return published_leave_out(r->p, r->row, "%s is neither yes nor no", at->key);
    }
    *out = yes ? SAID_YES : SAID_NO;
    return STATUS_OK;
}

static enum status published_read_put_number(struct reading *r, const struct json_at *at,
                                             const struct published_field *f)
{
    double number = -1;
    const char *text;
    void *member = (char *)r->row + f->offset;
    if (json_kind(at) == JSON_IS_NUMBER)
        PASS(json_get_real(at, -INFINITY, INFINITY, &number));
    if (f->kind == LOOSE && json_kind(at) == JSON_IS_TEXT) {
        PASS(json_get_string(at, &text));
        number = isdigit((unsigned char)*text) ? strtod(text, NULL) : 0;
    }
    bool whole = f->kind == REAL || number == floor(number);
    if (!(number >= 0 && number <= f->most) || !whole)
        return published_leave_out(r->p, r->row, "%s is no %s from 0 to %.0f", f->key,
                                   f->kind == REAL ? "number" : "whole number", f->most);
    if (f->kind == REAL)
        *(double *)member = number;
    else
        *(int64_t *)member = (int64_t)number;
    return STATUS_OK;
}

/* A member of the row, or of an object in it; what is no object has no members. */
static enum status read_field(struct reading *r, const struct json_at *row,
                              const struct published_field *f)
{
    struct json_at object, at;
    if (f->object) {
        PASS(json_optional(row, f->object, &object));
        if (!object.value || json_kind(&object) != JSON_IS_OBJECT)
            return STATUS_OK;
        PASS(json_optional(&object, f->key, &at));
    } else {
        PASS(json_optional(row, f->key, &at));
    }
    if (!at.value)
        return STATUS_OK;
    void *member = (char *)r->row + f->offset;
    return f->kind == TEXT   ? published_read_put_text(r, &at, member)
           : f->kind == SAID ? put_said(r, &at, member)
                             : published_read_put_number(r, &at, f);
}

/* Arguments of Megatron that the row quotes, as texts; true is a flag, false is none. */
static enum status published_read_arguments(struct reading *r, const struct json_at *row)
{
    struct json_at all;
    struct published_config *c = &r->row->config;
    PASS(json_optional(row, "other_args", &all));
    size_t n = all.value && json_kind(&all) == JSON_IS_OBJECT ? json_members(&all) : 0;
    if (n > PUBLISHED_ARGUMENTS)
        return published_leave_out(r->p, r->row, "more than %d arguments", PUBLISHED_ARGUMENTS);
    PASS(ARENA_NEW(&r->p->memory, c->argument, n));
    if (n == 0)
        return STATUS_OK;
    for (struct json_at at = json_first(&all); at.key; at = json_next(&at)) {
        struct published_argument *a = &c->argument[c->arguments];
        bool yes = true;
        a->name = arena_text(&r->p->memory, at.key);
        if (!a->name)
            return STATUS_NOMEM;
        if (json_kind(&at) == JSON_IS_BOOL)
            PASS(json_get_bool(&at, &yes));
        else
            PASS(published_read_put_text(r, &at, &a->value));
        c->arguments += yes && (a->value || json_kind(&at) == JSON_IS_BOOL);
    }
    return STATUS_OK;
}

/* A row with flags failed an arithmetic check of whoever collected it. */
static enum status read_flags(struct reading *r, const struct json_at *row)
{
    struct json_at flags;
    PASS(json_optional(row, "flags", &flags));
    bool any =
        flags.value && (json_kind(&flags) == JSON_IS_ARRAY ? json_item(&flags, 0).value != NULL
                                                           : json_kind(&flags) != JSON_IS_BOOL);
    return any ? published_leave_out(r->p, r->row, "flagged by who collected it") : STATUS_OK;
}

/* all: what the rows of the file have in common. */
static enum status published_read_row(struct published *p, const char *set,
                                      const struct published_config *all, const struct json_at *at)
{
    struct reading r = {p, published_add(p, set)};
    if (!r.row)
        return STATUS_NOMEM;
    r.row->config = *all;
    if (json_kind(at) != JSON_IS_OBJECT)
        return published_leave_out(p, r.row, "the row is no object");
    PASS(read_flags(&r, at));
    for (size_t i = 0; i < FIELDS; i++)
        PASS(read_field(&r, at, &fields[i]));
    return published_read_arguments(&r, at);
}

/* ---- files */

/* The name of the file without folder and ending. */
static enum status published_read_name_of(struct published *p, const char *path, const char **out)
{
    const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    const char *dot = strrchr(base, '.');
    *out = arena_text_n(&p->memory, base, dot && dot > base ? (size_t)(dot - base) : strlen(base));
    return *out ? STATUS_OK : STATUS_NOMEM;
}

/* Where a set is from: its name, and texts of "source". */
static enum status published_read_origin(struct published *p, const char *set,
                                         const struct json_at *source, const char **out)
{
    enum status st;
    struct json_at at;
    static const char *const keys[] = {"repo", "path", "url"};
    struct file_text f = {0};
    TRY(file_text_open(&f));
    fputs(set, f.stream);
    for (size_t i = 0; i < 3 && source->value; i++) {
        const char *text = "";
        TRY(json_optional(source, keys[i], &at));
        if (at.value && json_kind(&at) == JSON_IS_TEXT)
            TRY(json_get_string(&at, &text));
        fprintf(f.stream, " %.*s", PUBLISHED_TEXT, text);
    }
    TRY(file_text_close(&f, STATUS_OK));
    f.stream = NULL;
    *out = arena_text(&p->memory, f.text);
    st = *out ? STATUS_OK : STATUS_NOMEM;
out:
    if (f.stream)
        st = file_text_close(&f, st);
    free(f.text);
    return st;
}

/* A text of "source"; none: *out stays. */
static enum status published_read_said(struct published *p, const struct json_at *source,
                                       const char *key, const char **out)
{
    struct json_at at;
    const char *text;
    if (!source->value)
        return STATUS_OK;
    PASS(json_optional(source, key, &at));
    if (!at.value || json_kind(&at) != JSON_IS_TEXT)
        return STATUS_OK;
    PASS(json_get_string(&at, &text));
    *out = arena_text_n(&p->memory, text, strnlen(text, PUBLISHED_TEXT));
    return *out ? STATUS_OK : STATUS_NOMEM;
}

static enum status published_read_source_of(struct published *p, const char *set,
                                            const struct json_at *root,
                                            struct published_config *out)
{
    struct json_at source;
    PASS(json_optional(root, "source", &source));
    if (source.value && json_kind(&source) != JSON_IS_OBJECT)
        source.value = NULL;
    PASS(published_read_said(p, &source, "framework", &out->framework));
    PASS(published_read_said(p, &source, "system", &out->system));
    return published_read_origin(p, set, &source, &out->source);
}

static enum status read_schema(struct published *p, const char *path, const struct json_at *root)
{
    struct json_at rows;
    struct published_config all = {0};
    const char *set = NULL;
    char looks[LOOKS];
    size_t n;
    PASS(published_read_name_of(p, path, &set));
    PASS(published_read_source_of(p, set, root, &all));
    PASS(json_optional(root, "rows", &rows));
    if (!rows.value)
        return json_error(root, "\"rows\" is missing, expected a table of published runs%s",
                          looks_like_file(path, looks));
    PASS(json_get_array(&rows, PUBLISHED_ROWS, &n));
    for (size_t i = 0; i < n; i++) {
        struct json_at row = json_item(&rows, i);
        PASS(published_read_row(p, set, &all, &row));
    }
    return STATUS_OK;
}

enum status published_parse(const char *path, const char *text, size_t length, struct published *p)
{
    enum status st;
    struct json_document d = {0};
    if (published_is_vtrain(text))
        return published_parse_vtrain(path, text, p);
    TRY(json_parse(path, text, length, NULL, 0, &d));
    struct json_at root = json_root(&d), at;
    if (json_kind(&root) != JSON_IS_OBJECT)
        FAIL(STATUS_PARSE,
             "%s: expected a JSON object with the key \"rows\", a list of published runs", path);
    TRY(json_optional(&root, "pipeline_list", &at));
    TRY(at.value                      ? published_add_sailor(&d, path, p)
        : published_is_profile(&root) ? published_add_profile(&root, p)
                                      : read_schema(p, path, &root));
out:
    json_document_free(&d);
    return st;
}

static enum status published_read_file(const char *path, struct published *p)
{
    char *text = NULL;
    size_t length;
    PASS(file_read(path, &text, &length));
    enum status st = published_parse(path, text, length, p);
    free(text);
    return st;
}

static bool ends(const char *name, const char *with)
{
    size_t n = strlen(name), m = strlen(with);
    return n > m && strcmp(name + n - m, with) == 0;
}

/* One of many: what is wrong with a file leaves that file out, as a row of a set of its name. */
static enum status read_one_of_many(const char *path, struct published *p)
{
    char why[PUBLISHED_REASON], set[PUBLISHED_REASON];
    size_t rows = p->rows;
    enum status st = published_read_file(path, p);
    if (st == STATUS_OK || st == STATUS_NOMEM)
        return st;
    const char *slash = strrchr(path, '/');
    snprintf(why, sizeof why, "%s", error_message());
    snprintf(set, sizeof set, "%s", slash ? slash + 1 : path);
    p->rows = rows;
    struct published_row *row = published_add(p, set);
    return row ? published_leave_out(p, row, "%s", why) : STATUS_NOMEM;
}

/* Files of a folder that are of the formats by their names, in the order of names. */
static enum status read_folder(const char *path, struct published *p)
{
    enum status st = STATUS_OK;
    char **name = NULL;
    size_t n = 0, room = strlen(path) + 2;
    DIR *dir = opendir(path);
    if (!dir)
        return error_set(STATUS_IO, "%s: %s", path, strerror(errno));
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (!ends(entry->d_name, ".json") && !ends(entry->d_name, ".csv"))
            continue;
        TRY(ARRAY_ROOM(name, n));
        TRY(ARRAY_NEW(name[n], room + strlen(entry->d_name)));
        sprintf(name[n++], "%s/%s", path, entry->d_name);
    }
    if (n == 0)
        FAIL(STATUS_INVALID, "%s: no .json or .csv in this folder", path);
    qsort(name, n, sizeof *name, order_by_name);
    for (size_t i = 0; i < n; i++)
        TRY(read_one_of_many(name[i], p));
out:
    for (size_t i = 0; i < n; i++)
        free(name[i]);
    free(name);
    closedir(dir);
    return st;
}

enum status published_read(const char *path, struct published *p)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode) ? read_folder(path, p)
                                                     : published_read_file(path, p);
}
