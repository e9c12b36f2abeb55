#include "exec/device/cuda/attention_cudnn.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "exec/device/cuda/cudnn_sdpa.h"
#include "exec/device/cuda/queue.h"

struct cudnn_answer {
    struct cudnn_sdpa shape;
    bool refused;
    struct cudnn_graph forward, backward;
    void *forward_plan, *backward_plan; /* theirs */
    size_t delta;                       /* bytes before SDPA_DELTA in the workspace */
};

struct cuda_cudnn {
    const struct cudnn *library;
    void *handle;
    size_t answers, taken;
    struct cudnn_answer *answer; /* [answers] */
    void *workspace; /* of all plans, and what is between theirs: one is run at a time */
    int64_t bytes;
    /* Of the first shape that it has refused, and of the first that it was not asked for; "": there
     * is none. */
    char refusal[CUDNN_REASON];
    const char *hindrance;
    char remark[CUDNN_REASON + 128];
};

enum { WIDEST = 256, ALIGNED = 16 };

static enum status cudnn_attention_failed(const struct cudnn *l, int status, const char *what)
{
    if (status == 0)
        return STATUS_OK;
    return error_set(STATUS_EXTERNAL, "cuDNN: %s: %s", what, l->error_string(status));
}

static void write_remark(struct cuda_cudnn *n)
{
    size_t v = n->library->version();
    const char *why = *n->refusal ? n->refusal : n->hindrance;
    snprintf(n->remark, sizeof n->remark, "cuDNN %zu.%zu.%zu: %zu shape%s of attention%s%s",
             v / 10000, v / 100 % 100, v % 100, n->taken, n->taken == 1 ? "" : "s",
             *why ? "; not all: " : "", why);
}

enum status cuda_cudnn_open(struct cuda_context *c)
{
    enum status st;
    struct cuda_cudnn *n;
    TRY(ARRAY_NEW(n, 1));
    c->cudnn = n;
    n->hindrance = "";
    TRY(cudnn_library(&n->library));
    TRY(cudnn_attention_failed(n->library, n->library->create(&n->handle), "start"));
    TRY(cudnn_attention_failed(n->library, n->library->set_stream(n->handle, CUDA_STREAM),
                               "its stream"));
    write_remark(n);
out:
    if (st != STATUS_OK)
        cuda_cudnn_close(c);
    return st;
}

void cuda_cudnn_close(struct cuda_context *c)
{
    struct cuda_cudnn *n = c->cudnn;
    c->cudnn = NULL;
    for (size_t k = 0; n && k < n->answers; k++) {
        cudnn_graph_close(&n->answer[k].forward);
        cudnn_graph_close(&n->answer[k].backward);
    }
    if (n && n->workspace)
        cudaFree(n->workspace);
    if (n && n->handle)
        n->library->destroy(n->handle);
    if (n)
        free(n->answer);
    free(n);
}

const char *cuda_cudnn_remark(const struct cuda_context *c, size_t *shapes)
{
    *shapes = c->cudnn ? c->cudnn->taken : 0;
    return c->cudnn ? c->cudnn->remark : "";
}

/* ---- what it is asked for */

/* Why it is not asked; NULL: it is. */
static const char *cudnn_attention_hindrance(const struct cuda_cudnn *n,
                                             const struct kernel_attention *a)
{
    enum { ANY_LENGTH = 91600 }; /* its backward wanted masks before, says cudnn-frontend */
    if (a->type != KERNEL_BF16 || !a->tensor_cores)
        return "only bf16 on tensor cores";
    if (a->window > 0 || a->sink)
        return "no windows, no sinks";
    if (a->depth % 8 != 0 || a->value % 8 != 0 || a->depth > WIDEST || a->value > WIDEST)
        return "heads of a multiple of 8 channels, up to 256";
    if (a->tokens < 2) /* a limit of its backward, says its release 9.18.1 */
        return "not of one token";
    if (a->tokens % 128 != 0 && n->library->version() < ANY_LENGTH)
        return "before 9.16 lengths that are multiples of 128";
    if ((uintptr_t)a->x % ALIGNED != 0 || (uintptr_t)a->saved % ALIGNED != 0)
        return "rows at multiples of 16 bytes";
    return NULL;
}

