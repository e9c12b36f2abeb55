/* reader.h - files of measured runs in the formats of other programs. A format is a file
 * measured/NAME.c that defines reader_NAME, and a line of readers.def. */
#ifndef MEASURED_READER_H
#define MEASURED_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "measured/run.h"

struct bytes;
struct reader_state;

/* A format is either a whole file, or lines among others that do not matter (logs): the other's
 * functions are NULL. */
struct reader {
    const char *name, *summary;
    /* Does a file begin so? head[length] is NUL-terminated, at most READER_HEAD bytes, unpacked. */
    bool (*recognises)(const char *head, size_t length);
    /* Add what is in the file to *run; `b` is at its beginning. STATUS_PARSE with path:line;
     * STATUS_INVALID; STATUS_IO. */
    enum status (*read)(const char *path, struct bytes *b, struct measured_run *run);
    /* Does a line say that the file is of this format? `text` is NUL-terminated, without escapes of
     * terminals. */
    bool (*recognises_line)(const char *text);
    /* Take a line, from the recognised one on. `text` may be changed, and is NULL once they are
     * over. STATUS_PARSE. */
    enum status (*take)(char *text, struct reader_state *state, struct measured_run *run);
};

enum { READER_HEAD = 4096, READER_COLUMNS = 64, READER_LINE = 65536 };

/* What a reader of lines remembers from one to the next. */
struct reader_state {
    const char *path; /* of the file, and its line, for messages */
    size_t line;
    size_t columns; /* of a table; 0: its header was not seen yet */
    char separator;
    int column
        [READER_COLUMNS]; /* [columns] what each one is, as the reader numbers them; -1: nothing */
    double scale[READER_COLUMNS];
    /* Of a table, owned: the header and the first row, cut into cells [columns], and the first
     * row's line. */
    char *header, *row;
    char *name[READER_COLUMNS], *value[READER_COLUMNS];
    size_t row_line;
    struct run_line pending; /* what lines before have said of steps */
    size_t first;            /* rank of the file; its GPUs in their order */
    struct interner devices;
};

#define READER(name) extern const struct reader reader_##name;
#include "measured/readers.def"
#undef READER
extern const struct reader *const readers[]; /* [readers_n] */
extern const size_t readers_n;

/* Read files of one run, all of one format: traces of its ranks, or one log; with layers, if they
 * are wanted. Then a trace without a GPU's activity is of a CPU, whose outermost ops compute. */
enum status measured_run_read(const char *const *path, size_t n, enum run_layers layers,
                              struct measured_run *out) MUST_CHECK;

/* A decimal number as whole nanoseconds, `per_unit` of them in a unit (1000: the text is in us):
 * exact up to a nanosecond, rounded to the nearest. False, and *out as it was: it is no number, or
 * does not fit. */
bool reader_ns(const char *text, int64_t per_unit, int64_t *out);
/* The number behind `key` in a line ("elapsed time per iteration (ms):"), after blanks, ':' and
 * '='; commas between digits are passed over. False: the key is not there, or no number is behind
 * it. */
bool reader_number(const char *line, const char *key, double *out);

#endif
