/* Modules by dlopen(), beside our own executable. */
#include "core/base/module.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "core/base/executable.h"
#include "core/base/provenance.h"

enum status module_load(const char *path, const char *symbol, const void **out)
{
    char whole[4096], self[EXECUTABLE_FOLDER];
    PASS(executable_folder(self));
    snprintf(whole, sizeof whole, "%s/%s", self, path);
    void *handle = dlopen(whole, RTLD_NOW | RTLD_LOCAL);
    const struct module *module = handle ? dlsym(handle, symbol) : NULL;
    if (!module)
        return error_set(STATUS_IO, "a part of foreline is missing: %s", dlerror());
    if (strcmp(module->version, foreline_version) != 0)
        return error_set(STATUS_INVALID, "%s is of %s, this is %s", whole, module->version,
                         foreline_version);
    *out = module;
    return STATUS_OK;
}
