/* Numbers of small constants, as graphs with dynamic dimensions compute their shapes from them. */
#include "model/onnx/rules.h"

#include <math.h>
#include <string.h>

/* Room for the numbers of output 0. */
static struct onnx_data *room(struct onnx_step *s, bool real)
{
    struct onnx_value *to = &s->g->value[s->n->output[0]];
    struct onnx_data d = {.n = (size_t)onnx_count(to->rank, to->dim), .kept = true};
    struct arena *a = &s->g->memory;
    s->st = real ? ARENA_NEW(a, d.real, d.n) : ARENA_NEW(a, d.whole, d.n);
    if (s->st != STATUS_OK)
        return NULL;
    to->data = d;
    return &to->data;
}

static const struct onnx_data *data(const struct onnx_step *s, size_t i)
{
    const struct onnx_value *v = onnx_input(s, i);
    return v && v->data.kept ? &v->data : NULL;
}

static double real_at(const struct onnx_data *d, size_t i)
{
    return d->whole ? (double)d->whole[i] : d->real[i];
}

/* ---- element by element */

static bool whole_result(const char *op, int64_t a, int64_t b, int64_t *r)
{
    if (!strcmp(op, "Add"))
        return !__builtin_add_overflow(a, b, r);
    if (!strcmp(op, "Sub"))
        return !__builtin_sub_overflow(a, b, r);
    if (!strcmp(op, "Mul"))
        return !__builtin_mul_overflow(a, b, r);
    if (!strcmp(op, "Div") || !strcmp(op, "Mod")) {
        if (b == 0 || (a == INT64_MIN && b == -1))
            return false;
        *r = *op == 'D' ? a / b : a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0);
        return true;
    }
    *r = !strcmp(op, "Min")     ? (a < b ? a : b)
         : !strcmp(op, "Max")   ? (a > b ? a : b)
         : !strcmp(op, "Equal") ? a == b
         : !strcmp(op, "Less")  ? a < b
                                : a > b;
    return true;
}

static double real_result(const char *op, double a, double b)
{
    return !strcmp(op, "Add")   ? a + b
           : !strcmp(op, "Sub") ? a - b
           : !strcmp(op, "Mul") ? a * b
           : !strcmp(op, "Div") ? a / b
           : !strcmp(op, "Pow") ? pow(a, b)
           : !strcmp(op, "Min") ? fmin(a, b)
                                : fmax(a, b);
}

/* Operands are as long as the result, or one number. */
static void fold_pair(struct onnx_step *s)
{
    const struct onnx_data *a = data(s, 0), *b = data(s, 1);
    const struct onnx_value *to = &s->g->value[s->n->output[0]];
    size_t n = (size_t)onnx_count(to->rank, to->dim);
    if (!a || !b || s->n->inputs != 2 || (a->n != n && a->n != 1) || (b->n != n && b->n != 1))
        return;
    bool compares =
        !strcmp(s->n->op, "Equal") || !strcmp(s->n->op, "Less") || !strcmp(s->n->op, "Greater");
    bool real = !a->whole || !b->whole || !strcmp(s->n->op, "Pow");
    if (real && (compares || !strcmp(s->n->op, "Mod")))
        return;
    struct onnx_data *r = room(s, real);
    for (size_t i = 0; r && i < n; i++) {
        size_t x = a->n == 1 ? 0 : i, y = b->n == 1 ? 0 : i;
        if (real)
            r->real[i] = real_result(s->n->op, real_at(a, x), real_at(b, y));
        else if (!whole_result(s->n->op, a->whole[x], b->whole[y], &r->whole[i]))
            r->kept = false;
    }
}

static void fold_one(struct onnx_step *s)
{
    const struct onnx_data *x = data(s, 0);
    const char *op = s->n->op;
    struct onnx_data *r = x && x->real ? room(s, true) : NULL;
    for (size_t i = 0; r && i < x->n; i++)
        r->real[i] = !strcmp(op, "Floor")  ? floor(x->real[i])
                     : !strcmp(op, "Ceil") ? ceil(x->real[i])
                     : !strcmp(op, "Sqrt") ? sqrt(x->real[i])
                                           : -x->real[i];
    if (!x || !x->whole || strcmp(op, "Neg") != 0 || !(r = room(s, false)))
        return;
    for (size_t i = 0; i < x->n; i++)
        r->kept = !__builtin_sub_overflow(0, x->whole[i], &r->whole[i]) && r->kept;
}

