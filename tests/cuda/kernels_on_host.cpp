#include "tests/cuda/host.h"
#include "tests/cuda/runtime_on_host.h"

#include "exec/device/cuda/kernels.cu"
#include "exec/device/cuda/kernels_softmax.cu"

#include <assert.h>
#include <setjmp.h>
#include <ucontext.h>

uint3 threadIdx, blockIdx;
dim3 blockDim(BLOCK), gridDim;

namespace
{

const size_t stack_bytes = 64 << 10;

/* Begun once, then switched to and from by longjmp(), which makes no system call. */
struct fiber {
    bool has_begun, is_done;
    jmp_buf here;
    ucontext_t start;
    char stack[stack_bytes];
};

fiber fibers[BLOCK];
jmp_buf scheduler;
std::function<void()> body;
float exchanged[BLOCK];

void yield()
{
    if (!_setjmp(fibers[threadIdx.x].here))
        _longjmp(scheduler, 1);
}

void run_fiber()
{
    for (;;) {
        body();
        fibers[threadIdx.x].is_done = true;
        yield();
    }
}

/* Until the thread's next barrier. */
void run_thread(unsigned k)
{
    fiber &f = fibers[k];
    threadIdx.x = k;
    if (_setjmp(scheduler))
        return;
    if (f.has_begun)
        _longjmp(f.here, 1);
    f.has_begun = true;
    getcontext(&f.start);
    f.start.uc_stack.ss_sp = f.stack;
    f.start.uc_stack.ss_size = sizeof f.stack;
    makecontext(&f.start, run_fiber, 0);
    setcontext(&f.start);
}

/* All threads of a block pass as many barriers: a turn each is one barrier. */
void run_block()
{
    for (fiber &f : fibers)
        f.is_done = false;
    for (bool any = true; any;) {
        unsigned done = 0;
        for (unsigned k = 0; k < BLOCK; k++) {
            run_thread(k);
            done += fibers[k].is_done;
        }
        assert(done == 0 || done == BLOCK); /* else some threads miss a barrier */
        any = done == 0;
    }
}

} // namespace

void __syncthreads()
{
    yield();
}

float __shfl_xor_sync(unsigned mask, float value, int distance)
{
    assert(mask == 0xffffffffu && distance > 0 && (unsigned)distance < WARP);
    unsigned me = threadIdx.x;
    exchanged[me] = value;
    yield();
    value = exchanged[me ^ (unsigned)distance];
    yield();
    return value;
}

cudaError_t host_launch(dim3 grid, const std::function<void()> &thread)
{
    gridDim = grid;
    body = thread;
    assert(grid.x > 0 && grid.y > 0 && grid.y <= 65535 && grid.z == 1);
    host_gpu_begin();
    for (blockIdx.y = 0; blockIdx.y < grid.y; blockIdx.y++)
        for (blockIdx.x = 0; blockIdx.x < grid.x; blockIdx.x++)
            run_block();
    host_gpu_end();
    return cudaSuccess;
}
