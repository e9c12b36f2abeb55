/* What is known of papers/ without its module, and the importers that load it. */
#include "model/papers.h"

#include <string.h>

#include "core/base/json.h"
#include "model/import.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

const struct papers_objective papers_objectives[] = {
#define OBJECTIVE(name, plans) {#name, plans},
#include "model/papers.def"
#undef OBJECTIVE
};
const size_t papers_objectives_n = COUNT(papers_objectives);

const struct papers_algorithm papers_algorithms[] = {
#define ALGORITHM(objective, name, on_devices, summary, guarantee) {#objective, #name, on_devices},
#include "model/papers.def"
#undef ALGORITHM
};
const size_t papers_algorithms_n = COUNT(papers_algorithms);

const char *const papers_profiles[] = {
#define PROFILE(name) #name,
#include "model/papers.def"
#undef PROFILE
};
const size_t papers_profiles_n = COUNT(papers_profiles);

const struct papers_model papers_models[] = {
#define MODEL(name, alone, summary) {#name, alone, summary},
#include "model/papers.def"
#undef MODEL
};
const size_t papers_models_n = COUNT(papers_models);

const struct papers_objective *papers_objective_of(const char *algorithm)
{
    const char *name = NULL;
    for (size_t i = 0; algorithm && i < papers_algorithms_n; i++)
        if (!strcmp(papers_algorithms[i].name, algorithm)) {
            if (name)
                return NULL;
            name = papers_algorithms[i].objective;
        }
    for (size_t i = 0; name && i < papers_objectives_n; i++)
        if (!strcmp(papers_objectives[i].name, name))
            return &papers_objectives[i];
    return NULL;
}

bool papers_on_devices(const char *objective, const char *algorithm)
{
    for (size_t i = 0; i < papers_algorithms_n; i++)
        if (!strcmp(papers_algorithms[i].objective, objective) &&
            (!algorithm || !strcmp(papers_algorithms[i].name, algorithm)))
            return papers_algorithms[i].on_devices;
    return false;
}

size_t papers_model_find(const char *spec)
{
    size_t length = strcspn(spec, ":"), i = 0;
    while (i < papers_models_n && (strlen(papers_models[i].name) != length ||
                                   memcmp(papers_models[i].name, spec, length) != 0))
        i++;
    return i;
}

/* Does a specification of a model that the zoo has, too, ask for its operators? */
static bool is_by_operators(const char *spec)
{
    static const char word[] = "ops=1";
    size_t n = sizeof word - 1;
    for (const char *at = spec; (at = strstr(at, word)) != NULL; at += n)
        if (at > spec && strchr(":,", at[-1]) && (at[n] == ',' || at[n] == '\0'))
            return true;
    return false;
}

bool papers_has_model(const char *spec)
{
    size_t i = papers_model_find(spec);
    return i < papers_models_n && (papers_models[i].alone || is_by_operators(spec));
}

/* ---- the module */

enum status papers_load_models(const struct papers_of_models **out)
{
    const void *module;
    PASS(papers_load("papers_of_models", &module));
    *out = module;
    return STATUS_OK;
}

/* ---- importers: what a file looks like is known here */

/* A graph.txt: its first line has the separator. */
static bool recognises_pipedream(const char *text, size_t length)
{
    static const char mark[] = " -- ";
    const char *newline = memchr(text, '\n', length);
    size_t n = newline ? (size_t)(newline - text) : length;
    for (size_t i = 0; i + sizeof mark - 1 <= n; i++)
        if (memcmp(text + i, mark, sizeof mark - 1) == 0)
            return true;
    return false;
}

static enum status parse_pipedream(const char *path, const char *text, size_t length,
                                   const struct import_options *o, struct model *out)
{
    const struct papers_of_models *papers;
    PASS(papers_load_models(&papers));
    return papers->read_pipedream(path, text, length, o, out);
}

const struct importer importer_pipedream = {
    .name = "pipedream",
    .summary = "graph.txt of PipeDream's profiler: measured times and sizes per layer",
    .recognises = recognises_pipedream,
    .parse = parse_pipedream,
};

static bool papers_has_key(const struct json_at *object, const char *key, struct json_at *out)
{
    return json_optional(object, key, out) == STATUS_OK && out->value;
}

/* A graph of numbered nodes with that key, or whose first node has the other one? */
static bool is_graph(const struct json_at *root, const char *key, const char *node_key)
{
    struct json_at list, node, field;
    size_t n;
    if (!papers_has_key(root, "nodes", &list))
        return false;
    if (papers_has_key(root, key, &field))
        return true;
    if (json_get_array(&list, SIZE_MAX, &n) != STATUS_OK || n == 0)
        return false;
    node = json_item(&list, 0);
    return papers_has_key(&node, node_key, &field);
}

static bool recognises_placement(const struct json_at *root)
{
    return is_graph(root, "maxFPGAs", "fpgaLatency");
}

static enum status read_placement(const struct json_at *root, const struct import_options *o,
                                  struct model *out)
{
    const struct papers_of_models *papers;
    PASS(papers_load_models(&papers));
    return papers->read_placement(root, o, out);
}

const struct importer importer_placement = {
    .name = "placement",
    .summary = "JSON of dnn-partitioning: nodes with latencies on CPU and accelerator, colours",
    .recognises_json = recognises_placement,
    .read_json = read_placement,
};

static bool recognises_piper(const struct json_at *root)
{
    return is_graph(root, "mbsInBatch", "TMPCs");
}

static enum status read_piper(const struct json_at *root, const struct import_options *o,
                              struct model *out)
{
    const struct papers_of_models *papers;
    PASS(papers_load_models(&papers));
    return papers->read_piper(root, o, out);
}

const struct importer importer_piper = {
    .name = "piper",
    .summary = "JSON of Piper: nodes with configurations per tensor-parallel degree",
    .recognises_json = recognises_piper,
    .read_json = read_piper,
};
