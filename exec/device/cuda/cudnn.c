#include "exec/device/cuda/cudnn.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* ---- the library */

static struct cudnn library;
static char missing[CUDNN_REASON]; /* "": it is there */

static const struct {
    const char *name;
    size_t at;
} functions[] = {{"cudnnGetVersion", offsetof(struct cudnn, version)},
                 {"cudnnGetErrorString", offsetof(struct cudnn, error_string)},
                 {"cudnnGetLastErrorString", offsetof(struct cudnn, last_error)},
                 {"cudnnCreate", offsetof(struct cudnn, create)},
                 {"cudnnDestroy", offsetof(struct cudnn, destroy)},
                 {"cudnnSetStream", offsetof(struct cudnn, set_stream)},
                 {"cudnnBackendCreateDescriptor", offsetof(struct cudnn, descriptor)},
                 {"cudnnBackendDestroyDescriptor", offsetof(struct cudnn, release)},
                 {"cudnnBackendFinalize", offsetof(struct cudnn, finalize)},
                 {"cudnnBackendSetAttribute", offsetof(struct cudnn, set)},
                 {"cudnnBackendGetAttribute", offsetof(struct cudnn, get)},
                 {"cudnnBackendExecute", offsetof(struct cudnn, execute)}};

static void cudnn_load_library(void)
{
    void *handle = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        snprintf(missing, sizeof missing, "libcudnn.so.9 is not found");
        return;
    }
    for (size_t k = 0; k < sizeof functions / sizeof *functions; k++) {
        void *object = dlsym(handle, functions[k].name);
        if (!object && !*missing)
            snprintf(missing, sizeof missing, "libcudnn.so.9 lacks %s()", functions[k].name);
        memcpy((char *)&library + functions[k].at, &object, sizeof object);
    }
    size_t version = *missing ? 0 : library.version();
    if (!*missing && version < CUDNN_OLDEST)
        snprintf(missing, sizeof missing, "cuDNN %zu.%zu.%zu is too old: install 9.10.2 or newer",
                 version / 10000, version / 100 % 100, version % 100);
    if (*missing)
        dlclose(handle);
}

enum status cudnn_library(const struct cudnn **out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (pthread_once(&once, cudnn_load_library) != 0 || *missing)
        return error_set(STATUS_UNSUPPORTED, "%s", missing);
    *out = &library;
    return STATUS_OK;
}

/* ---- descriptors */

/* Keeps why, the first time; false. */
static bool cudnn_refuse(struct cudnn_graph *g, int status, const char *what)
{
    char text[CUDNN_REASON] = "";
    if (*g->why)
        return false;
    g->library->last_error(text, sizeof text);
    text[sizeof text - 1] = '\0';
    snprintf(g->why, sizeof g->why, "%s: %s%s%.120s", what, g->library->error_string(status),
             *text ? ": " : "", text);
    return false;
}

static bool good(const struct cudnn_graph *g)
{
    return !*g->why;
}

static void *cudnn_make_descriptor(struct cudnn_graph *g, enum cudnn_kind kind)
{
    void *d = NULL;
    if (!good(g))
        return NULL;
    if (g->made == CUDNN_MOST_DESCRIPTORS) {
        snprintf(g->why, sizeof g->why, "more than %d descriptors", CUDNN_MOST_DESCRIPTORS);
        return NULL;
    }
    int status = g->library->descriptor((int)kind, &d);
    if (status != 0)
        return cudnn_refuse(g, status, "a descriptor"), NULL;
    return g->descriptor[g->made++] = d;
}

static void cudnn_set_attribute(struct cudnn_graph *g, void *d, enum cudnn_attribute a,
                                enum cudnn_type type, size_t n, const void *values)
{
    if (!good(g))
        return;
    int status = g->library->set(d, (int)a, (int)type, (int64_t)n, values);
    char what[64];
    snprintf(what, sizeof what, "attribute %d", (int)a);
    if (status != 0)
        cudnn_refuse(g, status, what);
}

static void set_int(struct cudnn_graph *g, void *d, enum cudnn_attribute a, int64_t value)
{
    cudnn_set_attribute(g, d, a, CUDNN_OF_INT64, 1, &value);
}

static void set_bool(struct cudnn_graph *g, void *d, enum cudnn_attribute a, bool value)
{
    cudnn_set_attribute(g, d, a, CUDNN_OF_BOOL, 1, &value);
}

/* Of C's enumerations, which are ints there. */
static void set_enum(struct cudnn_graph *g, void *d, enum cudnn_attribute a, enum cudnn_type type,
                     int value)
{
    cudnn_set_attribute(g, d, a, type, 1, &value);
}

static void set_descriptor(struct cudnn_graph *g, void *d, enum cudnn_attribute a, void *value)
{
    if (value)
        cudnn_set_attribute(g, d, a, CUDNN_OF_DESCRIPTOR, 1, &value);
}

static bool finalize(struct cudnn_graph *g, void *d, const char *what)
{
    int status = good(g) ? g->library->finalize(d) : 0;
    return status == 0 ? good(g) : cudnn_refuse(g, status, what);
}

/* ---- tensors and operations */

