/* Steps begin and end with executor_run(), which the linker wraps (--wrap). */
#include "tests/double/double.h"

extern "C" {
struct executor;
struct executor_step;
int __real_executor_run(const struct executor *e, uint32_t step, struct executor_step *out);
int __wrap_executor_run(const struct executor *e, uint32_t step, struct executor_step *out);
}

int __wrap_executor_run(const struct executor *e, uint32_t step, struct executor_step *out)
{
    dbl::begin_step(step);
    int status = __real_executor_run(e, step, out);
    dbl::end_step();
    return status;
}