static bool cudnn_attention_refuse(struct cuda_cudnn *n, const char *why)
{
    if (!*n->refusal)
        snprintf(n->refusal, sizeof n->refusal, "%.*s", (int)strcspn(why, "\n"), why);
    return false;
}

static struct cudnn_sdpa cudnn_attention_shape(const struct kernel_attention *a)
{
    return (struct cudnn_sdpa){.samples = (int64_t)a->samples,
                               .tokens = (int64_t)a->tokens,
                               .heads = (int64_t)a->heads,
                               .kv_heads = (int64_t)a->kv_heads,
                               .depth = (int64_t)a->depth,
                               .value = (int64_t)a->value,
                               .causal = a->causal != 0};
}

/* Room for what a plan wants beside its operands. Where there is none, plans made before keep
 * theirs. */
static bool make_room(struct cuda_context *c, int64_t bytes)
{
    struct cuda_cudnn *n = c->cudnn;
    void *larger;
    if (bytes <= n->bytes)
        return true;
    if (cudaMalloc(&larger, (size_t)bytes) != cudaSuccess) {
        (void)cudaGetLastError();
        return false;
    }
    if (n->workspace)
        cudaFree(n->workspace); /* waits for the GPU */
    c->bytes += bytes - n->bytes;
    n->bytes = bytes;
    n->workspace = larger;
    return true;
}

/* Both plans, or none. */
static bool cudnn_attention_plan(struct cuda_context *c, struct cudnn_answer *a)
{
    struct cuda_cudnn *n = c->cudnn;
    int64_t forward = 0, backward = 0;
    a->forward = a->backward = (struct cudnn_graph){.library = n->library, .handle = n->handle};
    cudnn_sdpa_forward(&a->forward, &a->shape);
    cudnn_sdpa_backward(&a->backward, &a->shape);
    a->forward_plan = cudnn_graph_plan(&a->forward, &forward);
    if (!a->forward_plan)
        return cudnn_attention_refuse(n, a->forward.why);
    a->backward_plan = cudnn_graph_plan(&a->backward, &backward);
    if (!a->backward_plan)
        return cudnn_attention_refuse(n, a->backward.why);
    a->delta = ((size_t)backward + 255) / 256 * 256;
    backward = (int64_t)(a->delta + (size_t)(a->shape.samples * a->shape.heads * a->shape.tokens) *
                                        sizeof(float));
    return make_room(c, forward > backward ? forward : backward) ||
           cudnn_attention_refuse(n, "no GPU memory for cuDNN's workspace");
}

/* Asked before, or now; NULL: it does not take it. */
static const struct cudnn_answer *answer_of(struct cuda_context *c,
                                            const struct kernel_attention *k)
{
    struct cuda_cudnn *n = c->cudnn;
    const char *why = n ? cudnn_attention_hindrance(n, k) : NULL;
    if (why && !*n->hindrance) {
        n->hindrance = why;
        write_remark(n);
    }
    if (!n || why)
        return NULL;
    const struct cudnn_sdpa shape = cudnn_attention_shape(k);
    for (size_t i = 0; i < n->answers; i++)
        if (memcmp(&n->answer[i].shape, &shape, sizeof shape) == 0)
            return n->answer[i].refused ? NULL : &n->answer[i];
    if (ARRAY_ROOM(n->answer, n->answers) != STATUS_OK)
        return NULL;
    struct cudnn_answer *a = &n->answer[n->answers++];
    *a = (struct cudnn_answer){.shape = shape};
    a->refused = !cudnn_attention_plan(c, a);
    n->taken += !a->refused;
    write_remark(n);
    return a->refused ? NULL : a;
}