/* ---- moved */

/* The same numbers in another shape; one number fills any. */
static void fold_view(struct onnx_step *s)
{
    const struct onnx_data *x = data(s, 0);
    struct onnx_data *r;
    if (!x || !(r = room(s, !x->whole)))
        return;
    r->kept = x->n == r->n || x->n == 1;
    for (size_t i = 0; r->kept && i < r->n; i++)
        if (x->whole)
            r->whole[i] = x->whole[x->n == 1 ? 0 : i];
        else
            r->real[i] = x->real[x->n == 1 ? 0 : i];
}

static void fold_cast(struct onnx_step *s)
{
    const struct onnx_data *x = data(s, 0);
    int64_t to = onnx_whole(s->n, "to", 0);
    struct onnx_data *r;
    bool real = onnx_is_float((enum onnx_type)to);
    if (!x || !(r = room(s, real)))
        return;
    r->kept = r->n == x->n;
    for (size_t i = 0; r->kept && i < x->n; i++) {
        double v = real_at(x, i);
        if (real)
            r->real[i] = v;
        else if (to == ONNX_BOOL)
            r->whole[i] = v != 0;
        else if (x->whole)
            r->whole[i] = x->whole[i];
        else if (v > -9e15 && v < 9e15)
            r->whole[i] = (int64_t)v;
        else
            r->kept = false;
    }
}

/* Of lists only. */
static void fold_gather(struct onnx_step *s)
{
    const struct onnx_data *x = data(s, 0), *index = data(s, 1);
    const struct onnx_value *from = onnx_input(s, 0);
    struct onnx_data *r;
    if (!x || !index || !index->whole || from->rank != 1 || !(r = room(s, !x->whole)))
        return;
    for (size_t i = 0; i < r->n; i++) {
        int64_t at = index->whole[i] + (index->whole[i] < 0 ? (int64_t)x->n : 0);
        if (at < 0 || at >= (int64_t)x->n)
            r->kept = false;
        else if (x->whole)
            r->whole[i] = x->whole[at];
        else
            r->real[i] = x->real[at];
    }
}

static void fold_concat(struct onnx_step *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n->inputs; i++)
        if (!data(s, i) || onnx_input(s, i)->rank != 1 || !data(s, i)->whole)
            return;
    struct onnx_data *r = room(s, false);
    for (size_t i = 0; r && i < s->n->inputs; i++) {
        const struct onnx_data *x = data(s, i);
        memcpy(r->whole + n, x->whole, x->n * sizeof *x->whole);
        n += x->n;
    }
}

static void fold_slice(struct onnx_step *s)
{
    const struct onnx_data *x = data(s, 0);
    const struct onnx_value *from = onnx_input(s, 0);
    size_t n, steps;
    const int64_t *begin = onnx_numbers(s, 1, "starts", &n);
    const int64_t *step = onnx_numbers(s, 4, "steps", &steps);
    struct onnx_data *r;
    if (!x || !x->whole || from->rank != 1 || !begin || n != 1 || !(r = room(s, false)))
        return;
    int64_t length = (int64_t)x->n, by = step ? step[0] : 1, at = begin[0];
    at += at < 0 && at >= -length ? length : 0;
    at = at < 0 ? 0 : at >= length && by < 0 ? length - 1 : at;
    for (size_t i = 0; i < r->n; i++, at += by)
        r->whole[i] = at >= 0 && at < length ? x->whole[at] : 0;
}

static void fold_where(struct onnx_step *s)
{
    const struct onnx_data *c = data(s, 0), *a = data(s, 1), *b = data(s, 2);
    struct onnx_data *r;
    if (!c || !a || !b || !c->whole || !a->whole || !b->whole || !(r = room(s, false)))
        return;
    r->kept =
        (c->n == r->n || c->n == 1) && (a->n == r->n || a->n == 1) && (b->n == r->n || b->n == 1);
    for (size_t i = 0; r->kept && i < r->n; i++)
        r->whole[i] =
            c->whole[c->n == 1 ? 0 : i] ? a->whole[a->n == 1 ? 0 : i] : b->whole[b->n == 1 ? 0 : i];
}

