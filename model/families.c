/* The families of transformers: families.def. */
#include <string.h>

#include "model/architecture.h"

#define FAMILY(id, class_name_, ...)                                                               \
    static const struct model_family id##_family = {                                               \
        .name = #id, .class_name = (class_name_), .usual = {__VA_ARGS__}};
#include "model/families.def"
#undef FAMILY

#define FAMILY(id, ...) &id##_family,
const struct model_family *const transformer_families[] = {
#include "model/families.def"
};
#undef FAMILY
const size_t transformer_families_n = sizeof transformer_families / sizeof *transformer_families;

/* Configurations write some types with '-', where names of C have '_'. */
static bool is_name(const char *name, const char *given)
{
    while (*name && (*name == *given || (*name == '_' && *given == '-'))) {
        name++;
        given++;
    }
    return *name == *given;
}

const struct model_family *family_find(const char *name)
{
    for (size_t i = 0; i < transformer_families_n; i++)
        if (is_name(transformer_families[i]->name, name))
            return transformer_families[i];
    return NULL;
}
