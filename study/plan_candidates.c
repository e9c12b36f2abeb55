/* What a search has cut out of the model's graph, as a table. */
#include "core/base/file.h"
#include "core/base/provenance.h"
#include "study/planning.h"

enum status plan_candidates_write(const struct auto_result *r, size_t samples, const char *path,
                                  const struct provenance *by)
{
    enum status st;
    struct file_out f = {0};
    TRY(file_create(path, &f));
    fprintf(f.stream, "# %s: %s; seed %llu\n", by->version, by->command,
            (unsigned long long)by->seed);
    fputs("# proposer\tstages\treplicas\ttensor_parallel\tcut_bytes\tbalance\testimate_s\t"
          "iteration_s\tsamples_per_s\tfits\n",
          f.stream);
    for (size_t k = 0; k < r->cuts; k++) {
        const struct auto_cut *c = &r->cut[k];
        fprintf(f.stream, "%s\t%u\t%u\t%u\t%.0f\t%.6g\t%.9g\t%.9g\t%.9g\t%d\n", c->proposer,
                c->stages, c->replicas, c->tensor_parallel, c->bytes, c->balance, c->estimate_s,
                c->iteration_s, (double)samples / c->iteration_s, c->fits);
    }
    TRY(file_commit(&f));
out:
    file_discard(&f);
    return st;
}
