/* The message of the last failure, one per thread. */
#include "core/base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct error_state {
    char message[1024];
    int interrupting; /* the signal that the message is about */
};
static _Thread_local struct error_state own;

static struct error_state *own_state(void)
{
    return &own;
}

static struct error_state *(*state)(void) = own_state;

struct error_state *error_state(void)
{
    return state();
}

void error_adopt(struct error_state *(*of_thread)(void))
{
    state = of_thread;
}

enum status error_set(enum status code, const char *fmt, ...)
{
    struct error_state *s = state();
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(s->message, sizeof s->message, fmt, ap);
    va_end(ap);
    s->interrupting = 0;
    for (char *c = s->message; *c; c++) /* one line, whatever the names in it */
        *c = *c == '\n' || *c == '\r' ? ' ' : *c;
    return code;
}

const char *error_message(void)
{
    return state()->message;
}

enum status error_interrupted(int signal)
{
    enum status st =
        error_set(STATUS_EXTERNAL, "interrupted by signal %d (%s)", signal, strsignal(signal));
    state()->interrupting = signal;
    return st;
}

int error_signal(void)
{
    return state()->interrupting;
}

enum status error_context(enum status code, const char *fmt, ...)
{
    struct error_state *s = state();
    char cause[sizeof s->message], context[sizeof s->message];
    int signal = s->interrupting;
    memcpy(cause, s->message, sizeof cause);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(context, sizeof context, fmt, ap);
    va_end(ap);
    code = error_set(code, "%.300s: %.700s", context, cause);
    s->interrupting = signal;
    return code;
}
