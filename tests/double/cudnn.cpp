/* libcudnn.so.9 where $DOUBLE_CUDNN is its version (91900: 9.19.0): descriptors whose attributes
 * are checked as cudnn_graph_v9.h documents them, and graphs that are computed an operation at a
 * time (cudnn_graph.cpp). What a program may not do, and what the double does not know, is
 * complained of. dlopen() and dlsym() are wrapped by the linker. $DOUBLE_FAULTS:
 * `no-cudnn-engines`: it has none for any graph; `no-cudnn-backward`: none for a backward;
 * `cudnn-error:N`: the N-th execution fails. */
#include "tests/double/cudnn.h"
#include "tests/double/double.h"
#include "tests/double/log.h"

#include <algorithm>
#include <stdlib.h>
#include <string.h>

using namespace dbl;

namespace
{

enum {
    SUCCESS = 0,
    NOT_INITIALIZED = 1001,
    BAD_PARAM = 2000,
    NOT_SUPPORTED = 3000,
    EXECUTION_FAILED = 5000
};

struct handle {
    cudaStream_t stream;
};

thread_local std::string last;

int refused(int status, const char *why)
{
    last = why;
    return status;
}

/* Attributes of each kind of descriptor: their type, and how many values of it at least and at
 * most. */
const struct rule {
    int kind, attribute, type;
    int64_t least, most;
    bool needed;
} rules[] = {
    {CUDNN_TENSOR, CUDNN_TENSOR_DATA, CUDNN_OF_DATA, 1, 1, true},
    {CUDNN_TENSOR, CUDNN_TENSOR_SIZES, CUDNN_OF_INT64, 4, 4, true},
    {CUDNN_TENSOR, CUDNN_TENSOR_STRIDES, CUDNN_OF_INT64, 4, 4, true},
    {CUDNN_TENSOR, CUDNN_TENSOR_ID, CUDNN_OF_INT64, 1, 1, true},
    {CUDNN_TENSOR, CUDNN_TENSOR_ALIGNMENT, CUDNN_OF_INT64, 1, 1, true},
    {CUDNN_TENSOR, CUDNN_TENSOR_IS_VIRTUAL, CUDNN_OF_BOOL, 1, 1, false},
    {CUDNN_TENSOR, CUDNN_TENSOR_IS_BY_VALUE, CUDNN_OF_BOOL, 1, 1, false},
    {CUDNN_POINTWISE, CUDNN_POINTWISE_MODE, CUDNN_OF_MODE, 1, 1, true},
    {CUDNN_POINTWISE, CUDNN_POINTWISE_PRECISION, CUDNN_OF_DATA, 1, 1, true},
    {CUDNN_POINTWISE, CUDNN_POINTWISE_AXIS, CUDNN_OF_INT64, 1, 1, false},
    {CUDNN_POINTWISE_OPERATION, CUDNN_POINTWISE_HOW, CUDNN_OF_DESCRIPTOR, 1, 1, true},
    {CUDNN_POINTWISE_OPERATION, CUDNN_POINTWISE_X, CUDNN_OF_DESCRIPTOR, 1, 1, true},
    {CUDNN_POINTWISE_OPERATION, CUDNN_POINTWISE_B, CUDNN_OF_DESCRIPTOR, 1, 1, false},
    {CUDNN_POINTWISE_OPERATION, CUDNN_POINTWISE_T, CUDNN_OF_DESCRIPTOR, 1, 1, false},
    {CUDNN_POINTWISE_OPERATION, CUDNN_POINTWISE_Y, CUDNN_OF_DESCRIPTOR, 1, 1, true},
    {CUDNN_MATMUL, CUDNN_MATMUL_PRECISION, CUDNN_OF_DATA, 1, 1, true},
    {CUDNN_MATMUL_OPERATION, CUDNN_MATMUL_HOW, CUDNN_OF_DESCRIPTOR, 1, 1, true},
    {CUDNN_MATMUL_OPERATION, CUDNN_MATMUL_A, CUDNN_OF_DESCRIPTOR, 1, 1, true},
    {CUDNN_MATMUL_OPERATION, CUDNN_MATMUL_B, CUDNN_OF_DESCRIPTOR, 1, 1, true},
    {CUDNN_MATMUL_OPERATION, CUDNN_MATMUL_C, CUDNN_OF_DESCRIPTOR, 1, 1, true},
    {CUDNN_REDUCTION, CUDNN_REDUCTION_WHAT, CUDNN_OF_REDUCTION, 1, 1, true},
    {CUDNN_REDUCTION, CUDNN_REDUCTION_PRECISION, CUDNN_OF_DATA, 1, 1, true},
    {CUDNN_REDUCTION_OPERATION, CUDNN_REDUCTION_HOW, CUDNN_OF_DESCRIPTOR, 1, 1, true},
    {CUDNN_REDUCTION_OPERATION, CUDNN_REDUCTION_X, CUDNN_OF_DESCRIPTOR, 1, 1, true},
    {CUDNN_REDUCTION_OPERATION, CUDNN_REDUCTION_Y, CUDNN_OF_DESCRIPTOR, 1, 1, true},
    {CUDNN_RESHAPE_OPERATION, CUDNN_RESHAPE_X, CUDNN_OF_DESCRIPTOR, 1, 1, true},
    {CUDNN_RESHAPE_OPERATION, CUDNN_RESHAPE_Y, CUDNN_OF_DESCRIPTOR, 1, 1, true},
    {CUDNN_GRAPH, CUDNN_GRAPH_OPERATIONS, CUDNN_OF_DESCRIPTOR, 1, 100, true},
    {CUDNN_GRAPH, CUDNN_GRAPH_HANDLE, CUDNN_OF_HANDLE, 1, 1, true},
    {CUDNN_HEURISTICS, CUDNN_HEURISTICS_GRAPH, CUDNN_OF_DESCRIPTOR, 1, 1, true},
    {CUDNN_HEURISTICS, CUDNN_HEURISTICS_MODE, CUDNN_OF_HEURISTICS, 1, 1, true},
    {CUDNN_PLAN, CUDNN_PLAN_HANDLE, CUDNN_OF_HANDLE, 1, 1, true},
    {CUDNN_PLAN, CUDNN_PLAN_CONFIGURATION, CUDNN_OF_DESCRIPTOR, 1, 1, true},
    {CUDNN_PACK, CUDNN_PACK_IDS, CUDNN_OF_INT64, 1, 100, true},
    {CUDNN_PACK, CUDNN_PACK_POINTERS, CUDNN_OF_POINTER, 1, 100, true},
    {CUDNN_PACK, CUDNN_PACK_WORKSPACE, CUDNN_OF_POINTER, 1, 1, true},
};

/* What a descriptor may be set to. */
int kind_of(int attribute)
{
    switch (attribute) {
    case CUDNN_POINTWISE_HOW:
        return CUDNN_POINTWISE;
    case CUDNN_MATMUL_HOW:
        return CUDNN_MATMUL;
    case CUDNN_REDUCTION_HOW:
        return CUDNN_REDUCTION;
    case CUDNN_HEURISTICS_GRAPH:
        return CUDNN_GRAPH;
    case CUDNN_PLAN_CONFIGURATION:
        return CUDNN_CONFIGURATION;
    case CUDNN_GRAPH_OPERATIONS:
        return -1; /* operations */
    default:
        return CUDNN_TENSOR;
    }
}

bool is_operation(int kind)
{
    return kind == CUDNN_POINTWISE_OPERATION || kind == CUDNN_MATMUL_OPERATION ||
           kind == CUDNN_REDUCTION_OPERATION || kind == CUDNN_RESHAPE_OPERATION;
}

size_t bytes_of(int type)
{
    switch (type) {
    case CUDNN_OF_BOOL:
        return 1;
    case CUDNN_OF_INT64:
    case CUDNN_OF_HANDLE:
    case CUDNN_OF_POINTER:
    case CUDNN_OF_DESCRIPTOR:
        return 8;
    default: /* enumerations */
        return sizeof(int);
    }
}

/* ---- finalize */

/* Backwards have reshapes. */
bool is_backward(const described *graph)
{
    for (const described *o : graph->all<described *>(CUDNN_GRAPH_OPERATIONS))
        if (o->kind == CUDNN_RESHAPE_OPERATION)
            return true;
    return false;
}

std::string fault_of_tensor(const described *t)
{
    placed p(t);
    if (p.data != CUDNN_FP32 && p.data != CUDNN_BF16 && p.data != CUDNN_INT32 &&
        p.data != CUDNN_BOOLEAN)
        return "a tensor of type " + std::to_string(p.data);
    for (size_t k = 0; k < 4; k++)
        if (p.size[k] < 1 || p.stride[k] < 1)
            return "a tensor of no size, or no stride";
    if (t->one<char>(CUDNN_TENSOR_IS_VIRTUAL) && t->one<char>(CUDNN_TENSOR_IS_BY_VALUE))
        return "a tensor that is nowhere, and the host's";
    return "";
}

/* Choices of an engine by mode: best first one that is not deterministic, one whose plan cannot be
 * made, one that will do; of the others one. */
enum { RANDOM = 0, FRAGILE = 1, GOOD = 2, CHOICES = 3 };

std::string fault_of(const described *d)
{
    if (d->kind == CUDNN_TENSOR)
        return fault_of_tensor(d);
    if (d->kind == CUDNN_GRAPH)
        return fault_of_graph(d);
    if (is_operation(d->kind))
        return fault_of_operation(d);
    if (d->kind == CUDNN_PACK &&
        d->all<int64_t>(CUDNN_PACK_IDS).size() != d->all<void *>(CUDNN_PACK_POINTERS).size())
        return "ids and pointers of different number";
    return "";
}

/* ---- execution */

struct task {
    const described *graph;
    std::map<int64_t, char *> data;
    std::map<int64_t, float> value; /* of the host, when it was queued */
    char *workspace;
    size_t workspace_bytes;
};

size_t workspace_of(const described *plan)
{
    size_t bytes = 256;
    for (auto &tensor : operands_of(plan->of))
        if (is_backward(plan->of) && tensor.second->one<int>(CUDNN_TENSOR_DATA) == CUDNN_FP32) {
            placed p(tensor.second); /* (samples, heads, tokens, 1): two bytes of every score */
            bytes = std::max(bytes, 256 + p.numbers() * (size_t)p.size[2] * 2);
        }
    return bytes;
}

/* Rows as they lie in memory. */
void touch_rows(op &o, const placed &t, const char *data, bool writes)
{
    bool turned = t.stride[3] != 1;
    int64_t width = t.size[turned ? 2 : 3], rows = t.size[turned ? 3 : 2],
            step = t.stride[turned ? 3 : 2];
    for (int64_t b = 0; b < t.size[0]; b++)
        for (int64_t h = 0; h < t.size[1]; h++)
            for (int64_t r = 0; r < rows; r++)
                touch(o, data + (size_t)(b * t.stride[0] + h * t.stride[1] + r * step) * t.bytes(),
                      (size_t)width * t.bytes(), writes);
}

void run_task(op &o, const task &t)
{
    std::map<int64_t, char *> data = t.data;
    for (auto &tensor : operands_of(t.graph))
        if (t.value.count(tensor.first))
            data[tensor.first] = (char *)(uintptr_t)&t.value.at(tensor.first);
        else
            touch_rows(o, placed(tensor.second), data[tensor.first],
                       writes(t.graph, tensor.second));
    touch(o, t.workspace, t.workspace_bytes, true);
    memory_open(may_touch(o.on->gpu));
    memset(t.workspace, 0xff, t.workspace_bytes);
    compute(t.graph, data);
}

/* The operands of this call; "": they are those of the graph. */
std::string gather(const described *plan, const described *pack, task &t)
{
    auto ids = pack->all<int64_t>(CUDNN_PACK_IDS);
    auto pointers = pack->all<char *>(CUDNN_PACK_POINTERS);
    auto wanted = operands_of(plan->of);
    t.graph = plan->of;
    t.workspace = pack->one<char *>(CUDNN_PACK_WORKSPACE);
    t.workspace_bytes = workspace_of(plan);
    for (size_t k = 0; k < ids.size(); k++) {
        if (!wanted.count(ids[k]) || t.data.count(ids[k]))
            return "operand " + std::to_string(ids[k]) + ", which the graph has not, or twice";
        const described *tensor = wanted[ids[k]];
        t.data[ids[k]] = pointers[k];
        if (tensor->one<char>(CUDNN_TENSOR_IS_BY_VALUE))
            memcpy(&t.value[ids[k]], pointers[k], sizeof(float));
        else if ((uintptr_t)pointers[k] % (size_t)tensor->one<int64_t>(CUDNN_TENSOR_ALIGNMENT) != 0)
            return "operand " + std::to_string(ids[k]) + " is not aligned as its tensor says";
        else if (!is_live(pointers[k], placed(tensor).span()))
            return "operand " + std::to_string(ids[k]) + " is no memory of a GPU";
    }
    if (t.data.size() != wanted.size())
        return "not all operands of the graph";
    return is_live(t.workspace, t.workspace_bytes) ? "" : "no workspace, or too small a one";
}

} // namespace

