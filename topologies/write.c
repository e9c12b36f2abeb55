/* A measured topology as a platform file: a link of its own for each ordered pair of devices, with
 * the latency and bandwidth of the pair's tier. */
#include "topologies/write.h"

#include <stdint.h>
#include <stdio.h>

#include "core/base/file.h"
#include "core/base/provenance.h"
#include "core/base/text.h"

enum { MAX_WRITTEN = 64 };

/* A comment may not have two hyphens, so options are without theirs. */
const char write_settings[] = "Plain SimGrid and SMPI agree with cfg=network/model:CM02 "
                              "cfg=network/crosstraffic:0 cfg=network/TCP-gamma:0.";

void write_comment(FILE *f, const char *text)
{
    for (char before = 0; *text; before = *text++)
        fputc((unsigned char)*text < ' ' || (*text == '-' && before == '-') ? ' ' : *text, f);
}

static void put_header(FILE *f, const struct topology *t, const struct provenance *by)
{
    fputs("<?xml version='1.0'?>\n"
          "<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
          "<!-- ",
          f);
    write_comment(f, t->name ? t->name : "platform");
    fprintf(f, ": %zu devices, every pair by itself\n", t->n);
    if (by) {
        fputs("     written by ", f);
        write_comment(f, by->version ? by->version : "foreline");
        if (by->command) {
            fputs(": ", f);
            write_comment(f, by->command);
        }
        if (by->host) {
            fputs(" on ", f);
            write_comment(f, by->host);
        }
        fprintf(f, ", seed %llu\n", (unsigned long long)by->seed);
    }
    fputs("     Routes are what was measured between two devices; they share nothing.\n", f);
    fprintf(f, "     %s -->\n", write_settings);
}

static void put_rate(FILE *f, const struct topology_rate *rate)
{
    fputs("      <prop id=\"rate:", f);
    text_put_xml(f, rate->kind, SIZE_MAX);
    fputs("\" value=\"", f);
    for (size_t i = 0; i < rate->n; i++)
        fprintf(f, "%s%.9gflop@%.9gf", i ? " " : "", rate->flop[i], rate->flops[i]);
    fputs("\"/>\n", f);
}

/* What collectives attain: the model's constants, and measured curves. */
static void put_fabric(FILE *f, const struct device_type *type)
{
    if (type->fabric.share > 0 || type->fabric.nic > 0) {
        fputs("      <prop id=\"collectives\" value=\"", f);
        fabric_model_put(f, &type->fabric);
        fputs("\"/>\n", f);
    }
    for (size_t k = 0; k < type->curves; k++) {
        fputs("      <prop id=\"curve:", f);
        fabric_curve_put_name(f, &type->curve[k]);
        fputs("\" value=\"", f);
        fabric_curve_put(f, &type->curve[k]);
        fputs("\"/>\n", f);
    }
}

/* The rest of a fit is in the numbers themselves. */
static void put_fitted(FILE *f, const struct device_fitted *fitted)
{
    const double times[FITTED_DEVICE] = {[FITTED_host] = fitted->host,
                                         [FITTED_interference] = fitted->interference,
                                         [FITTED_start] = fitted->start,
                                         [FITTED_hop] = fitted->hop};
    fputs("      <prop id=\"fitted\" value=\"", f);
    fitted_put(times, f);
    fputs("\"/>\n", f);
}

