/* The real cuDNN, where it is installed, without a GPU: it takes our descriptors, refuses wrong
 * ones, and makes plans of both graphs for GPUs that are only described to it (deviceless
 * ahead-of-time compilation, since 9.8), on a driver that says yes (driver.c). Nothing is run.
 * `all`: four shapes instead of one. 77: there is no cuDNN, or it does not know such GPUs. */
#include <stdio.h>
#include <string.h>

#include "exec/device/cuda/cudnn_sdpa.h"

enum { SKIPPED = 77, JSON = 1024 };

static const struct cudnn *library;
static int failures;

static void check(int good, const char *what, const char *why)
{
    if (!good)
        failures++;
    if (!good)
        printf("FAILED: %s: %s\n", what, why);
}

/* What cuDNN knows of a GPU, of data sheets as far as it matters. */
static const struct gpu {
    const char *name;
    int version, multiprocessors, shared_memory;
} gpus[] = {{"A100", 800, 108, 166912}, {"H100", 900, 132, 232448}, {"B200", 1000, 148, 232448}};

static void describe(const struct gpu *g, char json[JSON])
{
    snprintf(json, JSON,
             "{\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],"
             "\"regsPerBlock\":65536,\"multiProcessorCount\":%d,\"smClockRateKHz\":1980000,"
             "\"memClockRateKHz\":2619000,\"l2CacheSize\":52428800,\"warpSize\":32,"
             "\"maxSharedMemoryPerBlock\":49152,\"maxSharedMemoryPerBlockOptin\":%d,"
             "\"reservedSharedMemoryPerBlock\":1024,\"maxRegistersPerSM\":65536,\"pciDeviceId\":0,"
             "\"maxCtasPerSM\":32,\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":2048,"
             "\"isTccDriver\":0,\"supportCoopLaunch\":1,\"deviceVer\":%d,\"driverVer\":13000,"
             "\"totalGlobalMem\":85017493504,\"deviceName\":\"%s\",\"cudaDeviceId\":0}",
             g->multiprocessors, g->shared_memory, g->version, g->name);
}

/* NULL: this cuDNN does not know the description. */
static void *device_of(const struct gpu *g)
{
    char json[JSON];
    void *device = NULL;
    describe(g, json);
    if (library->descriptor(CUDNN_DEVICE, &device) != 0 ||
        library->set(device, CUDNN_DEVICE_JSON, CUDNN_OF_CHAR, (int64_t)strlen(json), json) != 0 ||
        library->finalize(device) != 0) {
        library->release(device);
        return NULL;
    }
    return device;
}

/* ---- descriptors */

static void takes_operations(const struct cudnn_sdpa *a)
{
    struct cudnn_graph g = {.library = library};
    cudnn_sdpa_forward(&g, a);
    check(!*g.why, "operations of a forward", g.why);
    check(g.operations == (a->causal ? 14 : 10), "their number", "another one");
    cudnn_graph_close(&g);
    g = (struct cudnn_graph){.library = library};
    cudnn_sdpa_backward(&g, a);
    check(!*g.why, "operations of a backward", g.why);
    cudnn_graph_close(&g);
}

/* It checks what it is told: else the above would mean nothing. */
static void refuses_wrong_ones(void)
{
    void *tensor = NULL;
    const int64_t size[4] = {1, 1, 8, 8};
    const int bf16 = CUDNN_BF16;
    check(library->descriptor(CUDNN_TENSOR, &tensor) == 0, "a tensor", "none");
    check(library->set(tensor, CUDNN_TENSOR_SIZES, CUDNN_OF_DATA, 4, size) != 0, "sizes",
          "of another type are taken");
    check(library->set(tensor, CUDNN_TENSOR_DATA, CUDNN_OF_INT64, 1, &bf16) != 0, "a data type",
          "as a number is taken");
    check(library->set(tensor, CUDNN_MATMUL_A, CUDNN_OF_DESCRIPTOR, 1, &tensor) != 0,
          "an attribute of products", "is taken of a tensor");
    check(library->set(tensor, CUDNN_TENSOR_DATA, CUDNN_OF_DATA, 1, &bf16) == 0, "a data type",
          "is not taken");
    check(library->finalize(tensor) != 0, "a tensor without sizes", "is taken");
    library->release(tensor);
}

/* ---- plans */

enum direction { FORWARD, BACKWARD };

static int64_t workspace_of(void *device, const struct cudnn_sdpa *a, enum direction d,
                            const char *gpu)
{
    struct cudnn_graph g = {.library = library, .device = device};
    int64_t bytes = -1;
    (d == FORWARD ? cudnn_sdpa_forward : cudnn_sdpa_backward)(&g, a);
    const void *plan = cudnn_graph_plan(&g, &bytes);
    if (!plan)
        bytes = -1;
    printf("%s, %s: samples %ld tokens %ld heads %ld of %ld, %ld and %ld channels%s: ", gpu,
           d == FORWARD ? "forward" : "backward", (long)a->samples, (long)a->tokens, (long)a->heads,
           (long)a->kv_heads, (long)a->depth, (long)a->value, a->causal ? ", causal" : "");
    if (plan)
        printf("workspace %ld bytes\n", (long)bytes);
    else
        printf("%.*s\n", (int)strcspn(g.why, "\n"), g.why);
    cudnn_graph_close(&g);
    return bytes;
}

/* The backward keeps a bf16 number of every score: it has no array that blocks add to. */
static void plans(void *device, const char *gpu, size_t shapes)
{
    static const struct cudnn_sdpa shape[] = {{1, 65, 2, 1, 64, 64, 1},
                                              {2, 200, 4, 4, 80, 80, 0},
                                              {2, 1024, 8, 2, 128, 128, 1},
                                              {8, 1024, 12, 12, 64, 64, 1}};
    static const struct cudnn_sdpa odd = {1, 128, 1, 1, 20, 20, 1};
    for (size_t k = 0; k < shapes && k < sizeof shape / sizeof *shape; k++) {
        const struct cudnn_sdpa *a = &shape[k];
        int64_t scores = a->samples * a->heads * a->tokens * a->tokens;
        check(workspace_of(device, a, FORWARD, gpu) >= 0, gpu, "no forward");
        check(workspace_of(device, a, BACKWARD, gpu) >= 2 * scores, gpu,
              "no backward, or one without scores in its workspace");
    }
    check(workspace_of(device, &odd, FORWARD, gpu) < 0, gpu, "heads of 20 channels");
}

int main(int argc, char **argv)
{
    size_t shapes = argc == 2 && !strcmp(argv[1], "all") ? SIZE_MAX : 1;
    static const struct cudnn_sdpa causal = {2, 64, 4, 2, 64, 64, 1},
                                   whole = {2, 64, 4, 4, 32, 32, 0};
    if (cudnn_library(&library) != STATUS_OK) {
        printf("skipped: %s\n", error_message());
        return SKIPPED;
    }
    printf("cuDNN %zu\n", library->version());
    takes_operations(&causal);
    takes_operations(&whole);
    refuses_wrong_ones();
    for (size_t k = 0; k < sizeof gpus / sizeof *gpus; k++) {
        void *device = device_of(&gpus[k]);
        if (!device) {
            char why[256] = "";
            library->last_error(why, sizeof why);
            printf("%s: plans for GPUs that are not there: %s\n", failures ? "FAILED" : "skipped",
                   why);
            return failures ? 1 : SKIPPED;
        }
        plans(device, gpus[k].name, shapes);
        library->release(device);
    }
    return failures ? 1 : 0;
}