void *cudnn_tensor(struct cudnn_graph *g, int64_t id, enum cudnn_data data,
                   const struct cudnn_shape *shape)
{
    enum { NOWHERE = 1000 }; /* ids of tensors that nobody calls by theirs */
    void *d = cudnn_make_descriptor(g, CUDNN_TENSOR);
    int64_t own = id != 0 ? (id < 0 ? -id : id) : NOWHERE + g->tensors++;
    set_enum(g, d, CUDNN_TENSOR_DATA, CUDNN_OF_DATA, (int)data);
    cudnn_set_attribute(g, d, CUDNN_TENSOR_SIZES, CUDNN_OF_INT64, 4, shape->size);
    cudnn_set_attribute(g, d, CUDNN_TENSOR_STRIDES, CUDNN_OF_INT64, 4, shape->stride);
    set_int(g, d, CUDNN_TENSOR_ID, own);
    set_int(g, d, CUDNN_TENSOR_ALIGNMENT, 16);
    set_bool(g, d, CUDNN_TENSOR_IS_VIRTUAL, id == 0);
    set_bool(g, d, CUDNN_TENSOR_IS_BY_VALUE, id < 0);
    finalize(g, d, "a tensor");
    return d;
}

static void operate(struct cudnn_graph *g, void *operation, const char *what)
{
    if (!finalize(g, operation, what))
        return;
    if (g->operations < CUDNN_MOST_OPERATIONS)
        g->operation[g->operations++] = operation;
    else
        snprintf(g->why, sizeof g->why, "more than %d operations", CUDNN_MOST_OPERATIONS);
}

void cudnn_pointwise(struct cudnn_graph *g, const struct cudnn_pointwise *p, void *y)
{
    void *how = cudnn_make_descriptor(g, CUDNN_POINTWISE);
    set_enum(g, how, CUDNN_POINTWISE_MODE, CUDNN_OF_MODE, (int)p->mode);
    set_enum(g, how, CUDNN_POINTWISE_PRECISION, CUDNN_OF_DATA, (int)p->precision);
    if (p->mode == CUDNN_INDEX)
        set_int(g, how, CUDNN_POINTWISE_AXIS, p->axis);
    finalize(g, how, "a pointwise mode");
    void *d = cudnn_make_descriptor(g, CUDNN_POINTWISE_OPERATION);
    set_descriptor(g, d, CUDNN_POINTWISE_HOW, how);
    set_descriptor(g, d, CUDNN_POINTWISE_X, p->x);
    set_descriptor(g, d, CUDNN_POINTWISE_B, p->b);
    set_descriptor(g, d, CUDNN_POINTWISE_T, p->t);
    set_descriptor(g, d, CUDNN_POINTWISE_Y, y);
    operate(g, d, "a pointwise operation");
}

void cudnn_matmul(struct cudnn_graph *g, void *a, void *b, void *c)
{
    void *how = cudnn_make_descriptor(g, CUDNN_MATMUL);
    set_enum(g, how, CUDNN_MATMUL_PRECISION, CUDNN_OF_DATA, CUDNN_FP32);
    finalize(g, how, "a product's precision");
    void *d = cudnn_make_descriptor(g, CUDNN_MATMUL_OPERATION);
    set_descriptor(g, d, CUDNN_MATMUL_HOW, how);
    set_descriptor(g, d, CUDNN_MATMUL_A, a);
    set_descriptor(g, d, CUDNN_MATMUL_B, b);
    set_descriptor(g, d, CUDNN_MATMUL_C, c);
    operate(g, d, "a product");
}

void cudnn_reduce(struct cudnn_graph *g, enum cudnn_reduction what, void *x, void *y)
{
    void *how = cudnn_make_descriptor(g, CUDNN_REDUCTION);
    set_enum(g, how, CUDNN_REDUCTION_WHAT, CUDNN_OF_REDUCTION, (int)what);
    set_enum(g, how, CUDNN_REDUCTION_PRECISION, CUDNN_OF_DATA, CUDNN_FP32);
    finalize(g, how, "a reduction's mode");
    void *d = cudnn_make_descriptor(g, CUDNN_REDUCTION_OPERATION);
    set_descriptor(g, d, CUDNN_REDUCTION_HOW, how);
    set_descriptor(g, d, CUDNN_REDUCTION_X, x);
    set_descriptor(g, d, CUDNN_REDUCTION_Y, y);
    operate(g, d, "a reduction");
}

void cudnn_reshape(struct cudnn_graph *g, void *x, void *y)
{
    void *d = cudnn_make_descriptor(g, CUDNN_RESHAPE_OPERATION);
    set_descriptor(g, d, CUDNN_RESHAPE_X, x);
    set_descriptor(g, d, CUDNN_RESHAPE_Y, y);
    operate(g, d, "a reshape");
}

/* ---- plans */

enum { MOST_CHOICES = 16 };

