/* Reads files and lists of hosts. */
#include "exec/launch/hosts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "exec/rendezvous.h"

enum { NAME_MOST = 255, SLOTS_MOST = 1 << 20 };
static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
static const char blanks[] = " \t\r", slots_key[] = "slots=";

bool hosts_is_list(const char *spec)
{
    return strpbrk(spec, ",:") && !strchr(spec, '/');
}

static enum status no_hosts(const char *spec)
{
    return error_set(
        STATUS_PARSE,
        "list of hosts: got '%s', expected HOST:RANKS,... such as localhost:2, or a file", spec);
}

/* "n1", "n1:2" or "n1 slots=2 ...", whose other words are mpirun's; in line 0: of a list. */
static enum status add_host(struct hosts *h, char *text, const char *spec, size_t line)
{
    uint64_t slots = 1;
    size_t length = strspn(text, letters);
    char *rest = text + length, *save = NULL, end = *rest;
    const char *said = end == ':' ? rest + 1 : NULL;
    bool good =
        length > 0 && length <= NAME_MOST && text[0] != '-' && (!end || strchr(" \t\r:", end));
    if (end)
        *rest++ = '\0';
    for (char *word = strtok_r(rest, blanks, &save); word; word = strtok_r(NULL, blanks, &save))
        if (!strncmp(word, slots_key, strlen(slots_key)))
            said = word + strlen(slots_key);
        else
            good = good && (word == said || strchr(word, '='));
    good = good && (!said || text_count(said, SLOTS_MOST, &slots)) && slots > 0;
    if (!good && line == 0)
        return no_hosts(spec);
    if (!good)
        return error_set(STATUS_PARSE, "%s:%zu: expected HOST, HOST:SLOTS or HOST slots=N", spec,
                         line);
    PASS(ARENA_ROOM(&h->memory, h->host, h->n));
    h->host[h->n] = (struct host){arena_text(&h->memory, text), (size_t)slots};
    return h->host[h->n++].name ? STATUS_OK : STATUS_NOMEM;
}

enum status hosts_read(const char *spec, struct hosts *out)
{
    enum status st;
    struct hosts h = {0};
    char *text = NULL;
    const bool list = hosts_is_list(spec);
    size_t length, line = !list;
    if (!list && !strchr(spec, '/') && access(spec, F_OK) != 0)
        TRY(no_hosts(spec));
    if (list)
        TRY(text_copy(spec, &text));
    else
        TRY(file_read_most(spec, MOST_ARGUMENTS, &text, &length));
    for (char *at = text, *end; at; at = end, line += !list) {
        end = strchr(at, list ? ',' : '\n');
        if (end)
            *end++ = '\0';
        at += strspn(at, blanks);
        at[strcspn(at, "#")] = '\0';
        if (*at || list)
            TRY(add_host(&h, at, spec, line));
    }
    if (h.n == 0)
        FAIL(STATUS_INVALID,
             "%s: file lists no hosts, expected lines HOST, HOST:SLOTS or HOST slots=N", spec);
    MOVE(out, h);
out:
    free(text);
    hosts_free(&h);
    return st;
}

void hosts_free(struct hosts *h)
{
    arena_free(&h->memory);
    *h = (struct hosts){0};
}

const char *hosts_of(const struct hosts *h, size_t rank, size_t *local)
{
    size_t first = 0, i = 0;
    while (i < h->n && rank - first >= h->host[i].slots)
        first += h->host[i++].slots;
    if (i == h->n)
        return NULL;
    *local = rank - first;
    for (size_t k = 0; k < i; k++)
        if (!strcmp(h->host[k].name, h->host[i].name))
            *local += h->host[k].slots;
    return h->host[i].name;
}

bool hosts_is_here(const char *name)
{
    char here[MACHINE];
    machine_name(here);
    return !strcmp(name, here) || !strcmp(name, "localhost") || !strcmp(name, "127.0.0.1");
}
