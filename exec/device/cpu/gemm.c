/* Matrix products by the library that is there: oneDNN where it has kernels for the processor, else
 * OpenBLAS, and always that for the tests' double build. Both start threads or take long to load:
 * neither is linked, unless FORELINE_STATIC has OpenBLAS in the executable. */
#include "exec/device/cpu/gemm.h"

#include <cblas.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#ifdef FORELINE_ONEDNN
#include <dnnl.h>
#define STRING_OF(x) #x
#define STRING(x)    STRING_OF(x)
static const char onednn_file[] = "libdnnl.so." STRING(DNNL_VERSION_MAJOR);
#endif

/* What has been loaded; constant from then on. */
static struct {
    void (*multiply)(const struct gemm *g); /* NULL: neither is there */
    char name[GEMM_LIBRARY];
    char reason[160];
} library;
static pthread_once_t library_once = PTHREAD_ONCE_INIT;

#if defined(FORELINE_ONEDNN) || !defined(FORELINE_STATIC)
/* dlsym() into a pointer to a function, as POSIX has it. */
static bool find_function(void *handle, const char *name, void *function)
{
    void *found = dlsym(handle, name);
    memcpy(function, &found, sizeof found);
    return found;
}
#endif

/* ---- OpenBLAS */

static struct {
    __typeof__(cblas_sgemm) *sgemm;
    __typeof__(cblas_dgemm) *dgemm;
    __typeof__(openblas_set_num_threads) *set_threads;
    __typeof__(openblas_get_config) *config;
    __typeof__(openblas_get_corename) *kernels;
} openblas;

static void openblas_multiply(const struct gemm *g)
{
    CBLAS_TRANSPOSE a_t = g->a_t ? CblasTrans : CblasNoTrans;
    CBLAS_TRANSPOSE b_t = g->b_t ? CblasTrans : CblasNoTrans;
    int m = (int)g->m, n = (int)g->n, k = (int)g->k;
    int lda = (int)g->a_stride, ldb = (int)g->b_stride, ldc = (int)g->c_stride;
    const void *a = g->a, *b = g->b; /* `real` is one of the two types below */
    void *c = g->c;
    if (sizeof(real) == sizeof(float))
        openblas.sgemm(CblasRowMajor, a_t, b_t, m, n, k, (float)g->alpha, a, lda, b, ldb,
                       (float)g->beta, c, ldc);
    else
        openblas.dgemm(CblasRowMajor, a_t, b_t, m, n, k, (double)g->alpha, a, lda, b, ldb,
                       (double)g->beta, c, ldc);
}

#ifdef FORELINE_STATIC
static bool openblas_find(void)
{
    openblas.sgemm = cblas_sgemm;
    openblas.dgemm = cblas_dgemm;
    openblas.set_threads = openblas_set_num_threads;
    openblas.config = openblas_get_config;
    openblas.kernels = openblas_get_corename;
    return true;
}
#else
static bool openblas_find(void)
{
    void *h = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    return h && find_function(h, "cblas_sgemm", &openblas.sgemm) &&
           find_function(h, "cblas_dgemm", &openblas.dgemm) &&
           find_function(h, "openblas_set_num_threads", &openblas.set_threads) &&
           find_function(h, "openblas_get_config", &openblas.config) &&
           find_function(h, "openblas_get_corename", &openblas.kernels);
}
#endif

/* The configuration begins "OpenBLAS 0.3.21 ". */
static void openblas_load(void)
{
    if (!openblas_find()) {
        const char *why = dlerror();
        snprintf(library.reason, sizeof library.reason, "%s", why ? why : "OpenBLAS");
        return;
    }
    openblas.set_threads(1);
    const char *about = openblas.config(), *version = strchr(about, ' ');
    int length = version ? (int)strcspn(version + 1, " ") : 0;
    snprintf(library.name, sizeof library.name, "OpenBLAS %.*s, %.40s kernels",
             length < 24 ? length : 24, version ? version + 1 : "", openblas.kernels());
    library.multiply = openblas_multiply;
}

/* ---- oneDNN */

#ifdef FORELINE_ONEDNN
static struct {
    __typeof__(dnnl_sgemm) *sgemm;
    void (*set_threads)(int n); /* of OpenMP, for the calling thread */
} onednn;

static void onednn_multiply(const struct gemm *g)
{
    static _Thread_local bool is_single;
    if (!is_single)
        onednn.set_threads(1);
    is_single = true;
    const void *a = g->a, *b = g->b;
    void *c = g->c;
    onednn.sgemm(g->a_t ? 'T' : 'N', g->b_t ? 'T' : 'N', (dnnl_dim_t)g->m, (dnnl_dim_t)g->n,
                 (dnnl_dim_t)g->k, (float)g->alpha, a, (dnnl_dim_t)g->a_stride, b,
                 (dnnl_dim_t)g->b_stride, (float)g->beta, c, (dnnl_dim_t)g->c_stride);
}

#ifdef __SANITIZE_ADDRESS__
/* LeakSanitizer of GCC 12 dies of thread-local variables of what oneDNN loads: processes that
 * multiply by it are not searched for leaks, those with DNNL_MAX_CPU_ISA=SSE41 are. */
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);

int __lsan_is_turned_off(void)
{
    return library.multiply == onednn_multiply;
}
#endif

/* Below AVX2 it has no kernels worth the name. DNNL_MAX_CPU_ISA=SSE41 is how a user says no. */
static bool onednn_load(void)
{
    const dnnl_dim_t avx2 = dnnl_cpu_isa_avx2, avx512 = dnnl_cpu_isa_avx512_core;
    __typeof__(dnnl_version) *version;
    __typeof__(dnnl_get_effective_cpu_isa) *isa_of;
    void *h = sizeof(real) == sizeof(float) ? dlopen(onednn_file, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!h || !find_function(h, "dnnl_sgemm", &onednn.sgemm) ||
        !find_function(h, "omp_set_num_threads", &onednn.set_threads) ||
        !find_function(h, "dnnl_version", &version) ||
        !find_function(h, "dnnl_get_effective_cpu_isa", &isa_of))
        return false;
    dnnl_dim_t isa = isa_of();
    if ((isa & avx2) != avx2)
        return false;
    const dnnl_version_t *v = version();
    snprintf(library.name, sizeof library.name, "oneDNN %d.%d.%d, %s kernels", v->major, v->minor,
             v->patch, (isa & avx512) == avx512 ? "AVX-512" : "AVX2");
    library.multiply = onednn_multiply;
    return true;
}
#else
static bool onednn_load(void)
{
    return false;
}
#endif

/* ---- either */

static void library_load(void)
{
    if (!onednn_load())
        openblas_load();
}

void gemm(const struct gemm *g)
{
    library.multiply(g);
}

const char *gemm_library(char text[GEMM_LIBRARY])
{
    memcpy(text, library.name, GEMM_LIBRARY);
    return text;
}

enum status gemm_single_thread(void)
{
    pthread_once(&library_once, library_load);
    return library.multiply
               ? STATUS_OK
               : error_set(STATUS_IO, "no BLAS library: %s; install libdnnl2 or libopenblas0",
                           library.reason);
}