static void fold_product(struct onnx_step *s)
{
    const struct onnx_data *x = data(s, 0);
    struct onnx_data *r;
    if (!x || !x->whole || !(r = room(s, false)))
        return;
    r->kept = r->n == 1;
    if (r->kept)
        r->whole[0] = 1;
    for (size_t i = 0; r->kept && i < x->n; i++)
        r->kept = !__builtin_mul_overflow(r->whole[0], x->whole[i], &r->whole[0]);
}

/* ---- made */

static void fold_shape(struct onnx_step *s)
{
    const struct onnx_value *x = onnx_input(s, 0);
    struct onnx_data *r = room(s, false);
    int64_t from = onnx_whole(s->n, "start", 0), rank = (int64_t)x->rank;
    from = from < -rank ? 0 : from < 0 ? from + rank : from;
    for (size_t k = 0; r && k < r->n; k++)
        r->whole[k] = x->dim[(size_t)from + k];
}

static void fold_size(struct onnx_step *s)
{
    const struct onnx_value *x = onnx_input(s, 0);
    struct onnx_data *r = room(s, false);
    if (r)
        r->whole[0] = onnx_count(x->rank, x->dim);
}

static void fold_constant(struct onnx_step *s)
{
    const struct onnx_attribute *a = onnx_attribute(s->n, "value");
    struct onnx_data *r;
    if (a && a->has_tensor) {
        s->g->value[s->n->output[0]].data = a->data;
    } else if ((a = onnx_attribute(s->n, "value_ints")) ||
               (a = onnx_attribute(s->n, "value_int"))) {
        if ((r = room(s, false)))
            memcpy(r->whole, a->ints == r->n ? a->value : &a->whole, r->n * sizeof *r->whole);
    } else if ((a = onnx_attribute(s->n, "value_float")) && (r = room(s, true))) {
        r->real[0] = a->real;
    }
}

static void fold_filled(struct onnx_step *s)
{
    const struct onnx_attribute *a = onnx_attribute(s->n, "value");
    const struct onnx_data *x = a && a->has_tensor && a->data.n == 1 ? &a->data : NULL;
    bool real = !a || (x && x->real);
    struct onnx_data *r = x || !a ? room(s, real) : NULL;
    for (size_t i = 0; r && i < r->n && x; i++)
        if (real)
            r->real[i] = x->real[0];
        else
            r->whole[i] = x->whole[0];
}

static void fold_range(struct onnx_step *s)
{
    const struct onnx_data *from = data(s, 0), *by = data(s, 2);
    struct onnx_data *r = from->whole && by->whole ? room(s, false) : NULL;
    int64_t at = r ? from->whole[0] : 0;
    for (size_t i = 0; r && r->kept && i < r->n; i++) {
        r->whole[i] = at;
        r->kept = !__builtin_add_overflow(at, by->whole[0], &at) || i + 1 == r->n;
    }
}

static const struct {
    const char *op;
    void (*fold)(struct onnx_step *s);
} folds[] = {
    {"Constant", fold_constant}, {"Shape", fold_shape},
    {"Size", fold_size},         {"ConstantOfShape", fold_filled},
    {"Range", fold_range},       {"Add", fold_pair},
    {"Sub", fold_pair},          {"Mul", fold_pair},
    {"Div", fold_pair},          {"Mod", fold_pair},
    {"Min", fold_pair},          {"Max", fold_pair},
    {"Pow", fold_pair},          {"Equal", fold_pair},
    {"Less", fold_pair},         {"Greater", fold_pair},
    {"Floor", fold_one},         {"Ceil", fold_one},
    {"Sqrt", fold_one},          {"Neg", fold_one},
    {"Identity", fold_view},     {"Reshape", fold_view},
    {"Squeeze", fold_view},      {"Unsqueeze", fold_view},
    {"Flatten", fold_view},      {"Expand", fold_view},
    {"Cast", fold_cast},         {"Gather", fold_gather},
    {"Concat", fold_concat},     {"Slice", fold_slice},
    {"Where", fold_where},       {"ReduceProd", fold_product},
};

void onnx_fold(struct onnx_step *s)
{
    const struct onnx_value *to = &s->g->value[s->n->output[0]];
    int64_t n = onnx_count(to->rank, to->dim);
    if (n < 0 || n > ONNX_KEPT)
        return;
    for (size_t i = 0; i < sizeof folds / sizeof *folds; i++)
        if (strcmp(folds[i].op, s->n->op) == 0) {
            folds[i].fold(s);
            return;
        }
}
