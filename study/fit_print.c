#include "study/fit.h"
#include "core/base/provenance.h"
#include "study/fit_posterior.h"
void fit_find_overhead(struct fit *f) { (void)f; }
void fit_print(const struct fit *f, FILE *out)
{
    for (size_t i = 0; i < f->rows; i++)
        fprintf(out, "%s\t%.6g\t%.6g\t%.6g\t%.6g\n", f->row[i].name, f->row[i].measured_s, f->row[i].begin_s, f->row[i].fitted_s, f->row[i].apart_s);
    for (size_t k = 0; k < f->constants; k++)
        fprintf(out, "%s %d x %.4g (%.4g %.4g) told %.3g\n", f->constant[k].name, f->constant[k].state, f->constant[k].value, f->constant[k].low, f->constant[k].high, f->constant[k].told);
    fprintf(out, "%g %g %g noise %g\n", f->begin_error, f->error, f->apart_error, f->noise);
}
void fit_print_json(const struct fit *f, const struct provenance *by, FILE *out) { (void)f; (void)by; (void)out; }
enum status fit_write_platform(const struct fit *f, const char *platform, const char *path,
                               const struct provenance *by)
{ (void)f; (void)platform; (void)path; (void)by; return STATUS_OK; }
