/* kernel_times - seconds of kernels by the kernel model (core/cost/kernel.h), for
 * bench/roofline.py.
 *
 *     kernel_times PLATFORM < lines       PLATFORM as everywhere: node:gpus=1,type=H100; its first
 *                                         device
 *
 * A line in, seconds out:  product DTYPE LAUNCHES BATCH M N K BYTES
 *                          attention DTYPE LAUNCHES FLOP BYTES TOKENS CHANNELS BACKWARD
 *                          pass DTYPE LAUNCHES BYTES */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/cost/kernel.h"
#include "core/data/topology.h"
#include "study/load.h"

static bool kernel_times_read_one(const char *line, struct kernel *k)
{
    char dtype[16];
    int backward = 0;
    *k = (struct kernel){.dtype = DATA_bf16, .flash = FLASH_2};
    if (sscanf(line, "product %15s %lf %lf %lf %lf %lf %lf", dtype, &k->launches, &k->batch, &k->m,
               &k->n, &k->k, &k->bytes) == 7)
        k->kind = KERNEL_PRODUCT;
    else if (sscanf(line, "attention %15s %lf %lf %lf %lf %lf %d", dtype, &k->launches, &k->flop,
                    &k->bytes, &k->tokens, &k->k, &backward) == 7)
        k->kind = KERNEL_ATTENTION;
    else if (sscanf(line, "pass %15s %lf %lf", dtype, &k->launches, &k->bytes) == 3)
        k->kind = KERNEL_PASS;
    else
        return false;
    k->backward = backward != 0;
    k->dtype = strcmp(dtype, "fp32") == 0 ? DATA_fp32 : DATA_bf16;
    return true;
}

int main(int argc, char **argv)
{
    enum status st = STATUS_OK;
    struct topology t = {0};
    struct kernel k;
    char *path = NULL, line[256];
    if (argc != 2) {
        fprintf(stderr, "usage: kernel_times PLATFORM < lines\n");
        return 2;
    }
    TRY(load_topology(argv[1], &t, &path));
    while (fgets(line, sizeof line, stdin)) {
        if (!kernel_times_read_one(line, &k)) {
            st = error_set(STATUS_PARSE, "no kernel: %s", line);
            goto out;
        }
        printf("%.9g\n", kernel_seconds(&t.type[0], &k));
    }
out:
    if (st != STATUS_OK)
        fprintf(stderr, "kernel_times: %s\n", error_message());
    topology_free(&t);
    free(path);
    return st == STATUS_OK ? 0 : 1;
}
