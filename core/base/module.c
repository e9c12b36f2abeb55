/* Modules by dlopen(), beside our own executable. */
#include "core/base/module.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/limit.h"
#include "core/base/provenance.h"

void module_adopt(const struct module_shared *shared)
{
    if (error_state() == shared->error()) /* once is enough */
        return;
    limits_adopt(shared->limits);
    file_watch_temporaries(shared->temporary_make, shared->temporary_ends);
    executable_set_folder(shared->folder);
    error_adopt(shared->error);
}

enum status module_load(const char *path, const char *symbol, const void **out)
{
    char whole[EXECUTABLE_FOLDER + 256];
    struct module_shared shared = {.error = error_state,
                                   .limits = limits_values(),
                                   .temporary_make = file_temporary_make,
                                   .temporary_ends = file_temporary_ends};
    PASS(executable_folder(shared.folder));
    snprintf(whole, sizeof whole, "%s/%s", shared.folder, path);
    void *handle = dlopen(whole, RTLD_NOW | RTLD_LOCAL);
    const struct module *module = handle ? dlsym(handle, symbol) : NULL;
    if (!module)
        return error_set(STATUS_IO, "module not found: %s", dlerror());
    if (strcmp(module->version, foreline_version) != 0)
        return error_set(
            STATUS_INVALID,
            "%s: module has version %s, but foreline has version %s; reinstall or rebuild foreline",
            whole, module->version, foreline_version);
    if (module->adopt)
        module->adopt(&shared);
    *out = module;
    return STATUS_OK;
}
