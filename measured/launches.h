/* launches.h - which part of a step launched a kernel: the host's calls by correlation number, and
 * the parts of threads that are a backward or an update. Private. */
#ifndef MEASURED_LAUNCHES_H
#define MEASURED_LAUNCHES_H

#include "measured/run.h"

struct launch {
    int64_t number, start_ns, thread;
};

/* What parts of a thread's time say of what is launched in them: an enum span_phase; what
 * communication does, an enum span_kind; the host's op, by the number of its name. */
enum launch_about { ABOUT_PHASE, ABOUT_KIND, ABOUT_OP, ABOUTS };

struct launch_part {
    int64_t thread, start_ns, end_ns;
    uint32_t meaning;
};

struct launch_parts {
    size_t n;
    struct launch_part *part; /* [n] */
};

struct launches {
    size_t n;
    struct launch *launch; /* [n] */
    struct launch_parts about[ABOUTS];
};

/* Does a host's event of this name say anything? Autograd's nodes: backward; optimizers' steps:
 * update; "nccl:all_to_all", "c10d::alltoall_base_": what is communicated. */
bool launches_means(const char *name, enum launch_about *about, uint32_t *meaning);

enum status launches_add(struct launches *l, int64_t number, int64_t thread,
                         int64_t start_ns) MUST_CHECK;
enum status launches_add_part(struct launches *l, int64_t thread, int64_t start_ns, int64_t end_ns,
                              enum launch_about about, uint32_t meaning) MUST_CHECK;
/* Sort all lists; of ops the outermost alone stay. O(n log n). */
void launches_sort(struct launches *l);
/* The launch of that number, once they are sorted; NULL: there is none. */
const struct launch *launches_at(const struct launches *l, int64_t number);
/* Set the phase of span[n] whose launch is known: that of the part in which it was launched, else
 * forward, provided that there are any parts of phases; the kind of communication whose kernel's
 * name does not say it; and the outermost op. Sorts all lists. O((n + launches) log). */
enum status launches_find(struct launches *l, struct span *span, size_t n) MUST_CHECK;
/* In place of what was launched, each outermost op: a span of the rank that computes, and its own
 * launch. */
enum status launches_to_spans(struct launches *l, struct measured_run *run, const char *path,
                              size_t rank) MUST_CHECK;
void launches_free(struct launches *l); /* accepts {0}; leaves {0} */

#endif
