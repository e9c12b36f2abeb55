/* The formats that programs of tools/ read, and how such a program is called. */
#include "topologies/machine/program.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/executable.h"
#include "core/base/json.h"
#include "core/base/limit.h"
#include "host/tool.h"
#include "topologies/yaml.h"

/* ---- how files are recognised */

static char first(const struct machine_source *s)
{
    return s->text[strspn(s->text, " \t\r\n")];
}

static bool has_key(const struct machine_source *s, const char *key)
{
    const char *at = strstr(s->text, key);
    while (at && at != s->text && at[-1] != '\n')
        at = strstr(at + 1, key);
    return at;
}

static bool is_topograph(const struct machine_source *s)
{
    return has_key(s, "blocks:") && has_key(s, "switches:");
}

static bool is_netq(const struct machine_source *s)
{
    return first(s) == '[' && strstr(s->text, "\"compounded_links\"");
}

static bool machine_is_calculon(const struct machine_source *s)
{
    return first(s) == '{' && strstr(s->text, "\"networks\"") && strstr(s->text, "\"matrix\"");
}

/* ASTRA-sim's and SimAI's other files are recognised to say what they are. */
static const struct {
    const char *begins, *what;
} relatives[] = {
    {"Nodes ", "a fat tree of ASTRA-sim's htsim; 'foreline topology generate fat-tree' makes such"},
    {"ENABLE_QCN", "settings of SimAI's ns-3 without a machine"},
    {"Size,1 Node", "SimAI's table of bandwidth efficiencies of collectives, without a machine"},
    {"VM_hostname",
     "output of ibstat, which lists adapters but no links; expected the output of ibnetdiscover"},
};

static const char *relative(const struct machine_source *s)
{
    for (size_t k = 0; k < sizeof relatives / sizeof *relatives; k++)
        if (!strncmp(s->text, relatives[k].begins, strlen(relatives[k].begins)))
            return relatives[k].what;
    if (*s->text == '{' &&
        (strstr(s->text, "\"scheduling-policy\"") || strstr(s->text, "\"logical-dims\"")))
        return "ASTRA-sim's system or logical dimensions, without bandwidths; expected its network "
               "(.yml)";
    return NULL;
}

static bool is_analytical(const struct machine_source *s)
{
    return relative(s) || (strstr(s->text, "npus_count:") && machine_begins(s, "topology:", 4096));
}

static bool is_ns3(const struct machine_source *s)
{
    size_t numbers = 0, at = 0;
    while (isdigit((unsigned char)s->text[at])) {
        at += strspn(s->text + at, "0123456789");
        at += strspn(s->text + at, " \t");
        numbers++;
    }
    return numbers >= 3 && strstr(s->text, "bps ");
}

static const char *schema(const struct machine_source *s)
{
    return machine_begins(s, "openapi:", 4) ? "the schema of InfraGraph, not an infrastructure"
                                            : NULL;
}

static bool is_infragraph(const struct machine_source *s)
{
    return machine_begins(s, "infrastructure:", 64) || schema(s) ||
           ((machine_begins(s, "devices:", 64) || machine_begins(s, "device:", 64)) &&
            strstr(s->text, "components:"));
}

/* ---- what a program is given */

static void put_yaml(struct json_writer *w, const char *key, const struct yaml_value *v)
{
    json_open_array(w, key, true);
    json_put_integer(w, NULL, (int64_t)v->line);
    if (v->text) {
        json_put_string(w, NULL, v->text);
    } else if (v->is_map) {
        json_open_object(w, NULL, true);
        for (size_t i = 0; i < v->entries; i++)
            put_yaml(w, v->entry[i].key, &v->entry[i].value);
        json_close(w);
    } else {
        json_open_array(w, NULL, true);
        for (size_t i = 0; i < v->items; i++)
            put_yaml(w, NULL, &v->item[i]);
        json_close(w);
    }
    json_close(w);
}

/* What the catalogue knows of GPUs: in one line, before the file. */
static void put_head(FILE *to)
{
    struct json_writer w = {.stream = to};
    json_open_object(&w, NULL, true);
    json_open_array(&w, "gpus", true);
    for (size_t k = 0; k < gpus_n; k++) {
        json_open_array(&w, NULL, true);
        json_put_string(&w, NULL, gpus[k].name);
        json_put_real(&w, NULL, gpus[k].peak[DATA_fp16]);
        json_put_integer(&w, NULL, gpus[k].memory_bytes);
        json_close(&w);
    }
    json_close(&w);
    json_close(&w);
}

/* The input of the program, malloc'd. `d` has the file where it is JSON. */
static enum status make_input(const struct machine_format *f, const struct machine_source *s,
                              struct machine *m, struct json_document *d, char **out, size_t *n)
{
    struct yaml_value root = {0};
    if (f->input == MACHINE_INPUT_JSON)
        PASS(json_parse(s->path, s->text, s->length, NULL, 0, d));
    if (f->input == MACHINE_INPUT_YAML)
        PASS(yaml_read_foreign(s->path, s->text, s->length, &m->arena, &root));
    FILE *to = open_memstream(out, n);
    if (!to)
        return error_set(STATUS_NOMEM, "out of memory");
    put_head(to);
    if (f->input == MACHINE_INPUT_YAML)
        put_yaml(&(struct json_writer){.stream = to}, NULL, &root);
    else
        fwrite(s->text, 1, s->length, to);
    bool failed = ferror(to);
    return fclose(to) != 0 || failed ? error_set(STATUS_NOMEM, "out of memory") : STATUS_OK;
}

