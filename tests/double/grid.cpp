/* A kernel on the host: blocks one after the other, the threads of a block as fibers; and what
 * -fsanitize=thread calls for every access of one, here to see which memory a kernel touches.
 * Compiled without sanitizers: they would not understand the stacks. */
#include "tests/double/host.h"

#include <algorithm>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "tests/double/double.h"

uint3 threadIdx, blockIdx;
dim3 blockDim(BLOCK), gridDim;

namespace
{

const size_t stack_bytes = 64 << 10;

/* Begun once, then switched to and from, without a system call where the registers are known. */
struct fiber {
    bool has_begun, is_done;
    void *top; /* of the stack, where its registers are */
    ucontext_t context;
    alignas(16) char stack[stack_bytes];
};

fiber fibers[DOUBLE_MOST_THREADS];
fiber scheduler; /* what the engine's own thread was at */
alignas(16) char closure[2048];
void (*body)(const void *closure);
float exchanged[DOUBLE_MOST_THREADS];
const char *kernel_name;

#ifdef __x86_64__
extern "C" void double_switch(void **from, void *to);
asm(R"(
    .text
    .type double_switch, @function
double_switch:
    push %rbp
    push %rbx
    push %r12
    push %r13
    push %r14
    push %r15
    mov %rsp, (%rdi)
    mov %rsi, %rsp
    pop %r15
    pop %r14
    pop %r13
    pop %r12
    pop %rbx
    pop %rbp
    ret
    .size double_switch, .-double_switch
)");

void change(fiber &from, fiber &to)
{
    double_switch(&from.top, to.top);
}

/* As if it had been switched from at the beginning of `run`: six registers, where to return to, and
 * a word that keeps the stack aligned as after a call. */
void prepare(fiber &f, void (*run)())
{
    void **top = (void **)(f.stack + sizeof f.stack) - 2;
    *top = (void *)run;
    f.top = top - 6;
}
#else
void change(fiber &from, fiber &to)
{
    swapcontext(&from.context, &to.context);
}

void prepare(fiber &f, void (*run)())
{
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = f.stack;
    f.context.uc_stack.ss_size = sizeof f.stack;
    makecontext(&f.context, run, 0);
}
#endif

void yield()
{
    change(fibers[threadIdx.x], scheduler);
}

void run_fiber()
{
    for (;;) {
        body(closure);
        fibers[threadIdx.x].is_done = true;
        yield();
    }
}

/* Until the thread's next barrier. */
void run_thread(unsigned k)
{
    fiber &f = fibers[k];
    threadIdx.x = k;
    if (!f.has_begun)
        prepare(f, run_fiber);
    f.has_begun = true;
    change(scheduler, f);
}

/* All threads of a block pass as many barriers: a turn each is one barrier. */
void run_block()
{
    for (unsigned k = 0; k < blockDim.x; k++)
        fibers[k].is_done = false;
    for (bool any = true; any;) {
        unsigned done = 0;
        for (unsigned k = 0; k < blockDim.x; k++) {
            run_thread(k);
            done += fibers[k].is_done;
        }
        if (done != 0 && done != blockDim.x)
            dbl::complain("kernel %s: some threads of a block miss a barrier", kernel_name);
        any = done == 0;
    }
}

/* ---- accesses of the kernel that runs */

/* A bit per 2 bytes of device memory, for reads and for writes; words of bits that are not zero are
 * listed. */
const size_t grain = 2, arena_bytes = dbl::MOST_GPUS * dbl::gpu_bytes;
uint64_t *bits[2];
std::vector<size_t> &marked = *new std::vector<size_t>; /* 2 * word + writes */
bool tracing;
thread_local bool in_kernel; /* else the hooks see the functions that launch */
uint32_t allowed;            /* GPUs */
extern "C" char __executable_start, _end;

void mark(size_t first, size_t last, bool writes)
{
    for (size_t g = first; g <= last; g++) {
        uint64_t &word = bits[writes][g / 64];
        if (word == 0)
            marked.push_back(2 * (g / 64) + writes);
        word |= (uint64_t)1 << g % 64;
    }
}

__attribute__((noinline)) void elsewhere(const char *at, bool writes)
{
    if (at >= &__executable_start && at < &_end)
        return; /* shared memory, stacks of threads, constants */
    if (dbl::is_pinned(at, 1))
        return;
    dbl::complain("kernel %s %s host memory", kernel_name, writes ? "writes" : "reads");
}

inline void see(const void *data, size_t bytes, bool writes)
{
    if (!in_kernel)
        return;
    const char *at = (const char *)data;
    size_t offset = (size_t)(at - dbl::arena);
    if (offset >= arena_bytes)
        return elsewhere(at, writes);
    if (!(allowed >> offset / dbl::gpu_bytes & 1))
        dbl::complain("kernel %s %s memory of GPU %zu, which is no peer of its own", kernel_name,
                      writes ? "writes" : "reads", offset / dbl::gpu_bytes);
    if (tracing)
        mark(offset / grain, (offset + bytes - 1) / grain, writes);
}

/* The marks as intervals, and away with them. */
void collect(std::vector<dbl::traced> *out)
{
    std::sort(marked.begin(), marked.end(),
              [](size_t a, size_t b) { return a % 2 != b % 2 ? a % 2 < b % 2 : a < b; });
    for (size_t m : marked) {
        bool writes = m % 2 != 0;
        uint64_t &word = bits[writes][m / 2];
        for (size_t k = 0; k < 64; k++) {
            if (!(word >> k & 1))
                continue;
            const char *at = dbl::arena + (m / 2 * 64 + k) * grain;
            if (!out->empty() && out->back().writes == writes &&
                out->back().data + out->back().bytes == at)
                out->back().bytes += grain;
            else
                out->push_back({at, grain, writes});
        }
        word = 0;
    }
    marked.clear();
}

} // namespace