/* ---- the library's functions */

static size_t get_version()
{
    return (size_t)atol(getenv("DOUBLE_CUDNN"));
}

static const char *error_string(int status)
{
    return status == NOT_SUPPORTED      ? "CUDNN_STATUS_NOT_SUPPORTED"
           : status == EXECUTION_FAILED ? "CUDNN_STATUS_EXECUTION_FAILED"
           : status == SUCCESS          ? "CUDNN_STATUS_SUCCESS"
                                        : "CUDNN_STATUS_BAD_PARAM";
}

static void last_error(char *text, size_t bytes)
{
    strncpy(text, last.c_str(), bytes);
}

static int create(void **out)
{
    if (gpu_count() == 0)
        return refused(NOT_INITIALIZED, "no GPU");
    *out = new handle{NULL};
    return SUCCESS;
}

static int destroy(void *which)
{
    device_wait("cudnnDestroy()");
    delete (handle *)which;
    return SUCCESS;
}

static int set_stream(void *which, void *stream)
{
    ((handle *)which)->stream = (cudaStream_t)stream;
    return SUCCESS;
}

static int create_descriptor(int kind, void **out)
{
    bool known = kind == CUDNN_CONFIGURATION || kind == CUDNN_ENGINE;
    for (const rule &r : rules)
        known = known || r.kind == kind;
    if (!known)
        complain("cudnnBackendCreateDescriptor(%d): the double does not know it", kind);
    *out = new described{kind, false, {}, 0, nullptr};
    return SUCCESS;
}

