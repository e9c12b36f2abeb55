/* Loads the module with SimGrid in it, and runs its tasks in children. Only the place beside our own
 * executable is looked at: no variable of the environment says what code runs here. */
#include "sim/simgrid_module.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/provenance.h"

/* A task on its way into the child. */
struct call {
    const struct simgrid_module *module;
    enum simgrid_task task;
    void *argument;
};

/* The module; what it is for the loader is counted there, so that nothing is kept here. */
static enum status load(const struct simgrid_module **out)
{
    char path[4096], self[2048];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0)
        return error_set(STATUS_IO, "/proc/self/exe: %s", strerror(errno));
    self[n] = '\0';
    *strrchr(self, '/') = '\0';
    snprintf(path, sizeof path, "%s/" SIMGRID_MODULE, self);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const struct simgrid_module *module = handle ? dlsym(handle, "simgrid_module") : NULL;
    if (!module)
        return error_set(STATUS_IO, "SimGrid cannot be loaded: %s", dlerror());
    if (strcmp(module->version, foreline_version) != 0)
        return error_set(STATUS_INVALID, "%s is of %s, this is %s", path, module->version,
                         foreline_version);
    *out = module;
    return STATUS_OK;
}

/* In the child: the module has its own error message, which becomes ours. */
static enum status run_task(void *argument, int fd)
{
    const struct call *call = argument;
    enum status st = call->module->task[call->task](call->argument, fd);
    return st == STATUS_OK ? st : error_set(st, "%s", call->module->message());
}

enum status simgrid_child(enum simgrid_task task, void *argument, const struct child_watch *watch,
                          struct child_output *out)
{
    struct call call = {.task = task, .argument = argument};
    PASS(load(&call.module));
    return child_run_watched(run_task, &call, watch, out);
}
