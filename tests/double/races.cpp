/* What happens before what, and accesses that nothing orders. */
#include "tests/double/double.h"

#include <algorithm>

namespace dbl
{

std::vector<uint32_t> &host_seen = *new std::vector<uint32_t>(1);

namespace
{
size_t actors = 1;
}

size_t new_actor()
{
    return actors++;
}

void join(std::vector<uint32_t> &into, const std::vector<uint32_t> &other)
{
    if (into.size() < other.size())
        into.resize(other.size());
    for (size_t k = 0; k < other.size(); k++)
        into[k] = std::max(into[k], other[k]);
}

void touch(op &o, const void *data, size_t bytes, bool writes)
{
    (void)writes;
    int gpu = gpu_of(data);
    if (bytes == 0)
        return;
    if (!is_live(data, bytes))
        complain("%s on %s of GPU %d touches %zu bytes that are not of one allocation%s", o.what,
                 o.on->name.c_str(), o.on->gpu, bytes, gpu < 0 ? ", but the host's" : "");
    memory_open(may_touch(o.on->gpu) | 1u << gpu);
}

void forget(const void *data, size_t bytes)
{
    (void)data, (void)bytes;
}

} // namespace dbl
