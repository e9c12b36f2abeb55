/* kernels - constants of kernels and collectives from a table of measured ones: what was fitted,
 * how far off it is, and a platform that has it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "core/base/array.h"
#include "core/base/units.h"
#include "lab/kernels/kernel_fit.h"
#include "study/load.h"
#include "study/platform_properties.h"
#include "topologies/catalogue.h"

static const double large_bytes = 1 << 20; /* from here on curves are judged */

static const char *const kind_name[ROW_KINDS] = {"products", "attention", "passes over memory",
                                                 "collectives"};

static void print_share(double x, FILE *out)
{
    if (isnan(x))
        fprintf(out, "  %9s", "-");
    else
        fprintf(out, "  %7.1f %%", 100 * x);
}

static void print_error(const char *name, const struct fit_error *e, FILE *out)
{
    fprintf(out, "%-12s  %7zu", name, e->rows);
    print_share(e->median, out);
    print_share(e->p95, out);
    print_share(e->crossed, out);
    print_share(e->own, out);
    print_share(e->left_out, out);
    fputc('\n', out);
}

static enum status kernels_cli_print(const struct arguments *a, const struct kernel_rows *rows,
                                     const struct kernel_fit *f)
{
    FILE *out = arguments_prose(a);
    size_t named = 0, tested;
    double error;
    fprintf(out, "%zu %s", rows->n, kind_name[rows->kind]);
    if (rows->untyped > 0)
        fprintf(out, " in %s, which the table does not say (--dtype)", a->run.dtype);
    if (rows->unknown > 0)
        fprintf(out, "; %zu rows left out: a GPU that the catalogue lacks, or no time",
                rows->unknown);
    fprintf(out, "\n%zu constants:", f->constants.n);
    for (size_t k = 0; k < f->constants.n; k++)
        fprintf(out, " %s=%.4g", f->constants.name[k], f->constants.value[k]);
    fprintf(out, "\n\n%-12s  %7s  %9s  %9s  %9s  %9s  %9s\n", "# GPU", "rows", "median", "95 %",
            "crossed", "own", "left out");
    for (size_t g = 0; g < gpus_n; g++)
        if (f->gpu[g].rows > 0) {
            named++;
            print_error(gpus[g].name, &f->gpu[g], out);
        }
    if (named > 1)
        print_error("all", &f->all, out);
    fputs("Errors of times. crossed: median of rows whose shapes were not fitted, in five parts; "
          "own: the\n"
          "same with constants of that GPU alone; left out: where no row of the GPU was fitted.\n",
          out);
    if (rows->kind != ROW_COLLECTIVE)
        return STATUS_OK;
    PASS(kernel_fit_curves(rows, large_bytes, &tested, &error));
    if (tested > 0)
        fprintf(
            out,
            "As curves of every other size: median error %.1f %% of the %zu other rows from %s.\n",
            100 * error, tested, units_of(UNIT_BYTES, large_bytes).text);
    return STATUS_OK;
}

/* The platform, by default a node of the GPU, with the property. */
static enum status kernels_cli_write_platform(const struct arguments *a, const struct gpu *gpu,
                                              const struct platform_property_text *property)
{
    char node[64];
    snprintf(node, sizeof node, "node:gpus=8,type=%s", gpu->name);
    return platform_write_properties(a->platform ? a->platform : node, property, 1, a->output);
}

/* The words of the property, which only constants of one GPU can be. */
static enum status put_constants(const struct arguments *a, const struct kernel_rows *rows,
                                 const struct kernel_fit *f, const struct gpu *gpu, FILE *out)
{
    enum status st = STATUS_OK;
    struct platform_property_text property = {0};
    char *value = NULL;
    size_t length;
    char *path = NULL;
    struct topology platform = {0};
    const struct device_kernels *known = NULL;
    FILE *words = NULL;
    if (a->platform)
        TRY(load_topology(a->platform, &platform, &path));
    for (size_t i = 0; i < platform.types; i++)
        if (!strcmp(platform.type[i].name, gpu->type))
            known = &platform.type[i].kernels;
    words = open_memstream(&value, &length);
    if (!words)
        FAIL(STATUS_NOMEM, "out of memory");
    kernel_fit_put(f, &rows->row[0], known, &property.id, words);
    if (fclose(words) != 0)
        FAIL(STATUS_NOMEM, "out of memory");
    property.value = value;
    fprintf(out, "\n<prop id=\"%s\" value=\"%s\"/>\n", property.id, value);
    if (a->output)
        TRY(kernels_cli_write_platform(a, gpu, &property));
out:
    topology_free(&platform);
    free(path);
    free(value);
    return st;
}

static enum status kernels(struct invocation *in)
{
    enum status st;
    const struct arguments *a = &in->a;
    struct kernel_rows rows = {0};
    struct kernel_fit fit = {0};
    const struct gpu *gpu = NULL;
    FILE *out = arguments_prose(a);
    PASS(command_expect(in, 1, "a table of measured kernels or collectives"));
    PASS(arguments_check(a, TAKES(LAB_KERNELS)));
    if (a->machine.gpu && !(gpu = gpu_named(a->machine.gpu)))
        return error_set(STATUS_USAGE,
                         "--gpu: unknown GPU type '%.40s'; list the catalogue with foreline "
                         "topology generate list",
                         a->machine.gpu);
    if (a->output && !gpu)
        return error_set(STATUS_USAGE,
                         "--output needs --gpu TYPE: a platform has constants of one GPU");
    if (a->platform && !a->output)
        return error_set(STATUS_USAGE, "--platform has no effect without --output");
    TRY(kernel_rows_read(in->operand[0], !strcmp(a->run.dtype, "bf16") ? DATA_bf16 : DATA_fp32,
                         &rows));
    if (gpu)
        kernel_rows_keep(&rows, gpu);
    if (rows.n == 0)
        FAIL(STATUS_INVALID, "%s: no row of %s", in->operand[0],
             gpu ? gpu->name : "a GPU of the catalogue");
    st = kernel_fit(&rows, !gpu, &fit);
    TRY(st == STATUS_INVALID ? error_context(STATUS_INVALID, "%s", in->operand[0]) : st);
    TRY(kernels_cli_print(a, &rows, &fit));
    if (gpu)
        TRY(put_constants(a, &rows, &fit, gpu, out));
out:
    kernel_rows_free(&rows);
    kernel_fit_free(&fit);
    return st;
}

const struct command command_kernels = {
    .name = "kernels",
    .synopsis = "FILE",
    .summary = "fit constants to a table of measured kernels or collectives (CSV)",
    .details =
        "Nothing is measured here: a table of measured kernels or collectives gives the constants\n"
        "with which their times are predicted, and the errors on rows that were not fitted. With\n"
        "--gpu and -o a platform gets the constants: by default a node of 8 of the GPU.\n"
        "docs/explanation/accuracy.md",
    .examples = "foreline lab kernels products.csv --dtype bf16\n",
    .run = kernels,
};