static int destroy_descriptor(void *d)
{
    delete (described *)d;
    return SUCCESS;
}

static int set_attribute(void *to, int attribute, int type, int64_t n, const void *values)
{
    described *d = (described *)to;
    const rule *found = NULL;
    for (const rule &r : rules)
        if (r.kind == d->kind && r.attribute == attribute)
            found = &r;
    if (!found)
        complain("cudnnBackendSetAttribute(): attribute %d of a descriptor of kind %d", attribute,
                 d->kind);
    else if (found->type != type || n < found->least || n > found->most || !values)
        complain("cudnnBackendSetAttribute(): attribute %d is %ld of type %d, not %ld of type %d",
                 attribute, (long)found->least, found->type, (long)n, type);
    if (d->is_final)
        complain("cudnnBackendSetAttribute(): attribute %d of what has been finalized", attribute);
    const char *data = (const char *)values;
    d->attribute[attribute].assign(data, data + (size_t)n * bytes_of(type));
    for (const described *other : type == CUDNN_OF_DESCRIPTOR ? d->all<described *>(attribute)
                                                              : std::vector<described *>()) {
        int wanted = kind_of(attribute);
        if (wanted < 0 ? !is_operation(other->kind) : other->kind != wanted)
            complain("cudnnBackendSetAttribute(): attribute %d is a descriptor of kind %d",
                     attribute, other->kind);
        if (!other->is_final)
            complain("cudnnBackendSetAttribute(): attribute %d is not finalized", attribute);
    }
    return SUCCESS;
}

