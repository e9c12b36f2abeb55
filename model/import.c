#include "model/import.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "model/pipedream.h"

const struct importer importers[] = {
    {"pipedream", "graph.txt of PipeDream's profiler: measured times and sizes per layer",
     pipedream_recognises, pipedream_parse},
};
const size_t importers_n = sizeof importers / sizeof *importers;

static bool is_json(const char *text, size_t length)
{
    size_t blank = 0;
    while (blank < length && strchr(" \t\r\n", text[blank]) && text[blank] != '\0')
        blank++;
    return blank < length && text[blank] == '{';
}

enum status model_import(const char *path, const struct import_options *o, struct model *out)
{
    enum status st = STATUS_OK;
    char *text = NULL;
    size_t length = 0, i = 0;

    TRY(file_read(path, &text, &length));
    if (is_json(text, length)) {
        if (strcmp(path, "-") == 0) /* its text is used up by now */
            st = error_set(STATUS_UNSUPPORTED, "standard input: a JSON model has to be a file");
        else
            st = model_read(path, out);
        goto out;
    }
    while (i < importers_n && !importers[i].recognises(text, length))
        i++;
    if (i == importers_n) {
        char known[256] = "";
        for (size_t k = 0, used = 0; k < importers_n && used < sizeof known; k++)
            used += (size_t)snprintf(known + used, sizeof known - used, ", %s", importers[k].name);
        st = error_set(STATUS_PARSE, "%s:1: not a model in a known format (foreline JSON%s)", path,
                       known);
        goto out;
    }
    st = importers[i].parse(path, text, length, o, out);
out:
    free(text);
    return st;
}
