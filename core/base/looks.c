/* Guesses the kind of a file from how it begins. */
#include "core/base/looks.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "core/base/text.h"

enum { HEAD = 1 << 16, FORMAT = 40 };

/* The name behind "format": in JSON of foreline's own. */
static bool own_format(const char *head, char name[FORMAT])
{
    const char *at = strstr(head, "\"format\"");
    return at && sscanf(at, "\"format\" : \"foreline-%20[a-z]\"", name) == 1;
}

static const char *of_json(const char *head)
{
    static const struct {
        const char *key, *what;
    } keys[] = {{"\"traceEvents\"", "a trace that --trace wrote"},
                {"\"model_type\"", "a model's configuration"},
                {"\"hidden_size\"", "a model's configuration"}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strstr(head, keys[i].key))
            return keys[i].what;
    return NULL;
}

/* A line "key: value", as experiments and other YAML begin with. */
static bool is_yaml(const char *line)
{
    size_t word = strspn(line, "abcdefghijklmnopqrstuvwxyz0123456789_.-");
    return word > 0 && line[word] == ':' && strchr(" \n", line[word + 1]);
}

static const char *of_text(const char *head)
{
    const char *line = head, *end = head + strcspn(head, "\n");
    if (memchr(head, '\t', (size_t)(end - head)))
        return "a table that sweep --export or compare printed";
    if (strstr(head, "\nengine      ") || text_begins(head, "engine      "))
        return "the printed output of simulate or run; use the file that -o writes";
    while (*line == '#' || *line == '\n') {
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
    if (is_yaml(line))
        return text_begins(line, "warning:") ? "a log" : "an experiment or other YAML";
    return NULL;
}

static const char *of_xml(const char *head)
{
    static const char *const kinds[][2] = {
        {"<platform", "a platform (XML)"}, {"<svg", "a picture"}, {"<html", "a page"}, {"", "XML"}};
    size_t i = 0;
    while (!strstr(head, kinds[i][0]))
        i++;
    return kinds[i][1];
}

const char *looks_like(const char *text, size_t length, char out[LOOKS])
{
    char head[HEAD], name[FORMAT];
    size_t n = length < sizeof head - 1 ? length : sizeof head - 1;
    memcpy(head, text, n);
    head[n] = '\0';
    const char *begin = head + strspn(head, " \t\r\n"), *what = NULL;
    out[0] = '\0';
    if (text_begins(head, "SQLite format 3"))
        what = "a database that sweep wrote";
    else if (text_begins(head, "\x89PNG") || text_begins(head, "%PDF"))
        what = "a picture";
    else if (text_begins(head, "\x1f\x8b"))
        what = "a gzip file, such as a large trace";
    else if (*begin == '<')
        what = of_xml(begin);
    else if (*begin != '{' && *begin != '[')
        what = of_text(begin);
    else if (own_format(begin, name))
        snprintf(out, LOOKS, "; it looks like a foreline-%s file", name);
    else
        what = of_json(begin);
    if (what)
        snprintf(out, LOOKS, "; it looks like %s", what);
    return out;
}

const char *looks_like_file(const char *path, char out[LOOKS])
{
    char head[HEAD];
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(head, 1, sizeof head, f) : 0;
    if (f)
        fclose(f);
    return looks_like(head, n, out);
}
