/* Times of captured operators. */
#include "core/cost/operators_time.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/json.h"
#include "core/base/order.h"
#include "core/cost/kernel.h"
#include "core/data/topology.h"

static const char times_format[] = "foreline-operators";
enum { TIMES_VERSION = 1, TIMES_MOST = 1 << 22 };

static const struct json_row times_rows[] = {
    {"key", JSON_MEMBER(struct operator_time, key), FIELD_NEED},
    {"seconds", JSON_MEMBER(struct operator_time, seconds), FIELD_NEED, .max = 1e6},
    {0},
};

static enum status read_times(const struct json_at *root, struct operator_times *t)
{
    struct json_at at;
    size_t n;
    PASS(json_check_keys(root, "device torch operators", JSON_TABLES(NULL)));
    PASS(json_field(root, "operators", &at));
    PASS(json_get_array(&at, TIMES_MOST, &n));
    PASS(ARRAY_NEW(t->row, n));
    while (t->n < n) {
        struct json_at item = json_item(&at, t->n);
        PASS(json_check_keys(&item, "op", JSON_TABLES(times_rows)));
        PASS(json_rows_read(&item, times_rows, &t->row[t->n++]));
    }
    if (n > 1)
        qsort(t->row, n, sizeof *t->row, order_by_name); /* the key comes first */
    for (size_t k = 1; k < n; k++)
        if (!strcmp(t->row[k - 1].key, t->row[k].key))
            return json_error(&at, "key '%.40s' is given twice", t->row[k].key);
    return STATUS_OK;
}

enum status operator_times_read(const char *path, struct operator_times *out)
{
    enum status st;
    struct json_document d = {0};
    struct operator_times t = {0};
    TRY(json_read(path, times_format, TIMES_VERSION, &d));
    struct json_at root = json_root(&d);
    TRY(read_times(&root, &t));
    MOVE(out, t);
out:
    operator_times_free(&t);
    json_document_free(&d);
    return st;
}

void operator_times_free(struct operator_times *t)
{
    for (size_t k = 0; t->row && k < t->n; k++)
        json_rows_free(times_rows, &t->row[k]);
    free(t->row);
    *t = (struct operator_times){0};
}

static int times_compare(const void *element, const void *key)
{
    return strcmp(((const struct operator_time *)element)->key, key);
}

const struct operator_time *operator_times_find(const struct operator_times *t, const char *key)
{
    size_t k = array_before(key, t->row, t->n, sizeof *t->row, times_compare);
    return k < t->n && !strcmp(t->row[k].key, key) ? &t->row[k] : NULL;
}

/* Dimensions below 1 are of calls without numbers. */
bool operator_is_shaped(const struct capture_operator *o)
{
    bool shaped = o->kernel != CAPTURE_PASS;
    for (size_t k = 0; k < o->n_dims; k++)
        shaped = shaped && o->dims[k] >= 1;
    return shaped;
}

/* As the kernel model asks. */
static struct kernel operator_kernel(const struct capture_operator *o)
{
    struct kernel k = {.kind = KERNEL_PASS, .dtype = (enum data_type)o->type, .launches = 1};
    k.bytes = (double)o->bytes;
    k.flop = o->flop;
    if (!operator_is_shaped(o))
        return k;
    if (o->kernel == CAPTURE_ATTENTION) {
        k.kind = KERNEL_ATTENTION;
        k.tokens = o->dims[2];
        k.k = o->dims[3];
        k.flash = FLASH_2;
        k.backward = o->backward;
        return k;
    }
    k.kind = KERNEL_PRODUCT;
    k.launches = o->times;
    k.batch = o->times * o->dims[0];
    k.m = o->dims[1];
    k.n = o->dims[2];
    k.k = o->dims[3];
    return k;
}

double operator_seconds(const struct capture_operator *o, const struct device_type *type)
{
    if (o->bytes == 0 && o->flop <= 0)
        return 0;
    if (!kernels_known(&type->kernels))
        return type->launch_s + fmax(o->flop / device_flops(type, (enum data_type)o->type),
                                     (double)o->bytes / type->memory_Bps);
    const struct kernel kernel = operator_kernel(o);
    return kernel_seconds(type, &kernel);
}
