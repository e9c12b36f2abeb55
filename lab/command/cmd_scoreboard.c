/* scoreboard - published runs, predicted: how far off, and by constants fitted to others. */
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "core/base/array.h"
#include "core/base/file.h"
#include "lab/scoreboard/published_expected.h"
#include "lab/scoreboard/published_layers.h"
#include "study/validate.h"

struct scores {
    const struct published_prediction *prediction, *roofline; /* [rows] */
    struct published_table table;
    struct published_fits fits;
    struct published_misses misses;
};

/* What constants fitted to others say, for people. */
static enum status print_apart(const struct published *p, const struct scores *s)
{
    putchar('\n');
    PASS(published_fits_print(p, &s->fits, stdout));
    putchar('\n');
    return published_coverage_print(&s->misses, stdout);
}

/* Tables that foreline is built with: constants, fitted to all rows, or what is expected. */
static enum status write_table(const struct scores *s, bool expected, const char *folder)
{
    enum status st;
    char path[4096];
    struct file_out f = {0};
    if (snprintf(path, sizeof path, "%s/%s.def", folder, expected ? "expected" : "constants") >=
        (int)sizeof path)
        return error_set(STATUS_INVALID,
                         "%s: path is too long, expected at most %zu bytes with the file name",
                         folder, sizeof path - 1);
    TRY(file_create(path, &f));
    if (expected)
        TRY(published_expected_write(&s->misses, f.stream));
    else
        published_fit_write(&s->fits, f.stream);
    TRY(file_commit(&f));
out:
    file_discard(&f);
    return st;
}

/* Scores, and where asked for those of constants that do not know the rows; their tables in a
 * folder. */
static enum status print_published(const struct arguments *a, struct published *p, struct scores *s,
                                   const struct provenance *by)
{
    const struct published_fits *fits = a->fits.cross_validate ? &s->fits : NULL;
    if (fits) {
        PASS(published_fit(p, s->prediction, &s->fits));
        PASS(published_misses_find(p, &s->fits, s->roofline, &s->misses));
    }
    if (a->json)
        PASS(published_print_json(p, s->prediction, &s->table, fits, &s->misses, stdout));
    else
        published_print(p, s->prediction, &s->table, stdout);
    if (fits && !a->json)
        PASS(print_apart(p, s));
    if (fits && a->output) {
        PASS(write_table(s, false, a->output));
        PASS(write_table(s, true, a->output));
    }
    return a->output ? published_write(p, s->prediction, &s->table, fits, a->output, by)
                     : STATUS_OK;
}

static enum status score_published(const struct invocation *in, struct published *p)
{
    enum status st;
    struct published_prediction *prediction = NULL, *roofline = NULL;
    struct scores s = {0};
    if (in->a.output)
        TRY(validate_make_directory(in->a.output, ""));
    TRY(ARRAY_NEW(prediction, p->rows));
    TRY(published_predict(p, in->a.framework, prediction));
    if (in->a.fits.cross_validate) {
        TRY(ARRAY_NEW(roofline, p->rows));
        TRY(published_predict(p, expected_roofline, roofline));
    }
    if (in->a.fits.layers > 0)
        TRY(published_fit_layers(p, in->a.fits.layers, in->a.seed, prediction));
    s.prediction = prediction;
    s.roofline = roofline;
    TRY(published_tabulate(p, prediction, roofline, &s.table));
    TRY(print_published(&in->a, p, &s, &in->by));
    const struct published_score *all =
        s.table.kind[sizeof s.table.kind / sizeof *s.table.kind - 1].score;
    if (!all || all->used == 0)
        FAIL(STATUS_INFEASIBLE, "nothing to compare: no published run could be predicted");
    if (arguments_given(&in->a, "fail-above") && all->max > in->a.fits.fail_above)
        FAIL(STATUS_INFEASIBLE,
             "error of the worst published run is %.2f %%, above --fail-above %g %%",
             100 * all->max, 100 * in->a.fits.fail_above);
out:
    free(prediction);
    free(roofline);
    published_table_free(&s.table);
    published_fits_free(&s.fits);
    published_misses_free(&s.misses);
    return st;
}

/* The table of constants, fitted to the rows. */
static enum status fit_published(const struct published *p)
{
    struct published_fits fits = {0};
    enum status st = published_fit(p, NULL, &fits);
    if (st == STATUS_OK)
        published_fit_write(&fits, stdout);
    published_fits_free(&fits);
    return st;
}

static enum status scoreboard(struct invocation *in)
{
    enum status st;
    struct published p = {0};
    struct framework framework;
    if (in->operands < 1)
        return error_set(STATUS_USAGE, "expected files of published runs, or folders of them");
    PASS(
        arguments_check(&in->a, in->a.fits.fit_constants ? TAKES(LAB_FIT) : TAKES(LAB_SCOREBOARD)));
    if (in->a.framework && framework_parse(in->a.framework, &framework) != STATUS_OK)
        return error_context(STATUS_USAGE, "--framework");
    if (in->a.framework && (in->a.fits.cross_validate || in->a.fits.layers))
        return error_set(
            STATUS_USAGE,
            "--cross-validate and --layers use the framework of each row, so drop --framework");
    if (in->a.fits.cross_validate && in->a.fits.layers)
        return error_set(STATUS_USAGE, "--cross-validate and --layers cannot be combined");
    for (int i = 0; i < in->operands; i++)
        TRY(published_read(in->operand[i], &p));
    if (in->a.fits.plans) {
        TRY(validate_make_directory(in->a.fits.plans, ""));
        TRY(published_write_plans(&p, in->a.fits.plans, &in->by));
        goto out;
    }
    TRY(in->a.fits.fit_constants ? fit_published(&p) : score_published(in, &p));
out:
    published_free(&p);
    return st;
}

const struct command command_scoreboard = {
    .name = "scoreboard",
    .synopsis = "FILE|DIR...",
    .summary = "predict published training runs and print how far off the predictions are",
    .details =
        "Reads runs that others measured and published, files of one schema or folders of them,\n"
        "and predicts each from its configuration; what was measured of it is not used. Prints\n"
        "errors by set, GPU, data type and parallelism, why rows are left out, and the ten worst.\n"
        "\n"
        "--cross-validate also prints errors with constants fitted to the rows of other sets, and\n"
        "of other generations of GPUs. --fit prints only the constants, fitted to all rows, in "
        "the\n"
        "form of core/strategy/constants.def. --layers fits what layers take to a few runs of "
        "each\n"
        "set and predicts the others. docs/explanation/accuracy.md",
    .examples = "foreline lab scoreboard docs/fidelity\n",
    .run = scoreboard,
};