bool cuda_cudnn_takes(struct cuda_context *c, const struct kernel_attention *a)
{
    return answer_of(c, a) != NULL;
}

/* ---- what it computes */

static void cudnn_attention_put(struct cudnn_operands *o, enum cudnn_sdpa_id id, const void *data)
{
    o->id[o->n] = (int64_t)id;
    o->data[o->n++] = (void *)(uintptr_t)data; /* cuDNN knows which it writes */
}

/* q | k | v, or their gradients. */
static void cudnn_attention_put_rows(struct cudnn_operands *o, enum cudnn_sdpa_id first,
                                     const struct kernel_attention *a, const void *x)
{
    const uint16_t *row = x, *keys = row + a->heads * a->depth;
    cudnn_attention_put(o, first, row);
    cudnn_attention_put(o, first + 1, keys);
    cudnn_attention_put(o, first + 2, keys + a->kv_heads * a->depth);
}

/* Queued, unless the pass only notes what it would (queue.h). */
static void cudnn_attention_run(struct cuda_context *c, const struct cudnn_answer *found, bool back,
                                struct cudnn_operands *o, const struct kernel_attention *a)
{
    static const float masked = -INFINITY, one = 1;
    const char *what = back ? "attention backward by cuDNN" : "attention by cuDNN";
    enum { SIZES = sizeof found->shape / sizeof(int64_t) };
    uint64_t noted[CUDNN_MOST_OPERANDS + SIZES];
    memcpy(noted, &found->shape, sizeof found->shape);
    for (size_t k = 0; k < o->n; k++)
        noted[SIZES + k] = (uint64_t)(uintptr_t)o->data[k];
    if (!cuda_queues(what, noted, SIZES + o->n))
        return;
    cudnn_attention_put(o, SDPA_SCALE, &a->scale);
    if (a->causal)
        cudnn_attention_put(o, SDPA_MASKED, &masked);
    if (back)
        cudnn_attention_put(o, SDPA_ONE, &one);
    o->workspace = c->cudnn->workspace;
    int status = back ? cudnn_run(&found->backward, found->backward_plan, o)
                      : cudnn_run(&found->forward, found->forward_plan, o);
    cuda_keep(c, cudnn_attention_failed(c->cudnn->library, status, what));
}

/* What both passes have, where cuDNN takes the shape; NULL: it does not. */
static const struct cudnn_answer *cudnn_attention_operands(struct cuda_context *c,
                                                           const struct kernel_attention *a,
                                                           const void *y, struct cudnn_operands *o)
{
    const struct cudnn_answer *found = answer_of(c, a);
    if (!found)
        return NULL;
    cudnn_attention_put_rows(o, SDPA_Q, a, a->x);
    cudnn_attention_put(o, SDPA_Y, y);
    cudnn_attention_put(o, SDPA_LSE, a->saved);
    return found;
}

bool cuda_cudnn_forward(struct cuda_context *c, const struct kernel_attention *a, void *y)
{
    struct cudnn_operands o = {0};
    const struct cudnn_answer *found = cudnn_attention_operands(c, a, y, &o);
    if (found)
        cudnn_attention_run(c, found, false, &o, a);
    return found != NULL;
}

bool cuda_cudnn_backward(struct cuda_context *c, const struct kernel_attention *a, const void *y,
                         const void *dy, void *dx)
{
    struct cudnn_operands o = {0};
    const struct cudnn_answer *found = cudnn_attention_operands(c, a, y, &o);
    if (!found)
        return false;
    cudnn_attention_put(&o, SDPA_DY, dy);
    cudnn_attention_put(&o, SDPA_DELTA, (char *)c->cudnn->workspace + found->delta);
    cudnn_attention_put_rows(&o, SDPA_DQ, a, dx);
    cudnn_attention_run(c, found, true, &o, a);
    return true;
}