#define HOOK(name, bytes, writes)                                                                  \
    extern "C" void name(void *at)                                                                 \
    {                                                                                              \
        see(at, bytes, writes);                                                                    \
    }
#define HOOKS(n)                                                                                   \
    HOOK(__tsan_read##n, n, false)                                                                 \
    HOOK(__tsan_write##n, n, true)                                                                 \
    HOOK(__tsan_unaligned_read##n, n, false)                                                       \
    HOOK(__tsan_unaligned_write##n, n, true)                                                       \
    HOOK(__tsan_volatile_read##n, n, false)                                                        \
    HOOK(__tsan_volatile_write##n, n, true)
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)
extern "C" void __tsan_read_range(void *at, size_t bytes)
{
    see(at, bytes, false);
}
extern "C" void __tsan_write_range(void *at, size_t bytes)
{
    see(at, bytes, true);
}
extern "C" void __tsan_init()
{
}
extern "C" void __tsan_func_entry(void *)
{
}
extern "C" void __tsan_func_exit()
{
}
extern "C" void __tsan_vptr_update(void *, void *)
{
}
extern "C" void __tsan_vptr_read(void *)
{
}
extern "C" void *__tsan_memcpy(void *to, const void *from, size_t bytes)
{
    see(from, bytes, false);
    see(to, bytes, true);
    return memcpy(to, from, bytes);
}
extern "C" void *__tsan_memset(void *to, int value, size_t bytes)
{
    see(to, bytes, true);
    return memset(to, value, bytes);
}

void __syncthreads()
{
    yield();
}

float __shfl_xor_sync(unsigned mask, float value, int distance)
{
    if (mask != 0xffffffffu || distance <= 0 || (unsigned)distance >= WARP)
        dbl::complain("kernel %s shuffles over %d threads", kernel_name, distance);
    unsigned me = threadIdx.x;
    exchanged[me] = value;
    yield();
    value = exchanged[me ^ (unsigned)distance];
    yield();
    return value;
}

/* ---- fragments: what each thread of a warp gives, for all of them to take from */

namespace
{

const unsigned LANES = 32;

/* Of a warp: a (16, 16), b (8, 16) by columns; where a matrix's rows are. A thread that is one call
 * ahead gives to the other half. */
struct given {
    float a[16][16], b[8][16];
    const void *row[LANES];
};
given parts[2][DOUBLE_MOST_THREADS / LANES];
unsigned turn[DOUBLE_MOST_THREADS];

given *next_turn()
{
    return &parts[turn[threadIdx.x]++ % 2][threadIdx.x / LANES];
}

/* The two numbers of 16 bits in one of 32. */
template <typename T> void unpack(uint32_t both, float *to)
{
    T half[2];
    memcpy((void *)half, &both, sizeof half);
    to[0] = half[0];
    to[1] = half[1];
}

const given *rows_of(const void *row)
{
    given *mine = next_turn();
    if ((uintptr_t)row % 16 != 0)
        dbl::complain("kernel %s loads a matrix's row that is not aligned", kernel_name);
    mine->row[threadIdx.x % LANES] = row;
    yield();
    return mine;
}

float dot(const float *a, const float *b)
{
    float part[4] = {0};
    for (unsigned k = 0; k < 16; k++)
        part[k % 4] += a[k] * b[k];
    return (part[0] + part[1]) + (part[2] + part[3]);
}

} // namespace

template <typename T> void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    given *all = next_turn();
    unsigned g = threadIdx.x % LANES / 4, t = threadIdx.x % 4;
    for (unsigned i = 0; i < 4; i++)
        unpack<T>(a[i], &all->a[g + i % 2 * 8][2 * t + i / 2 * 8]);
    unpack<T>(b0, &all->b[g][2 * t]);
    unpack<T>(b1, &all->b[g][2 * t + 8]);
    yield();
    for (unsigned i = 0; i < 4; i++)
        d[i] += dot(all->a[g + i / 2 * 8], all->b[2 * t + i % 2]);
}
template void mma<__nv_bfloat16>(float (&)[4], const uint32_t (&)[4], uint32_t, uint32_t);
template void mma<__half>(float (&)[4], const uint32_t (&)[4], uint32_t, uint32_t);

void load_matrices(uint32_t (&r)[4], const void *row)
{
    const given *all = rows_of(row);
    unsigned g = threadIdx.x % LANES / 4, t = threadIdx.x % 4;
    for (unsigned k = 0; k < 4; k++)
        r[k] = ((const uint32_t *)all->row[k * 8 + g])[t];
}

void load_turned(uint32_t (&r)[4], const void *row)
{
    const given *all = rows_of(row);
    unsigned g = threadIdx.x % LANES / 4, t = threadIdx.x % 4;
    for (unsigned k = 0; k < 4; k++) {
        uint32_t low = ((const uint16_t *)all->row[k * 8 + 2 * t])[g];
        r[k] = low | (uint32_t)((const uint16_t *)all->row[k * 8 + 2 * t + 1])[g] << 16;
    }
}

namespace dbl
{

void run_grid(const kernel &k, uint32_t gpus, std::vector<traced> *accesses)
{
    for (int w = 0; accesses && w < 2; w++)
        if (!bits[w])
            bits[w] = (uint64_t *)mmap(NULL, arena_bytes / grain / 8, PROT_READ | PROT_WRITE,
                                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    tracing = accesses != NULL;
    allowed = gpus;
    kernel_name = k.name;
    gridDim = k.grid;
    blockDim = dim3(k.threads);
    if (k.closure.size() > sizeof closure)
        complain("kernel %s has %zu bytes of arguments", k.name, k.closure.size());
    memcpy(closure, k.closure.data(), k.closure.size());
    body = k.run;
    in_kernel = true;
    for (blockIdx.y = 0; blockIdx.y < k.grid.y; blockIdx.y++)
        for (blockIdx.x = 0; blockIdx.x < k.grid.x; blockIdx.x++)
            run_block();
    in_kernel = false;
    if (accesses)
        collect(accesses);
}

} // namespace dbl
