#include "model/import.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "core/json.h"
#include "model/pipedream.h"
#include "model/piper.h"
#include "model/placement.h"

const struct importer importers[] = {
    {.name = "pipedream",
     .summary = "graph.txt of PipeDream's profiler: measured times and sizes per layer",
     .recognises = pipedream_recognises,
     .parse = pipedream_parse},
    {.name = "placement",
     .summary = "JSON of dnn-partitioning: nodes with latencies on CPU and accelerator, colours",
     .recognises_json = placement_recognises,
     .read_json = placement_read_model},
    {.name = "piper",
     .summary = "JSON of Piper: nodes with configurations per tensor-parallel degree",
     .recognises_json = piper_recognises,
     .read_json = piper_read_model},
};
const size_t importers_n = sizeof importers / sizeof *importers;

static bool is_json(const char *text, size_t length)
{
    size_t blank = 0;
    while (blank < length && strchr(" \t\r\n", text[blank]) && text[blank] != '\0')
        blank++;
    return blank < length && text[blank] == '{';
}

static enum status unknown_format(const char *path)
{
    char known[256] = "";
    for (size_t k = 0, used = 0; k < importers_n && used < sizeof known; k++)
        used += (size_t)snprintf(known + used, sizeof known - used, ", %s", importers[k].name);
    return error_set(STATUS_PARSE, "%s:1: not a model in a known format (foreline JSON%s)", path,
                     known);
}

static enum status import_text(const char *path, const char *text, size_t length,
                               const struct import_options *o, struct model *out)
{
    for (size_t i = 0; i < importers_n; i++)
        if (importers[i].recognises && importers[i].recognises(text, length))
            return importers[i].parse(path, text, length, o, out);
    return unknown_format(path);
}

static enum status import_json(const struct json_document *d, const struct import_options *o,
                               struct model *out)
{
    enum status st;
    struct json_at root = json_root(d), format;
    TRY(json_optional(&root, "format", &format));
    if (format.value)
        return model_from_json(d, out);
    for (size_t i = 0; i < importers_n; i++)
        if (importers[i].recognises_json && importers[i].recognises_json(&root))
            return importers[i].read_json(&root, o, out);
    st = unknown_format(d->path);
out:
    return st;
}

enum status model_import(const char *path, const struct import_options *o, struct model *out)
{
    enum status st = STATUS_OK;
    struct json_document d = {0};
    char *text = NULL;
    size_t length = 0;
    const char *shown = strcmp(path, "-") == 0 ? "standard input" : path;

    TRY(file_read(path, &text, &length));
    if (!is_json(text, length)) {
        TRY(import_text(shown, text, length, o, out));
    } else {
        TRY(json_parse(shown, text, length, NULL, 0, &d));
        TRY(import_json(&d, o, out));
    }
out:
    json_document_free(&d);
    free(text);
    return st;
}
