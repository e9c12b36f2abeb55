/* The GPUs of a run, as the workers said when they joined: no two ranks may have one, people and
 * the measurement are told which each has, and what drives them. */
#include "exec/hardware.h"

#include <string.h>

#include "core/base/array.h"
#include "core/base/text.h"
#include "exec/launch/run.h"

bool launch_hardware_ends(const struct hardware *h)
{
    const struct {
        const char *text;
        size_t size;
    } all[] = {{h->name, sizeof h->name},        {h->uuid, sizeof h->uuid},
               {h->bus, sizeof h->bus},          {h->peers, sizeof h->peers},
               {h->driver, sizeof h->driver},    {h->cuda_driver, sizeof h->cuda_driver},
               {h->cuda, sizeof h->cuda},        {h->cublas, sizeof h->cublas},
               {h->nccl, sizeof h->nccl},        {h->blas, sizeof h->blas},
               {h->settings, sizeof h->settings}};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        if (!memchr(all[k].text, '\0', all[k].size))
            return false;
    return true;
}

/* GPUs are told apart by their UUIDs, which also see through CUDA_VISIBLE_DEVICES and containers
 * that number the same GPUs anew. O(ranks^2). */
enum status launch_check_hardware(const struct launch_state *run)
{
    char first[RANK_NAME], second[RANK_NAME];
    for (uint32_t r = 0; r < run->program->ranks; r++) {
        const struct hardware *h = &run->worker[r].hardware;
        for (uint32_t k = 0; h->gpus > 0 && *h->uuid && k < r; k++) {
            const struct hardware *other = &run->worker[k].hardware;
            if (other->gpus == 0 || strcmp(h->uuid, other->uuid) != 0 ||
                (h->shared && other->shared))
                continue;
            return error_set(STATUS_INVALID,
                             "%s and %s use the same GPU: number %u of %u, %s %s; set "
                             "FORELINE_SHARE_GPU=1 to let ranks share one",
                             launch_name(run, k, first), launch_name(run, r, second), h->index,
                             h->gpus, h->name, h->uuid);
        }
    }
    return STATUS_OK;
}

static bool launch_has_gpus(const struct launch_state *run)
{
    for (size_t r = 0; r < run->program->ranks; r++)
        if (run->worker[r].hardware.gpus > 0)
            return true;
    return false;
}

void launch_tell_hardware(const struct launch_state *run, FILE *notes)
{
    const struct hardware *h = &run->worker[0].hardware;
    if (!launch_has_gpus(run))
        return;
    for (size_t r = 0; r < run->program->ranks; r++) {
        const struct launched *w = &run->worker[r];
        if (w->hardware.gpus == 0)
            continue; /* it is about to say why */
        fprintf(notes, "rank %zu (%s): GPU %u of %s, %s, %s, %s\n", r, run->program->rank[r].name,
                w->hardware.index, w->machine, w->hardware.name, w->hardware.uuid, w->hardware.bus);
    }
    if (h->gpus > 0)
        fprintf(notes, "driver %s (CUDA %s), CUDA %s, cuBLAS %s, NCCL %s%s%s\n",
                *h->driver ? h->driver : "unknown", h->cuda_driver, h->cuda, h->cublas, h->nccl,
                *h->settings ? ", " : "", h->settings);
}

/* "" stays NULL: not known. */
static enum status launch_keep_text(const char *text, char **out)
{
    return *text ? text_copy(text, out) : STATUS_OK;
}

static enum status fill_gpu(const struct launched *w, struct measured_gpu *g)
{
    const struct hardware *h = &w->hardware;
    g->index = h->index;
    g->memory_bytes = h->memory_bytes;
    PASS(text_copy(h->name, &g->name));
    PASS(launch_keep_text(w->machine, &g->machine));
    PASS(launch_keep_text(h->uuid, &g->uuid));
    PASS(launch_keep_text(h->bus, &g->bus));
    return launch_keep_text(h->peers, &g->peers);
}

/* Versions are of rank 0; a rank with others is worth a warning, for its times are another's. */
static enum status fill_software(const struct launch_state *run, struct measurement *out)
{
    const struct hardware *h = &run->worker[0].hardware;
    struct measured_software *s = &out->software;
    PASS(launch_keep_text(h->driver, &s->driver));
    PASS(launch_keep_text(h->cuda_driver, &s->cuda_driver));
    PASS(launch_keep_text(h->cuda, &s->cuda));
    PASS(launch_keep_text(h->cublas, &s->cublas));
    PASS(launch_keep_text(h->nccl, &s->nccl));
    PASS(launch_keep_text(h->settings, &s->settings));
    PASS(launch_keep_text(h->blas, &s->blas));
    for (size_t r = 0; r < run->program->ranks; r++) {
        const struct hardware *o = &run->worker[r].hardware;
        if (o->gemm_flops < o->fma_flops / 2) {
            PASS(measurement_warn(
                out,
                "rank %zu: slow BLAS: matrix multiplications run at %.3g Gflop/s, but a core can "
                "do %.3g Gflop/s (%s); %s",
                r, o->gemm_flops / 1e9, o->fma_flops / 1e9, o->blas,
                strstr(o->blas, "oneDNN")
                    ? "stop other programs, and unset DNNL_MAX_CPU_ISA if it is set"
                    : "install libdnnl2"));
            break;
        }
    }
    for (size_t r = 1; r < run->program->ranks; r++) {
        const struct hardware *o = &run->worker[r].hardware;
        if (strcmp(o->blas, h->blas) != 0)
            return measurement_warn(out, "ranks differ: rank %zu computes with %s, rank 0 with %s",
                                    r, o->blas, h->blas);
        if (strcmp(o->driver, h->driver) != 0 || strcmp(o->cuda, h->cuda) != 0 ||
            strcmp(o->cublas, h->cublas) != 0 || strcmp(o->nccl, h->nccl) != 0)
            return measurement_warn(out,
                                    "ranks differ: rank %zu has driver %s, CUDA %s, cuBLAS %s, "
                                    "NCCL %s; rank 0 has driver %s, CUDA %s, cuBLAS %s, NCCL %s",
                                    r, o->driver, o->cuda, o->cublas, o->nccl, h->driver, h->cuda,
                                    h->cublas, h->nccl);
    }
    return STATUS_OK;
}

enum status launch_fill_hardware(const struct launch_state *run, struct measurement *out)
{
    if (!launch_has_gpus(run))
        return fill_software(run, out);
    PASS(ARRAY_NEW(out->gpu, run->program->ranks));
    for (uint32_t r = 0; r < run->program->ranks; r++) {
        struct measured_gpu *g = &out->gpu[out->gpus++];
        g->rank = r;
        PASS(fill_gpu(&run->worker[r], g));
    }
    return fill_software(run, out);
}
