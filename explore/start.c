/* The lists of the page: of two commands, and of the tables that the command line has them from. */
#include "explore/start.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/provenance.h"
#include "core/strategy/framework.h"
#include "topologies/catalogue.h"
#include "topologies/generate.h"

/* A comma, and the members of the object that a command prints, "models": [...]. */
static enum status start_put_printed(struct page_tasks *tasks, int client, const char *const *words,
                                     FILE *to)
{
    struct page_task *t;
    char skipped[4096];
    ssize_t n = 1;
    PASS(task_new(tasks, words, 3, client, &t));
    while (n > 0)
        n = task_read(t, skipped, sizeof skipped);
    const char *text = n == 0 ? task_output(t) : NULL;
    const char *begin = text ? strchr(text, '{') : NULL, *end = text ? strrchr(text, '}') : NULL;
    bool whole = begin && end && begin < end;
    if (whole)
        fprintf(to, ",%.*s", (int)(end - begin - 1), begin + 1);
    task_free(t);
    return whole
               ? STATUS_OK
               : error_set(STATUS_EXTERNAL,
                           "foreline %s %s --json printed no JSON; run it in a terminal to see why",
                           words[0], words[1]);
}

static void start_put_family(struct json_writer *w, const struct topology_family *f)
{
    json_open_object(w, NULL, false);
    json_put_string(w, "name", f->name);
    json_put_string(w, "summary", f->summary);
    json_open_array(w, "parameters", false);
    for (size_t i = 0; i < f->parameters; i++) {
        json_open_object(w, NULL, true);
        json_put_string(w, "name", f->parameter[i].name);
        json_put_string(w, "default", f->parameter[i].preset ? f->parameter[i].preset : "");
        json_put_string(w, "summary", f->parameter[i].help);
        json_close(w);
    }
    json_close(w);
    json_close(w);
}

static void start_put_tables(struct json_writer *w)
{
    json_open_array(w, "families", false);
    for (size_t i = 0; i < families_n; i++)
        start_put_family(w, families[i]);
    json_close(w);
    json_open_array(w, "gpus", true);
    for (size_t i = 0; i < gpus_n; i++)
        json_put_string(w, NULL, gpus[i].name);
    json_close(w);
    json_open_array(w, "frameworks", true);
    for (size_t i = 0; framework_name(i); i++)
        json_put_string(w, NULL, framework_name(i));
    json_close(w);
}

static enum status start_put(struct page_tasks *tasks, int client, const struct start_files *files,
                             FILE *to)
{
    static const char *const models[] = {"model", "list", "--json"}, *const platforms[] = {
                                                                         "topology", "list",
                                                                         "--json"};
    struct json_writer w = {.stream = to};
    json_open_object(&w, NULL, false);
    json_put_string(&w, "version", foreline_version);
    json_put_string(&w, "folder", files->folder);
    json_open_array(&w, "files", true);
    for (size_t i = 0; i < files->n; i++)
        json_put_string(&w, NULL, files->name[i]);
    json_close(&w);
    start_put_tables(&w);
    PASS(start_put_printed(tasks, client, models, to));
    PASS(start_put_printed(tasks, client, platforms, to));
    json_close(&w);
    return STATUS_OK;
}

enum status start_write(struct page_tasks *tasks, int client, const struct start_files *files,
                        char **text)
{
    struct file_text t;
    PASS(file_text_open(&t));
    enum status st = file_text_close(&t, start_put(tasks, client, files, t.stream));
    if (st == STATUS_OK)
        *text = t.text;
    else
        free(t.text);
    return st;
}
