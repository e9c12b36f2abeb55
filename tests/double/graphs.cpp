/* Graphs: a stream writes down what it is given, and does it whenever the graph is launched, with
 * the arguments of then. One stream at a time: a graph here is a list. */
#include <algorithm>

#include "tests/double/double.h"
#include "tests/double/log.h"

struct CUgraph_st {
    std::vector<dbl::node> nodes;
};
struct CUgraphExec_st {
    std::vector<dbl::node> nodes;
};

using namespace dbl;

namespace
{

/* Of the calling thread, or by a mode that forbids all threads what no graph can do. */
thread_local std::vector<stream *> begun;

} // namespace

cudaError_t dbl::check_capture(const stream *s)
{
    return s->into && s->into->is_broken ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
}

cudaError_t dbl::forbid_in_capture(const stream *s)
{
    bool any = false;
    for (stream *b : begun)
        if (!s || b == s)
            any = b->into->is_broken = true;
    return any ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}

extern "C" cudaError_t cudaStreamBeginCapture(cudaStream_t handle, enum cudaStreamCaptureMode mode)
{
    stream *s = stream_of(handle);
    if (mode != cudaStreamCaptureModeThreadLocal)
        complain("captures here are of the thread's own: cudaStreamCaptureModeThreadLocal");
    if (handle == NULL || handle == cudaStreamLegacy)
        return note_error(cudaErrorStreamCaptureUnsupported);
    if (s->into)
        return note_error(forbid_in_capture(s));
    begun.push_back(s);
    {
        std::lock_guard<std::mutex> l(gate);
        s->into = std::make_shared<capture>();
    }
    return note_error(cudaSuccess);
}

extern "C" cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t *graph)
{
    stream *s = stream_of(handle);
    auto own = std::find(begun.begin(), begun.end(), s);
    *graph = NULL;
    if (own == begun.end())
        return note_error(cudaErrorStreamCaptureUnmatched);
    begun.erase(own);
    std::shared_ptr<capture> c;
    {
        std::lock_guard<std::mutex> l(gate);
        c.swap(s->into);
    }
    if (c->is_broken)
        return note_error(cudaErrorStreamCaptureInvalidated);
    *graph = new CUgraph_st{std::move(c->nodes)};
    return note_error(cudaSuccess);
}

/* Takes memory of the GPU. */
extern "C" cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph,
                                            unsigned long long)
{
    if (in_step())
        complain("cudaGraphInstantiate() in a step");
    cudaError_t e = forbid_in_capture(NULL);
    if (e == cudaSuccess && strikes("no-graph"))
        e = cudaErrorMemoryAllocation;
    if (e == cudaSuccess)
        *out = new CUgraphExec_st{graph->nodes};
    return note_error(e);
}

extern "C" cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t handle)
{
    return note_error(forbid_in_capture(stream_of(handle)));
}

extern "C" cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t handle)
{
    stream *s = stream_of(handle);
    if (s->into)
        complain("a graph in a capture, which the double has not");
    if (strikes("cuda-error"))
        make_sticky(cudaErrorECCUncorrectable);
    count(GRAPH);
    for (const node &n : graph->nodes)
        put_copy(s, n.what, n.step, n.pinned, n.bytes, n.writes);
    return note_error(cudaSuccess);
}

extern "C" cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    delete graph;
    return note_error(cudaSuccess);
}

extern "C" cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph)
{
    delete graph;
    return note_error(cudaSuccess);
}
