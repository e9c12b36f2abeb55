/* Loads the module with SimGrid in it, and runs its tasks in children. */
#include "sim/simgrid_module.h"

/* A task on its way into the child. */
struct simgrid_call {
    const struct simgrid_module *module;
    enum simgrid_task task;
    void *argument;
};

/* In the child: the module has its own error message, which becomes ours. */
static enum status run_task(void *argument, int fd)
{
    const struct simgrid_call *call = argument;
    enum status st = call->module->task[call->task](call->argument, fd);
    return st == STATUS_OK ? st : error_set(st, "%s", call->module->message());
}

enum status simgrid_load_module(void)
{
    const void *module;
    return module_load(SIMGRID_MODULE, "simgrid_module", &module);
}

enum status simgrid_child(enum simgrid_task task, void *argument, const struct child_watch *watch,
                          struct child_output *out)
{
    struct simgrid_call call = {.task = task, .argument = argument};
    const void *module;
    PASS(module_load(SIMGRID_MODULE, "simgrid_module", &module));
    call.module = module;
    return child_run_watched(run_task, &call, watch, out);
}
