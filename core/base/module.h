/* module.h - shared objects of our own, loaded when they are needed: a library that costs time at
 * every start is linked into one of them instead of into the command. */
#ifndef CORE_BASE_MODULE_H
#define CORE_BASE_MODULE_H

#include "core/base/error.h"

/* What every module exports is a struct that begins so. */
struct module {
    const char *version; /* foreline_version of its build */
};

/* Load the module of that path, seen from the folder of our own executable: no variable of the
 * environment says what code runs here.
 *
 *   symbol  name of the exported struct, which *out points to
 *
 * It stays loaded, and is found at once the next time. STATUS_IO when it or a library that it needs
 * is not there, STATUS_INVALID when it is of another build. */
enum status module_load(const char *path, const char *symbol, const void **out) MUST_CHECK;

#endif