static int finalize(void *which)
{
    described *d = (described *)which;
    for (const rule &r : rules)
        if (r.kind == d->kind && r.needed && !d->attribute.count(r.attribute))
            complain("cudnnBackendFinalize(): attribute %d is missing", r.attribute);
    std::string fault = fault_of(d);
    if (!fault.empty())
        complain("cudnnBackendFinalize(): %s", fault.c_str());
    if (d->kind == CUDNN_HEURISTICS) {
        d->of = d->to(CUDNN_HEURISTICS_GRAPH);
        if (has_fault("no-cudnn-engines") || (has_fault("no-cudnn-backward") && is_backward(d->of)))
            return refused(NOT_SUPPORTED, "the double has no engine for it");
    }
    if (d->kind == CUDNN_PLAN) {
        const described *configuration = d->to(CUDNN_PLAN_CONFIGURATION);
        d->of = configuration->of;
        d->choice = configuration->choice;
        if (d->choice == FRAGILE)
            return refused(NOT_SUPPORTED, "the double's second engine makes no plans");
    }
    d->is_final = true;
    return SUCCESS;
}

static int get_attribute(void *from, int attribute, int type, int64_t room, int64_t *n,
                         void *values)
{
    described *d = (described *)from, **made = (described **)values;
    if (!d->is_final)
        complain("cudnnBackendGetAttribute(): of what is not finalized");
    if (d->kind == CUDNN_HEURISTICS && attribute == CUDNN_HEURISTICS_RESULTS &&
        type == CUDNN_OF_DESCRIPTOR) {
        *n = d->one<int>(CUDNN_HEURISTICS_MODE) == CUDNN_HEURISTICS_BEST ? CHOICES : 1;
        for (int64_t k = 0; k < *n && k < room; k++) {
            if (made[k]->kind != CUDNN_CONFIGURATION)
                complain("cudnnBackendGetAttribute(): engines want configurations to be put into");
            *made[k] = described{CUDNN_CONFIGURATION, true, {}, (size_t)k, d->of};
        }
    } else if (d->kind == CUDNN_CONFIGURATION && attribute == CUDNN_CONFIGURATION_ENGINE &&
               type == CUDNN_OF_DESCRIPTOR && room == 1 && (*made)->kind == CUDNN_ENGINE) {
        **made = described{CUDNN_ENGINE, true, {}, d->choice, d->of};
        *n = 1;
    } else if (d->kind == CUDNN_ENGINE && attribute == CUDNN_ENGINE_NUMERICAL_NOTES &&
               type == CUDNN_OF_NUMERICAL_NOTE) {
        const int notes[] = {0, CUDNN_IS_NOT_DETERMINISTIC}; /* 0: tensor cores */
        *n = d->choice == RANDOM ? 2 : 1;
        memcpy(values, notes, (size_t)std::min(*n, room) * sizeof *notes);
    } else if (d->kind == CUDNN_PLAN && attribute == CUDNN_PLAN_WORKSPACE && room == 1 &&
               type == CUDNN_OF_INT64) {
        *(int64_t *)values = (int64_t)workspace_of(d);
        *n = 1;
    } else {
        complain("cudnnBackendGetAttribute(): attribute %d of type %d of kind %d", attribute, type,
                 d->kind);
        return BAD_PARAM;
    }
    return SUCCESS;
}