/* cuDNN's choices, best first. 0: it has none, or does not say. */
static int64_t choices_of(struct cudnn_graph *g, void *graph, int mode, void **choice)
{
    int64_t n = 0;
    void *heuristics = cudnn_make_descriptor(g, CUDNN_HEURISTICS);
    set_descriptor(g, heuristics, CUDNN_HEURISTICS_GRAPH, graph);
    set_enum(g, heuristics, CUDNN_HEURISTICS_MODE, CUDNN_OF_HEURISTICS, mode);
    set_descriptor(g, heuristics, CUDNN_HEURISTICS_DEVICE, g->device);
    for (size_t k = 0; k < MOST_CHOICES; k++)
        choice[k] = cudnn_make_descriptor(g, CUDNN_CONFIGURATION);
    if (!good(g) || g->library->finalize(heuristics) != 0 ||
        g->library->get(heuristics, CUDNN_HEURISTICS_RESULTS, CUDNN_OF_DESCRIPTOR, MOST_CHOICES, &n,
                        choice) != 0)
        return 0;
    return n < MOST_CHOICES ? n : MOST_CHOICES;
}

/* Does its engine say that the same call may give other bits? What does not answer may as well. */
static bool is_random(struct cudnn_graph *g, void *choice)
{
    int note[CUDNN_NUMERICAL_NOTES];
    int64_t n = 0;
    void *engine = cudnn_make_descriptor(g, CUDNN_ENGINE);
    if (!engine ||
        g->library->get(choice, CUDNN_CONFIGURATION_ENGINE, CUDNN_OF_DESCRIPTOR, 1, &n, &engine) !=
            0 ||
        g->library->get(engine, CUDNN_ENGINE_NUMERICAL_NOTES, CUDNN_OF_NUMERICAL_NOTE,
                        CUDNN_NUMERICAL_NOTES, &n, note) != 0)
        return true;
    for (int64_t k = 0; k < n && k < CUDNN_NUMERICAL_NOTES; k++)
        if (note[k] == CUDNN_IS_NOT_DETERMINISTIC)
            return true;
    return false;
}

/* NULL: it cannot be made; the graph is as good as before. */
static void *plan_of(struct cudnn_graph *g, void *choice, int64_t *workspace)
{
    int64_t n = 0;
    void *plan = cudnn_make_descriptor(g, CUDNN_PLAN);
    if (g->handle)
        cudnn_set_attribute(g, plan, CUDNN_PLAN_HANDLE, CUDNN_OF_HANDLE, 1, &g->handle);
    set_descriptor(g, plan, CUDNN_PLAN_DEVICE, g->device);
    set_descriptor(g, plan, CUDNN_PLAN_CONFIGURATION, choice);
    if (!good(g) || g->library->finalize(plan) != 0 ||
        g->library->get(plan, CUDNN_PLAN_WORKSPACE, CUDNN_OF_INT64, 1, &n, workspace) != 0)
        return NULL;
    return plan;
}

void *cudnn_graph_plan(struct cudnn_graph *g, int64_t *workspace)
{
    static const int modes[] = {CUDNN_HEURISTICS_BEST, CUDNN_HEURISTICS_FALLBACK};
    void *choice[MOST_CHOICES], *graph = cudnn_make_descriptor(g, CUDNN_GRAPH);
    size_t random = 0;
    cudnn_set_attribute(g, graph, CUDNN_GRAPH_OPERATIONS, CUDNN_OF_DESCRIPTOR, g->operations,
                        g->operation);
    if (g->handle)
        cudnn_set_attribute(g, graph, CUDNN_GRAPH_HANDLE, CUDNN_OF_HANDLE, 1, &g->handle);
    finalize(g, graph, "the graph");
    for (size_t m = 0; m < 2 && good(g); m++) {
        int64_t n = choices_of(g, graph, modes[m], choice);
        for (int64_t k = 0; k < n && good(g); k++) {
            if (is_random(g, choice[k])) {
                random++;
                continue;
            }
            void *plan = plan_of(g, choice[k], workspace);
            if (plan)
                return plan;
        }
    }
    char text[CUDNN_REASON] = "";
    g->library->last_error(text, sizeof text);
    if (good(g))
        snprintf(g->why, sizeof g->why,
                 random > 0 ? "no engine that is deterministic" : "no engine: %.200s", text);
    return NULL;
}

int cudnn_run(const struct cudnn_graph *g, void *plan, const struct cudnn_operands *o)
{
    const struct cudnn *l = g->library;
    void *pack = NULL;
    int status = l->descriptor(CUDNN_PACK, &pack);
    if (status != 0)
        return status;
    status = l->set(pack, CUDNN_PACK_IDS, CUDNN_OF_INT64, (int64_t)o->n, o->id);
    if (status == 0)
        status = l->set(pack, CUDNN_PACK_POINTERS, CUDNN_OF_POINTER, (int64_t)o->n, o->data);
    if (status == 0)
        status = l->set(pack, CUDNN_PACK_WORKSPACE, CUDNN_OF_POINTER, 1, &o->workspace);
    if (status == 0)
        status = l->finalize(pack);
    if (status == 0)
        status = l->execute(g->handle, plan, pack);
    l->release(pack);
    return status;
}

void cudnn_graph_close(struct cudnn_graph *g)
{
    while (g->made > 0)
        g->library->release(g->descriptor[--g->made]);
    *g = (struct cudnn_graph){0};
}
