#define _GNU_SOURCE /* fopencookie */
/* Streams over descriptors that escape what a terminal would obey. */
#include "host/screen.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file.h"

enum { PART = 4096, ESCAPE = 8, HELD = 2 };

/* One of the two streams. */
struct screen {
    int fd;
    size_t held; /* bytes of a character whose rest has not come */
    char head[HELD];
};

/* ---- characters */

/* Does this begin like one of the characters that are escaped? 2 and 3: so long it is; 0: no. */
static size_t screen_sequence_length(const unsigned char *c, size_t n)
{
    if (c[0] == 0xc2)
        return n < 2 || (c[1] >= 0x80 && c[1] < 0xa0) ? 2 : 0;
    if (c[0] != 0xe2 || (n > 1 && c[1] != 0x80 && c[1] != 0x81))
        return 0;
    if (n < 3)
        return 3;
    bool turns = c[1] == 0x80 ? c[2] >= 0xaa && c[2] <= 0xae : c[2] >= 0xa6 && c[2] <= 0xa9;
    return turns ? 3 : 0;
}

static unsigned screen_letter_value(const unsigned char *c, size_t length)
{
    return length == 2 ? (c[0] & 0x1fu) << 6 | (c[1] & 0x3fu)
                       : (c[0] & 0xfu) << 12 | (c[1] & 0x3fu) << 6 | (c[2] & 0x3fu);
}

size_t screen_escape(const char *text, size_t n, char *out, size_t size)
{
    size_t at = 0, k = 0;
    while (at < n && k + ESCAPE <= size) {
        const unsigned char *c = (const unsigned char *)text + at;
        size_t length = screen_sequence_length(c, n - at);
        if (length > n - at)
            break;
        if (length > 0)
            k += (size_t)snprintf(out + k, ESCAPE, "\\u%04x", screen_letter_value(c, length));
        else if ((*c < 0x20 && *c != '\n' && *c != '\t') || *c == 0x7f)
            k += (size_t)snprintf(out + k, ESCAPE, "\\x%02x", *c);
        else
            out[k++] = (char)*c;
        at += length > 0 ? length : 1;
    }
    if (size > 0)
        out[k] = '\0';
    return at;
}

/* ---- streams */

/* Everything is taken, or nothing said to be. A head of a character waits for its rest. */
static ssize_t screen_put_bytes(void *cookie, const char *text, size_t n)
{
    struct screen *s = cookie;
    char in[PART + HELD], out[PART];
    for (size_t taken = 0; taken < n;) {
        size_t part = n - taken < PART ? n - taken : PART;
        memcpy(in, s->head, s->held);
        memcpy(in + s->held, text + taken, part);
        size_t all = s->held + part, used = 0;
        for (size_t k; (k = screen_escape(in + used, all - used, out, sizeof out)) > 0; used += k)
            if (!file_write_all(s->fd, out, strlen(out)))
                return 0;
        s->held = all - used;
        memcpy(s->head, in + used, s->held);
        taken += part;
    }
    return (ssize_t)n;
}

static FILE *protect(FILE *stream, struct screen *s, int fd, bool whole_lines)
{
    const cookie_io_functions_t io = {.write = screen_put_bytes};
    s->fd = fd;
    fflush(stream);
    FILE *to = fopencookie(s, "w", io);
    if (!to)
        return stream;
    setvbuf(to, NULL, whole_lines ? _IOLBF : fd == STDERR_FILENO ? _IONBF : _IOFBF, BUFSIZ);
    return to;
}

static FILE *drawing; /* stderr as it was */

FILE *screen_drawing(void)
{
    return !isatty(STDERR_FILENO) ? NULL : drawing ? drawing : stderr;
}

void screen_protect(void)
{
    static struct screen screen[2];
    drawing = stderr;
    stdout = protect(stdout, &screen[0], STDOUT_FILENO, isatty(STDOUT_FILENO));
    stderr = protect(stderr, &screen[1], STDERR_FILENO, false);
}
