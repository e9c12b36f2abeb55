#include "tests/failing_worker.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "exec/device.h"
#include "exec/rendezvous.h"
#include "exec/worker.h"

enum { STEP = 4 };

static struct {
    const char *phase;
    int signal;
    const struct program *program;
    const struct transport *transport; /* the real one */
    uint32_t step;
} plan;

static void fail_in(const char *phase)
{
    if (!plan.phase || strcmp(plan.phase, phase) != 0)
        return;
    clock_sleep_until(clock_now() + 2.5 * heartbeat_s);
    raise(plan.signal);
}

static enum status open_device(const struct model *m, const struct program *p, uint32_t rank,
                               const struct device_options *o, void **self)
{
    static char phase[16];
    unsigned victim;
    const char *told = getenv("FAIL");
    if (told && sscanf(told, "%u %15s %d", &victim, phase, &plan.signal) == 3 && victim == rank)
        plan.phase = phase;
    plan.program = p;
    fail_in("init");
    return device_cpu.open(m, p, rank, o, self);
}

static enum status compute(void *self, uint32_t step, const struct program_op *op,
                           const struct layer_reduction *reduction)
{
    plan.step = step;
    if (op->kind == OP_BACKWARD && step == 0)
        fail_in("warm-up");
    if (op->kind == OP_BACKWARD && step == STEP)
        fail_in("steady");
    return device_cpu.compute(self, step, op, reduction);
}

static enum status wait_for(void *self, uint32_t op, double timeout_s, const void **data)
{
    if (plan.program->op[op].kind == OP_ALLREDUCE && plan.step == STEP)
        fail_in("allreduce");
    return plan.transport->wait(self, op, timeout_s, data);
}

static enum status open_transport(const struct program *p, uint32_t rank,
                                  const struct rendezvous *r, void **self)
{
    fail_in("open");
    return plan.transport->open(p, rank, r, self);
}

int failing_worker(int argc, char **argv, const struct transport *transport)
{
    struct device device = device_cpu;
    struct transport failing = *transport;
    unsigned victim;
    char phase[16];
    const char *told = getenv("FAIL"), *rank = getenv("RANK");
    rank = rank ? rank : getenv("OMPI_COMM_WORLD_RANK");
    if (told && rank && sscanf(told, "%u %15s %d", &victim, phase, &plan.signal) == 3 &&
        !strcmp(phase, "meet") && victim == strtoul(rank, NULL, 10))
        raise(plan.signal);
    const struct device *const devices[] = {&device, NULL};
    const struct transport *const transports[] = {&failing, NULL};
    plan.transport = transport;
    device.open = open_device;
    device.compute = compute;
    failing.open = open_transport;
    failing.wait = wait_for;
    return worker_main(argc, argv, &(const struct worker_parts){devices, transports, NULL});
}
