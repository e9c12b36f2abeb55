/* Asks CUDA, cuBLAS and NCCL what they are and what they run on, before anything is opened: what
 * does not fit together is told here in one line, not later in theirs. */
#include "exec/device/cuda/hardware.h"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/device/cuda/context.h"

extern char **environ;

/* ncclCommSplit(), and blocking settings of a communicator; and what NCCL 2.18 was made for. */
enum { OLDEST_NCCL = 21800 };

/* ---- versions */

/* CUDA counts 1000 * major + 10 * minor. */
static const char *cuda_version(int version, char text[HARDWARE_VERSION])
{
    snprintf(text, HARDWARE_VERSION, "%d.%d", version / 1000, version % 1000 / 10);
    return text;
}

/* NCCL 10000 * major + 100 * minor + patch (since 2.9). */
static const char *nccl_version(int version, char text[HARDWARE_VERSION])
{
    snprintf(text, HARDWARE_VERSION, "%d.%d.%d", version / 10000, version % 10000 / 100,
             version % 100);
    return text;
}

static void cublas_version(char text[HARDWARE_VERSION])
{
    int part[3] = {0};
    static const libraryPropertyType type[3] = {MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL};
    for (int k = 0; k < 3; k++)
        if (cublasGetProperty(type[k], &part[k]) != CUBLAS_STATUS_SUCCESS)
            return;
    snprintf(text, HARDWARE_VERSION, "%d.%d.%d", part[0], part[1], part[2]);
}

const char *cuda_driver_release(const char *text, char version[HARDWARE_VERSION])
{
    version[0] = '\0';
    while (*text) {
        size_t n = strspn(text, "0123456789.");
        bool whole = n > 0 && (!text[n] || strchr(" \t\n", text[n]));
        if (whole && n < HARDWARE_VERSION && memchr(text, '.', n) && text[n - 1] != '.') {
            memcpy(version, text, n);
            version[n] = '\0';
            break;
        }
        text += strcspn(text, " \t\n"); /* the next word */
        text += strspn(text, " \t\n");
    }
    return version;
}

/* The kernel module's own words; none where /proc is not the host's. */
static void read_driver_release(char version[HARDWARE_VERSION])
{
    char text[512];
    FILE *f = fopen("/proc/driver/nvidia/version", "r");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    text[n] = '\0';
    if (f)
        fclose(f);
    cuda_driver_release(text, version);
}

/* ---- checks */

/* Drivers run what was built for their own CUDA or an older one, and for later minor versions of
 * their own major one (NVIDIA, "CUDA Compatibility"). The first drivers of each: */
static const char *first_driver(int cuda)
{
    return cuda >= 13000 ? "580" : cuda >= 12000 ? "525" : "450";
}

static enum status check_driver(int runtime)
{
    int driver = 0;
    char have[HARDWARE_VERSION], need[HARDWARE_VERSION], release[HARDWARE_VERSION];
    if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
        return error_set(STATUS_UNSUPPORTED,
                         "no GPU: NVIDIA driver is not installed (libcuda.so.1 not found)");
    if (driver / 1000 >= runtime / 1000)
        return STATUS_OK;
    read_driver_release(release);
    return error_set(
        STATUS_UNSUPPORTED,
        "the NVIDIA driver%s%s supports CUDA %s, but this worker needs CUDA %s; install driver %s "
        "or newer, or build the worker for CUDA %d (docs/reference/cuda.md)",
        *release ? " " : "", release, cuda_version(driver, have), cuda_version(runtime, need),
        first_driver(runtime), driver / 1000);
}

/* The library is the machine's, the header was the builder's. */
static enum status check_nccl(void)
{
    int version = 0;
    char have[HARDWARE_VERSION], need[HARDWARE_VERSION];
    if (ncclGetVersion(&version) == ncclSuccess && version >= OLDEST_NCCL)
        return STATUS_OK;
    return error_set(STATUS_UNSUPPORTED,
                     "NCCL %s (libnccl.so.2) is too old: install %s or newer (built with %s)",
                     nccl_version(version, have), "2.18", nccl_version(NCCL_VERSION_CODE, need));
}

enum status cuda_check(uint32_t *gpus)
{
    int n = 0, runtime = 0;
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    PASS(CUDA_ERROR("version of CUDA", cudaRuntimeGetVersion(&runtime)));
    PASS(check_driver(runtime));
    cudaError_t e = cudaGetDeviceCount(&n);
    if (e != cudaSuccess || n < 1)
        return error_set(STATUS_UNSUPPORTED, "no GPU: %s%s%s",
                         e != cudaSuccess ? cudaGetErrorString(e) : "CUDA finds none",
                         visible ? ", CUDA_VISIBLE_DEVICES=" : "", visible ? visible : "");
    PASS(check_nccl());
    *gpus = (uint32_t)n;
    return STATUS_OK;
}

