/* The message of the last failure, one per thread. */
#include "core/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char message[1024];

enum status error_set(enum status code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    for (char *c = message; *c; c++) /* one line, whatever the names in it */
        *c = *c == '\n' || *c == '\r' ? ' ' : *c;
    return code;
}

const char *error_message(void)
{
    return message;
}

enum status error_context(enum status code, const char *fmt, ...)
{
    char cause[sizeof message], context[sizeof message];
    memcpy(cause, message, sizeof cause);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(context, sizeof context, fmt, ap);
    va_end(ap);
    return error_set(code, "%.300s: %.700s", context, cause);
}
