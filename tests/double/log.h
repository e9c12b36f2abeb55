/* log.h - what $DOUBLE_LOG asks for, in files $DOUBLE_LOG.RANK (or .PID without $RANK), fields
 * apart by tabs. A line per NCCL call, when it is queued:
 *   rank  step (-1: none)  global ranks of the members, with commas  call  global rank of peer or
 *   root (-1: none)  count  type  stream, and its priority after a slash
 * and lines that begin with '#':
 *   #comm   rank  members  blocks (1, 0)  most CTAs (0: not said)  made by: init, split
 *   #id     rank                       ncclGetUniqueId()
 *   #step   rank  step  kernels  products  copies and memsets  host waits with launches behind them
 *           copies from pageable memory  FLOP of products  bytes of products' operands and of
 *                                        copies
 *           kernels and shapes of products that the thread had not queued before: loaded now
 *           events that times were counted from (cudaEventElapsedTime)
 *           launches of graphs, whose kernels, products and copies are not among the others
 *   #kernel rank  step  launches  name, with the type of its numbers
 *   #bytes  rank  step  bytes read  bytes written  name: of device memory, by one launch of a
 *           kernel, a product ("(product)") or a copy, each byte once; of kernels with DOUBLE_RACES
 *           alone
 *   #product rank step  times  FLOP  bytes  shape and types as cuBLAS was asked: m, n, k, ...
 *   #gpu    rank  GPU    first allocation on it */
#ifndef DOUBLE_LOG_H
#define DOUBLE_LOG_H

#include <string>

namespace dbl
{

void log_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* What the calling thread does in its step. */
enum happening { KERNEL, PRODUCT, COPY, GRAPH, WAIT, PAGEABLE, HAPPENINGS };
void count(happening h);
void count_kernel(const char *name); /* a KERNEL */
void count_work(double flop, double bytes);
void count_load(const std::string &what); /* which kernel, which shape */
void count_time_from(const void *event);
void count_bytes(long step, const char *name, size_t read, size_t written);
void count_begin();
void count_end(long step);

} // namespace dbl

#endif
