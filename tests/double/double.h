/* double.h - the host double of a machine with GPUs, inside.
 *
 *   engine.cpp   streams as queues of ops; one thread of the process is all its GPUs
 *   memory.cpp   memory of the GPUs, and who may touch it; pinned.cpp: pinned memory of the host
 *   races.cpp    what is ordered, and what is not
 *   grid.cpp     a kernel's blocks and threads, and the hooks of its accesses
 *   runtime.cpp  the functions of CUDA's runtime; graphs.cpp: those of graphs
 *   blas.cpp     those of cuBLAS
 *   nccl*.cpp    NCCL between processes and threads
 *   faults.cpp   the environment: seeds, delays, errors; log.cpp: what happened, for tests
 *
 * What the double holds against the program (`complain`) is one line that begins with "double:",
 * and ends the process. */
#ifndef DOUBLE_DOUBLE_H
#define DOUBLE_DOUBLE_H

#include <cuda_runtime_api.h>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <stddef.h>
#include <stdint.h>
#include <string>
#include <vector>

namespace dbl
{

/* ---- faults.cpp */

double now_s();
int rank_here();     /* $RANK, or -1 */
bool is_seeded();    /* $DOUBLE_SEED is set */
uint32_t random32(); /* of it and the rank */
bool has_fault(const char *name);
/* One more event of a kind; true for the one that $DOUBLE_FAULTS names as `kind:N` or
 * `kind:N@RANK`, counted from 1. */
bool strikes(const char *kind);
[[noreturn]] void kill_here(); /* as `kill -9` does */
bool computes_nothing();       /* kernels and products are queued and counted, and do nothing */
bool wants_races();
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
void remark(const char *format, ...) __attribute__((format(printf, 1, 2))); /* goes on */

/* ---- memory.cpp */

enum { MOST_GPUS = 16 };
const size_t gpu_bytes = (size_t)16 << 30;
extern char *arena; /* [MOST_GPUS][gpu_bytes] addresses of device memory; NULL: none yet */

int gpu_count();
void *memory_new(int gpu, size_t bytes); /* NULL: no room */
size_t memory_free(void *data);          /* its bytes; 0: no such memory */
int gpu_of(const void *data);            /* -1: host memory */
/* Is it inside one live allocation? */
bool is_live(const void *data, size_t bytes);
size_t memory_used(int gpu);
size_t offset_of(const void *data); /* in its allocation */
void let(int gpu, int peer);        /* gpu may touch the peer's */
uint32_t may_touch(int gpu);        /* mask of GPUs */
/* The engine's: memory of these GPUs (mask) becomes accessible; nobody's does. */
void memory_open(uint32_t gpus);
void memory_close();

/* ---- pinned.cpp */

struct stream;
void *pinned_new(size_t bytes); /* NULL: no memory */
bool pinned_free(void *data);
bool is_pinned(const void *data, size_t bytes);
char *engine_view(const void *data); /* of pinned memory; of other memory: itself */
/* The op that `s` has been given last copies from or (writes) to pinned memory. */
void pinned_guard(const void *data, size_t bytes, const stream *s, const char *what, bool writes);
void pinned_learns(); /* host_seen has grown */
/* The host touches what it may not: true for pinned memory, and the copy that forbids it (NULL:
 * none, the host may go on). */
bool pinned_fault(const void *at, const char **what);

/* ---- engine.cpp */

struct op {
    const char *what;
    std::function<bool(op &)> step; /* true: complete; false: look again later */
    stream *on;
    std::vector<uint32_t> host; /* what the host knew when it queued this */
    double not_before_s;
    bool has_begun;
};

/* What a stream has been given since its capture began, to be done whenever the graph is launched:
 * with the arguments of then. */
struct node {
    const char *what;
    std::function<bool(op &)> step;
    const void *pinned; /* memory of the host that it copies from or (writes) to; NULL: none */
    size_t bytes;
    bool writes;
};
struct capture {
    bool is_broken; /* something was asked for that no graph can do */
    std::vector<node> nodes;
};

struct stream {
    int gpu, priority;
    size_t actor; /* of the clocks */
    std::string name;
    std::deque<op *> queue;
    std::vector<uint32_t> seen; /* vector clock */
    bool is_dead;
    uint64_t queued, done;
    std::shared_ptr<capture> into; /* NULL: what it is given is queued */
};

/* cudaEventRecord() makes a new one; who waits for the event waits for the newest so far. */
struct record {
    bool is_done;
    double at_s;
    std::vector<uint32_t> seen;
};
struct event {
    std::shared_ptr<record> newest; /* NULL: never recorded */
    std::shared_ptr<capture> in;    /* it was recorded last in this one */
    bool timed;
};

/* Everything in them, and in streams and events, is guarded by it. */
extern std::mutex &gate;

stream *stream_of(cudaStream_t handle); /* of the calling thread and its GPU */
stream *stream_new(int gpu, const std::string &name);
void stream_retire(stream *s);
void put(stream *s, const char *what, std::function<bool(op &)> step);
/* The same for a copy from or (writes) to pinned memory of the host, which is guarded. */
void put_copy(stream *s, const char *what, std::function<bool(op &)> step, const void *pinned,
              size_t bytes, bool writes);
/* Block the calling thread until `idle` (called with the gate shut). */
void wait_until(const char *who, const std::function<bool()> &idle);
void device_wait(const char *who); /* for everything queued on the thread's GPU */
void engine_nudge();
void watch(int fd); /* an op of the engine waits for what comes there */

int current_gpu();
void set_current_gpu(int gpu);

/* Sticky, as CUDA's after a fault. */
cudaError_t sticky();
void make_sticky(cudaError_t e);
cudaError_t note_error(cudaError_t e); /* of a call: kept for cudaGetLastError(), and returned */

/* ---- graphs.cpp */

/* An op is about to be queued on the stream: what it would say if that cannot be. */
cudaError_t check_capture(const stream *s);
/* The calling thread is about to wait, or to take or give back memory: the error, where a capture
 * forbids that; the capture is lost. NULL: any of its streams. */
cudaError_t forbid_in_capture(const stream *s);

/* ---- clocks and races: races.cpp */

void join(std::vector<uint32_t> &into, const std::vector<uint32_t> &other);
size_t new_actor(const std::string &name);
void host_learns(const std::vector<uint32_t> &seen); /* the gate is shut */
extern std::vector<uint32_t> &host_seen; /* all threads of the host are one actor, number 0 */
/* Device memory that an op reads or writes: checks that it may, and against the others. */
void touch(op &o, const void *data, size_t bytes, bool writes);
void forget(const void *data, size_t bytes); /* freed */

/* ---- grid.cpp: run a kernel now */

struct traced {
    const char *data;
    size_t bytes;
    bool writes;
};
struct kernel {
    const char *name;
    dim3 grid;
    unsigned threads;
    std::string closure; /* bytes */
    void (*run)(const void *closure);
};
void run_grid(const kernel &k, uint32_t gpus, std::vector<traced> *accesses);

/* ---- steps: executor_run() is in one */

bool in_step();
long step_now(); /* -1: in none */
void begin_step(uint32_t step);
void end_step();

} // namespace dbl

#endif