static void platform_put_device(FILE *f, const struct topology *t, uint32_t i)
{
    const struct device_type *type = topology_type(t, i);
    fputs("    <host id=\"", f);
    text_put_xml(f, t->device[i], SIZE_MAX);
    fprintf(f, "\" speed=\"%.9gf\">\n      <prop id=\"type\" value=\"", type->flops);
    text_put_xml(f, type->name, SIZE_MAX);
    fprintf(f, "\"/>\n      <prop id=\"memory\" value=\"%lldB\"/>\n",
            (long long)type->memory_bytes);
    if (type->framework_bytes > 0)
        fprintf(f, "      <prop id=\"framework_memory\" value=\"%lldB\"/>\n",
                (long long)type->framework_bytes);
    fprintf(f, "      <prop id=\"memory_bandwidth\" value=\"%.9gBps\"/>\n", type->memory_Bps);
    fprintf(f, "      <prop id=\"launch_overhead\" value=\"%.9gs\"/>\n",
            type->launch_s / fitted_times(type->fitted.host));
    for (size_t k = 1; k < DATA_TYPES; k++) /* fp16's is bf16's */
        if (type->peak[k] > 0 && k != DATA_fp16)
            fprintf(f, "      <prop id=\"%s\" value=\"%.9gf\"/>\n", data_type_peaks[k],
                    type->peak[k]);
    if (kernels_known(&type->kernels)) {
        fputs("      <prop id=\"kernels\" value=\"", f);
        kernels_put(&type->kernels, f);
        fputs("\"/>\n", f);
    }
    if (type->host_Bps > 0)
        fprintf(f, "      <prop id=\"host_bandwidth\" value=\"%.9gBps\"/>\n", type->host_Bps);
    if (type->host_memory_Bps > 0)
        fprintf(f, "      <prop id=\"host_memory_bandwidth\" value=\"%.9gBps\"/>\n",
                type->host_memory_Bps);
    if (type->watts > 0)
        fprintf(f, "      <prop id=\"watts\" value=\"%.9g\"/>\n", type->watts);
    if (type->price_per_hour > 0)
        fprintf(f, "      <prop id=\"price_per_hour\" value=\"%.9g\"/>\n", type->price_per_hour);
    if (type->busy_spread > 0)
        fprintf(f, "      <prop id=\"busy_spread\" value=\"%.3g\"/>\n", type->busy_spread);
    if (type->slowdown > 0)
        fprintf(f, "      <prop id=\"slowdown\" value=\"%.9g\"/>\n",
                type->slowdown / fitted_times(type->fitted.interference));
    if (type->message_s > 0)
        fprintf(f, "      <prop id=\"message_overhead\" value=\"%.9gs\"/>\n", type->message_s);
    if (type->message_Bps > 0)
        fprintf(f, "      <prop id=\"message_bandwidth\" value=\"%.9gBps\"/>\n", type->message_Bps);
    for (size_t k = 0; k < type->rates; k++)
        put_rate(f, &type->rate[k]);
    put_fabric(f, type);
    if (type->fitted.host > 0)
        put_fitted(f, &type->fitted);
    fputs("    </host>\n", f);
}

/* The link from device i to device j is "link-i-j": devices may have any name. */
static void platform_put_link(FILE *f, const struct topology *t, uint32_t i, uint32_t j)
{
    const struct topology_tier *tier = topology_between(t, i, j);
    fprintf(f, "    <link id=\"link-%u-%u\" bandwidth=\"%.9gBps\" latency=\"%.9gs\">", i, j,
            tier->bandwidth_Bps, tier->latency_s);
    fputs("<prop id=\"tier\" value=\"", f);
    text_put_xml(f, tier->name, SIZE_MAX);
    fputs("\"/></link>\n", f);
}

static void platform_put_route(FILE *f, const struct topology *t, uint32_t i, uint32_t j)
{
    fputs("    <route src=\"", f);
    text_put_xml(f, t->device[i], SIZE_MAX);
    fputs("\" dst=\"", f);
    text_put_xml(f, t->device[j], SIZE_MAX);
    fprintf(f, "\" symmetrical=\"NO\"><link_ctn id=\"link-%u-%u\"/></route>\n", i, j);
}

/* All links or all routes: a link must stand before the routes that name it. */
static void platform_put_pairs(FILE *f, const struct topology *t,
                               void (*put)(FILE *, const struct topology *, uint32_t, uint32_t))
{
    for (uint32_t i = 0; i < t->n; i++)
        for (uint32_t j = 0; j < t->n; j++)
            if (i != j)
                put(f, t, i, j);
}

enum status topology_write_platform(const struct topology *t, const char *path,
                                    const struct provenance *by)
{
    enum status st;
    struct file_out out = {0};
    if (t->n < 1 || t->n > MAX_WRITTEN)
        return error_set(STATUS_INVALID,
                         "%s: got %zu devices, expected 1 to %d for a platform of measured pairs",
                         path, t->n, MAX_WRITTEN);
    TRY(file_create(path, &out));
    put_header(out.stream, t, by);
    fputs("<platform version=\"4.1\">\n  <zone id=\"machine\" routing=\"Full\">\n", out.stream);
    for (uint32_t i = 0; i < t->n; i++)
        platform_put_device(out.stream, t, i);
    platform_put_pairs(out.stream, t, platform_put_link);
    platform_put_pairs(out.stream, t, platform_put_route);
    fputs("  </zone>\n</platform>\n", out.stream);
    TRY(file_commit(&out));
out:
    file_discard(&out);
    return st;
}
