/* Files as lines, among which those of a known format are found. */
#include "measured/lines.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/limit.h"
#include "measured/bytes.h"

enum { MOST_TALK = 64 }; /* MiB of a log before its first line of a known format */

/* Take colours out: ESC [ digits and semicolons, then a letter. */
static void drop_colours(char *text)
{
    char *to = text;
    for (const char *at = text; *at; at++) {
        if (at[0] == '\033' && at[1] == '[') {
            at += 2 + strspn(at + 2, "0123456789;");
            if (!*at)
                break;
        } else {
            *to++ = *at;
        }
    }
    *to = '\0';
}

/* The next line that is not empty, into line[READER_LINE]; *n == 0: there is none. */
static enum status lines_next_line(struct bytes *b, char *line, size_t *n)
{
    *n = 0;
    for (;;) {
        if (b->at == b->end) {
            PASS(bytes_more(b));
            if (b->end == 0)
                break;
        }
        const unsigned char *from = b->piece + b->at;
        size_t there = b->end - b->at;
        const unsigned char *end = memchr(from, '\n', there);
        size_t k = end ? (size_t)(end - from) : there;
        if ((end = memchr(from, '\r', k)))
            k = (size_t)(end - from);
        size_t room = READER_LINE - 1 - *n, taken = k < room ? k : room;
        memcpy(line + *n, from, taken);
        *n += taken;
        b->at += k;
        if (k == there)
            continue;
        if (*n > 0)
            break; /* the end of the line stays for the next call, which counts it */
        size_t at = b->at, ends = 0;
        for (; at < b->end && (b->piece[at] == '\n' || b->piece[at] == '\r'); at++)
            ends += b->piece[at] == '\n';
        b->at = at;
        b->line += ends;
    }
    line[*n] = '\0';
    return STATUS_OK;
}

static const struct reader *recognise(const char *line)
{
    for (size_t i = 0; i < readers_n; i++)
        if (readers[i]->recognises_line && readers[i]->recognises_line(line))
            return readers[i];
    return NULL;
}

enum status lines_read(struct bytes *b, struct measured_run *run, const struct reader **found)
{
    enum status st = STATUS_OK;
    struct reader_state state = {
        .path = b->path, .first = run->ranks, .devices.size = sizeof(int64_t)};
    const size_t most = limit_bytes(MOST_TALK);
    char *line = NULL;
    size_t n;
    *found = NULL;
    TRY(ARRAY_NEW(line, READER_LINE));
    while (*found || b->before + b->at < most) {
        TRY(lines_next_line(b, line, &n));
        if (n == 0)
            break;
        if (memchr(line, '\033', n))
            drop_colours(line);
        if (!*found)
            *found = recognise(line);
        if (!*found)
            continue;
        state.line = b->line;
        TRY((*found)->take(line, &state, run));
    }
    if (*found)
        TRY((*found)->take(NULL, &state, run));
out:
    free(line);
    interner_free(&state.devices);
    free(state.header);
    free(state.row);
    return st;
}
