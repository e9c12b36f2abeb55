/* kernel_rows.h - tables of measured kernels and collectives (CSV), as rows of what
 * core/cost/kernel.h and core/cost/fabric.h predict.
 *
 * The first line names the columns; others are ignored. Which of four kinds a table has follows
 * from them:
 *
 *   products     gpu, M (or M_tokens), N, K; perhaps B, dtype
 *   attention    gpu, tokens, heads, head_dim; perhaps batch, kv_heads, window, dtype: forward,
 *                causal, with the vendor's kernels
 *   passes       gpu, op, rows (or tokens), width; perhaps dtype
 *   collectives  gpu (or system), collective, ranks, nodes (or ranks_per_node), bytes
 *
 * and one time: seconds, time_s, time_us, time_ms, time_ms_median, latency_ms, t_median_ms, or of
 * collectives busbw_GBps. Cells may stand in double quotes. */
#ifndef LAB_KERNELS_KERNEL_ROWS_H
#define LAB_KERNELS_KERNEL_ROWS_H

#include "core/cost/fabric.h"
#include "core/cost/kernel.h"
#include "topologies/catalogue.h"

enum row_kind { ROW_PRODUCT, ROW_ATTENTION, ROW_PASS, ROW_COLLECTIVE, ROW_KINDS };
enum { KERNEL_COLUMNS = 64, KERNEL_CELL = 200 };

struct kernel_row {
    uint32_t gpu;         /* into gpus[] */
    uint64_t shape;       /* equal for rows that are alike but for their size */
    struct kernel kernel; /* products and passes */
    enum fabric_kind collective;
    struct fabric_where where;
    double bytes;
    double seconds; /* measured, > 0 */
};

struct kernel_rows {
    enum row_kind kind;
    size_t n;
    struct kernel_row *row; /* [n] in the file's order */
    size_t untyped,         /* rows of kernels whose type of numbers is the caller's */
        /* rows left out: of GPUs that the catalogue lacks, of times of 0, of collectives unknown */
        unknown;
};

/* What is in memory; `path` is for messages. `dtype`: where no column says. STATUS_PARSE
 * "path:line: ..." STATUS_NOMEM. O(length). */
enum status kernel_rows_parse(const char *path, const char *text, enum data_type dtype,
                              struct kernel_rows *out) MUST_CHECK;
enum status kernel_rows_read(const char *path, enum data_type dtype,
                             struct kernel_rows *out) MUST_CHECK;
void kernel_rows_free(struct kernel_rows *r); /* accepts {0}; leaves {0} */

#endif
