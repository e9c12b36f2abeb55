/* tokens.h - JSON as a stream of tokens, in memory that does not grow with the file: for traces of
 * gigabytes. What the project writes itself is read as a whole (core/base/json.h). */
#ifndef MEASURED_TOKENS_H
#define MEASURED_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "measured/bytes.h"

enum token {
    TOKEN_END,
    TOKEN_OBJECT,
    TOKEN_OBJECT_END,
    TOKEN_ARRAY,
    TOKEN_ARRAY_END,
    TOKEN_KEY,    /* text; its value comes next */
    TOKEN_TEXT,   /* text */
    TOKEN_NUMBER, /* text, as it stands there */
    TOKEN_WORD, /* true, false, null; NaN and Infinity, which some write though JSON has them not */
};

enum { TOKEN_DEPTH = 64, TOKEN_LETTERS = 512, TOKEN_MOST = 1 << 20, TOKEN_OF_EVENT = 64 };

struct tokens {
    struct bytes *bytes;
    size_t tokens;    /* since the reader set it to 0, at most TOKEN_MOST */
    size_t all, most; /* tokens of the file, and how many it may have, once one was read */
    int depth;
    bool array[TOKEN_DEPTH]; /* [depth] what is open: arrays, or objects */
    bool valued;             /* a value ended here: a comma or an end must come */
    bool keyed;              /* a key ended here: a value must come */
    bool ended;              /* the root's value is complete */
    size_t length;
    char text
        [TOKEN_LETTERS]; /* of the last key, text or number; what does not fit is cut off, escapes
                                 stand as they are but for \" \\ and \/ */
};

/* The next token. STATUS_PARSE with path:line: what is no JSON, nested deeper than TOKEN_DEPTH,
 * more than TOKEN_MOST or `most` tokens, a number of more letters than a text has; STATUS_IO. */
enum status tokens_next(struct tokens *s, enum token *out) MUST_CHECK;
/* Pass over a value whose first token was just read. */
enum status tokens_skip(struct tokens *s, enum token first) MUST_CHECK;
/* STATUS_PARSE with path:line and what is wrong there. */
enum status tokens_error(const struct tokens *s, const char *fmt, ...) PRINTF_LIKE(2, 3);

#endif
