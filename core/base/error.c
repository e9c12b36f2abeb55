/* The message of the last failure, one per thread. */
#include "core/base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char message[1024];
static _Thread_local int interrupting; /* the signal that the message is about */

enum status error_set(enum status code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    interrupting = 0;
    for (char *c = message; *c; c++) /* one line, whatever the names in it */
        *c = *c == '\n' || *c == '\r' ? ' ' : *c;
    return code;
}

const char *error_message(void)
{
    return message;
}

enum status error_interrupted(int signal)
{
    enum status st =
        error_set(STATUS_EXTERNAL, "interrupted by signal %d (%s)", signal, strsignal(signal));
    interrupting = signal;
    return st;
}

int error_signal(void)
{
    return interrupting;
}

enum status error_context(enum status code, const char *fmt, ...)
{
    char cause[sizeof message], context[sizeof message];
    int signal = interrupting;
    memcpy(cause, message, sizeof cause);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(context, sizeof context, fmt, ap);
    va_end(ap);
    code = error_set(code, "%.300s: %.700s", context, cause);
    interrupting = signal;
    return code;
}
