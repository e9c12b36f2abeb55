/* module.h - shared objects of our own, loaded when they are needed: a library that costs time at
 * every start, or code that few want, is linked into one of them instead of into the command. */
#ifndef CORE_BASE_MODULE_H
#define CORE_BASE_MODULE_H

#include "core/base/error.h"
#include "core/base/executable.h"

/* A module has copies of what it needs of core. This is what such a copy must share with the
 * program: where messages go, limits, who removes temporary files when a signal comes, and the
 * folder that other modules are found from. */
struct module_shared {
    struct error_state *(*error)(void);
    double *limits;
    int (*temporary_make)(char *template);
    void (*temporary_ends)(const char *path);
    char folder[EXECUTABLE_FOLDER];
};

/* What every module exports is a struct that begins so. */
struct module {
    const char *version; /* foreline_version of its build */
    /* module_adopt(); NULL: it keeps its messages to itself, and neither writes files nor loads
     * modules. */
    void (*adopt)(const struct module_shared *shared);
};

/* Share these from now on, whose pointers stay valid; called by module_load() in the module's
 * copy. */
void module_adopt(const struct module_shared *shared);

/* Load the module of that path, seen from the folder of our own executable: no variable of the
 * environment says what code runs here.
 *
 *   symbol  name of the exported struct, which *out points to
 *
 * It stays loaded, and is found at once the next time. STATUS_IO when it or a library that it needs
 * is not there, STATUS_INVALID when it is of another build. */
enum status module_load(const char *path, const char *symbol, const void **out) MUST_CHECK;

#endif
