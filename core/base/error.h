/* error.h - one status code per outcome, one message per failure.
 *
 * A fallible function returns `enum status`. Whoever first decides that
 * something is wrong calls error_set() once; callers only propagate (TRY).
 * The message lives in thread-local storage until the next error_set(). */
#ifndef CORE_BASE_ERROR_H
#define CORE_BASE_ERROR_H

#include <string.h>

enum status {
    STATUS_OK = 0,
    STATUS_NOMEM,       /* allocation failed */
    STATUS_INVALID,     /* an argument or an input object breaks its contract */
    STATUS_PARSE,       /* malformed file; message is "path:line:column: reason" */
    STATUS_IO,          /* errno-style failure; message carries strerror() */
    STATUS_INFEASIBLE,  /* well-formed problem without a solution */
    STATUS_UNSUPPORTED, /* built without the backend, or not implemented */
    STATUS_EXTERNAL,    /* igraph, SimGrid, MPI, CUDA or NCCL failed */
    STATUS_USAGE,       /* the command line is wrong; the process exits with 2 */
};

#define MUST_CHECK             __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))

/* Record the reason and return `code`: `return error_set(STATUS_PARSE, ...)`. */
enum status error_set(enum status code, const char *fmt, ...) PRINTF_LIKE(2, 3);
const char *error_message(void);

/* The failure that a signal asked us to end; the program then ends by it, as if it had not been
 * caught, once everything is tidy. error_signal() is its number, 0 of all other failures. */
enum status error_interrupted(int signal) MUST_CHECK;
int error_signal(void);

/* Where messages of the calling thread are kept. A module (module.h) has a copy of this file, which
 * error_adopt() lets write to the messages of the program that loaded it. */
struct error_state;
struct error_state *error_state(void);
void error_adopt(struct error_state *(*of_thread)(void));

/* Put "context: " (printf style) before the message of a failure that is being passed on;
 * returns `code`, which must not be STATUS_OK. */
enum status error_context(enum status code, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Needs a local `enum status st` and a label `out` that releases everything. */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        if ((st = (call)) != STATUS_OK)                                                            \
            goto out;                                                                              \
    } while (0)

/* The same for a failure that is found here: `FAIL(STATUS_PARSE, "%s: no plan", path)`. */
#define FAIL(...)                                                                                  \
    do {                                                                                           \
        st = error_set(__VA_ARGS__);                                                               \
        goto out;                                                                                  \
    } while (0)

/* Hand a finished object over: *to becomes it, and {0} stays behind for what is released at
 * `out:`. */
#define MOVE(to, from)                                                                             \
    do {                                                                                           \
        *(to) = (from);                                                                            \
        memset(&(from), 0, sizeof(from));                                                          \
    } while (0)

/* For functions that hold nothing: return a failure to the caller at once. */
#define PASS(call)                                                                                 \
    do {                                                                                           \
        enum status pass_ = (call);                                                                \
        if (pass_ != STATUS_OK)                                                                    \
            return pass_;                                                                          \
    } while (0)

#endif