/* ---- places */

enum status cuda_place(uint32_t rank, uint32_t gpus, uint32_t *gpu)
{
    uint32_t place;
    PASS(cuda_gpu_of(rank, &place));
    if (place >= gpus && !getenv("FORELINE_SHARE_GPU"))
        return error_set(STATUS_UNSUPPORTED,
                         "this machine has %u GPU%s, but rank %u needs GPU %u (counted from 0); "
                         "use fewer ranks, or set FORELINE_SHARE_GPU=1",
                         gpus, gpus > 1 ? "s" : "", rank, place);
    *gpu = place % gpus;
    return STATUS_OK;
}

/* As `nvidia-smi -L` writes it. */
static void write_uuid(const unsigned char *bytes, char text[HARDWARE_ID])
{
    size_t n = (size_t)snprintf(text, HARDWARE_ID, "GPU-");
    for (int k = 0; k < 16; k++)
        n += (size_t)snprintf(text + n, HARDWARE_ID - n, "%s%02x",
                              k == 4 || k == 6 || k == 8 || k == 10 ? "-" : "", bytes[k]);
}

static const char *way(int from, int to)
{
    int can = 0, atomics = 0;
    if (from == to)
        return "self";
    if (cudaDeviceCanAccessPeer(&can, from, to) != cudaSuccess || !can)
        return "host";
    if (cudaDeviceGetP2PAttribute(&atomics, cudaDevP2PAttrNativeAtomicSupported, from, to) ||
        !atomics)
        return "peer";
    return "atomic";
}

static void write_peers(uint32_t gpu, uint32_t gpus, char text[HARDWARE_PEERS])
{
    size_t n = 0;
    for (uint32_t k = 0; k < gpus && n < HARDWARE_PEERS; k++)
        n += (size_t)snprintf(text + n, HARDWARE_PEERS - n, "%s%s", k ? " " : "",
                              way((int)gpu, (int)k));
}

/* Does this variable change how NCCL and CUDA work? (/etc/nccl.conf and ~/.nccl.conf may set
 * more.) */
static bool is_setting(const char *variable)
{
    static const char *const prefix[] = {"NCCL_", "CUDA_VISIBLE_DEVICES=", "CUDA_MODULE_LOADING=",
                                         "CUDA_DEVICE_MAX_CONNECTIONS=", "CUBLAS_"};
    for (size_t k = 0; k < sizeof prefix / sizeof *prefix; k++)
        if (!strncmp(variable, prefix[k], strlen(prefix[k])))
            return true;
    return false;
}

/* In the order of their names, whatever the environment's. What does not fit is left out. */
static void cuda_hardware_write_settings(char text[HARDWARE_SETTINGS])
{
    size_t n = 0;
    for (const char *last = "", *next; last; last = next) {
        next = NULL;
        for (char **e = environ; *e; e++)
            if (is_setting(*e) && strcmp(*e, last) > 0 && (!next || strcmp(*e, next) < 0))
                next = *e;
        if (next && n + strlen(next) + 1 < HARDWARE_SETTINGS)
            n += (size_t)snprintf(text + n, HARDWARE_SETTINGS - n, "%s%s", n ? " " : "", next);
    }
}

enum status cuda_describe(uint32_t rank, struct hardware *out)
{
    enum status st;
    struct hardware h = {.shared = getenv("FORELINE_SHARE_GPU") != NULL};
    struct cudaDeviceProp p;
    int driver = 0, runtime = 0, nccl = 0;
    TRY(cuda_check(&h.gpus));
    TRY(cuda_place(rank, h.gpus, &h.index));
    TRY(CUDA_ERROR("describe the GPU", cudaGetDeviceProperties(&p, (int)h.index)));
    TRY(CUDA_ERROR("describe the GPU", cudaDeviceGetPCIBusId(h.bus, sizeof h.bus, (int)h.index)));
    TRY(CUDA_ERROR("version of CUDA", cudaRuntimeGetVersion(&runtime)));
    TRY(CUDA_ERROR("version of CUDA", cudaDriverGetVersion(&driver)));
    ncclGetVersion(&nccl);
    h.memory_bytes = (int64_t)p.totalGlobalMem;
    snprintf(h.name, sizeof h.name, "%.*s", HARDWARE_NAME - 1, p.name);
    write_uuid((const unsigned char *)p.uuid.bytes, h.uuid);
    write_peers(h.index, h.gpus, h.peers);
    read_driver_release(h.driver);
    cuda_version(driver, h.cuda_driver);
    cuda_version(runtime, h.cuda);
    cublas_version(h.cublas);
    nccl_version(nccl, h.nccl);
    cuda_hardware_write_settings(h.settings);
    *out = h;
out:
    return st;
}