/* ---- its call */

enum { PATIENCE = 60 }; /* s: 500,000 cables take 3 */

static enum status machine_program_call(const struct machine_format *f, const char *path, int input,
                                        char **answer, size_t *n)
{
    char folder[EXECUTABLE_FOLDER], program[EXECUTABLE_FOLDER + 128];
    int code;
    bool cut;
    PASS(executable_folder(folder));
    snprintf(program, sizeof program, "%s/" FORELINE_READERS "/%s.py", folder, f->program);
    if (access(program, R_OK) != 0)
        return error_set(STATUS_UNSUPPORTED,
                         "%s: foreline's file %s is missing; reinstall foreline", path, program);
    const struct tool t = {
        .words = (const char *const[]){"python3", "-B", "-E", "-s", program, NULL},
        .input = input,
        .errors = -1,
        .within_s = limit_wait(PATIENCE),
    };
    enum status st = tool_text(&t, limit_bytes(MOST_JSON), &code, answer, n, &cut);
    if (st != STATUS_OK)
        return error_context(st, "%s: foreline cannot convert files of format '%s'", path, f->name);
    if (cut)
        return error_set(STATUS_PARSE, "%s: machine description takes more than %g MiB of JSON",
                         path, limit_size(MOST_JSON));
    if (code != 0)
        return error_set(STATUS_EXTERNAL, "%s: tools/%s.py failed with exit status %d", path,
                         f->program, code);
    return STATUS_OK;
}

/* ---- what it answers */

/* {"text": what, "at": [key or index, ...]} of a JSON file, else {"text": what, "line": 3}. */
static enum status machine_program_error(const struct json_at *error,
                                         const struct machine_source *s,
                                         const struct json_document *file)
{
    enum { DEPTH = 16 };
    struct json_at place[DEPTH + 1], list, step;
    const char *text, *key;
    int64_t line = 0, index;
    size_t n = 0;
    PASS(json_field(error, "text", &step));
    PASS(json_get_string(&step, &text));
    PASS(json_may_integer(error, "line", 0, INT32_MAX, &line));
    PASS(json_optional(error, "at", &list));
    if (!list.value || !file->root)
        return line > 0 ? error_set(STATUS_PARSE, "%s:%lld: %s", s->path, (long long)line, text)
                        : error_set(STATUS_PARSE, "%s: %s", s->path, text);
    PASS(json_get_array(&list, DEPTH, &n));
    place[0] = json_root(file);
    for (size_t i = 0; i < n; i++) {
        step = json_item(&list, i);
        if (json_kind(&step) == JSON_IS_TEXT) {
            PASS(json_get_string(&step, &key));
            PASS(json_field(&place[i], key, &place[i + 1]));
        } else {
            PASS(json_get_integer(&step, 0, INT32_MAX, &index));
            place[i + 1] = json_item(&place[i], (size_t)index);
        }
    }
    return json_error(&place[n], "%s", text);
}

enum status machine_program_read(const struct machine_format *f, const struct machine_source *s,
                                 struct machine *m)
{
    enum status st;
    struct json_document file = {0}, d = {0};
    struct json_at root, error;
    char *input = NULL, *answer = NULL, name[512];
    size_t n = 0, length = 0;
    int fd = -1;
    const char *refused = f->refuses ? f->refuses(s) : NULL;
    if (refused)
        return error_set(STATUS_PARSE, "%s:1: %s", s->path, refused);
    TRY(make_input(f, s, m, &file, &input, &n));
    TRY(tool_input(input, n, &fd));
    TRY(machine_program_call(f, s->path, fd, &answer, &length));
    snprintf(name, sizeof name, "%s: answer of %s.py", s->path, f->program);
    TRY(json_parse(name, answer, length, NULL, 0, &d));
    root = json_root(&d);
    TRY(json_optional(&root, "error", &error));
    if (error.value)
        TRY(machine_program_error(&error, s, &file));
    TRY(json_check_format(&d, machine_json_format, MACHINE_JSON_VERSION));
    TRY(machine_json_read(&root, m));
out:
    if (fd >= 0)
        close(fd);
    free(input);
    free(answer);
    json_document_free(&file);
    json_document_free(&d);
    return st;
}

/* ---- the table */

#define PROGRAM(id, called, about, in, looks, refusal)                                             \
    const struct machine_format machine_##id = {.name = (called),                                  \
                                                .summary = (about),                                \
                                                .recognises = (looks),                             \
                                                .program = #id,                                    \
                                                .input = MACHINE_INPUT_##in,                       \
                                                .refuses = (refusal)};
#include "topologies/machine/programs.def"
#undef PROGRAM