static int execute(void *on, void *plan_, void *pack_)
{
    const described *plan = (const described *)plan_, *pack = (const described *)pack_;
    auto *t = new task;
    if (!plan->is_final || !pack->is_final)
        complain("cudnnBackendExecute(): of what is not finalized");
    if (plan->choice == RANDOM)
        complain("cudnnBackendExecute(): by an engine that is not deterministic");
    std::string fault = gather(plan, pack, *t);
    if (!fault.empty())
        complain("cudnnBackendExecute(): %s", fault.c_str());
    stream *s = stream_of(((handle *)on)->stream);
    if (check_capture(s) != cudaSuccess || strikes("cudnn-error"))
        return refused(EXECUTION_FAILED, "the double's cuDNN fails");
    const char *name = is_backward(plan->of) ? "cudnn_backward" : "cudnn_forward";
    count_kernel(name);
    count_load(name + std::to_string((uintptr_t)plan));
    std::shared_ptr<task> shared(t);
    put(s, name, [shared](op &o) {
        if (!computes_nothing())
            run_task(o, *shared);
        return true;
    });
    return sticky() ? EXECUTION_FAILED : SUCCESS;
}

/* ---- where dlopen() finds it */

extern "C" {
void *__real_dlopen(const char *name, int flags);
void *__real_dlsym(void *handle, const char *name);
int __real_dlclose(void *handle);
void *__wrap_dlopen(const char *name, int flags);
void *__wrap_dlsym(void *handle, const char *name);
int __wrap_dlclose(void *handle);
}

static char here; /* its handle */

void *__wrap_dlopen(const char *name, int flags)
{
    if (!name || strcmp(name, "libcudnn.so.9") != 0)
        return __real_dlopen(name, flags);
    const char *version = getenv("DOUBLE_CUDNN");
    return version && *version ? &here : NULL;
}

void *__wrap_dlsym(void *handle, const char *name)
{
    static const struct {
        const char *name;
        void *function;
    } functions[] = {{"cudnnGetVersion", (void *)get_version},
                     {"cudnnGetErrorString", (void *)error_string},
                     {"cudnnGetLastErrorString", (void *)last_error},
                     {"cudnnCreate", (void *)create},
                     {"cudnnDestroy", (void *)destroy},
                     {"cudnnSetStream", (void *)set_stream},
                     {"cudnnBackendCreateDescriptor", (void *)create_descriptor},
                     {"cudnnBackendDestroyDescriptor", (void *)destroy_descriptor},
                     {"cudnnBackendFinalize", (void *)finalize},
                     {"cudnnBackendSetAttribute", (void *)set_attribute},
                     {"cudnnBackendGetAttribute", (void *)get_attribute},
                     {"cudnnBackendExecute", (void *)execute}};
    if (handle != &here)
        return __real_dlsym(handle, name);
    for (const auto &f : functions)
        if (!strcmp(f.name, name))
            return f.function;
    return NULL;
}

int __wrap_dlclose(void *handle)
{
    return handle == &here ? 0 : __real_dlclose(handle);
}
