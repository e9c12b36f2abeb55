/* cudnn.h - cuDNN's graphs for the double: what descriptors say, checked, and what they compute. */
#ifndef DOUBLE_CUDNN_H
#define DOUBLE_CUDNN_H

#include <map>
#include <stdint.h>
#include <string>
#include <vector>

extern "C" {
#include "exec/device/cuda/cudnn.h"
}

namespace dbl
{

/* A descriptor: attributes as they were given, until and after it was finalized. */
struct described {
    int kind;
    bool is_final;
    std::map<int, std::vector<char>> attribute; /* their bytes */
    size_t choice;                              /* of a configuration, an engine, a plan */
    described *of;                              /* an engine's or configuration's graph */

    template <typename T> T one(int which, T other = T()) const
    {
        auto found = attribute.find(which);
        return found == attribute.end() ? other : *(const T *)(const void *)found->second.data();
    }
    template <typename T> std::vector<T> all(int which) const
    {
        auto found = attribute.find(which);
        if (found == attribute.end())
            return {};
        const T *data = (const T *)(const void *)found->second.data();
        return std::vector<T>(data, data + found->second.size() / sizeof(T));
    }
    described *to(int which) const
    {
        return one<described *>(which, nullptr);
    }
};

/* Of a tensor. */
struct placed {
    int64_t size[4], stride[4];
    int data;

    explicit placed(const described *t);
    size_t numbers() const;
    size_t bytes() const; /* of a number in memory */
    size_t span() const;  /* bytes from the first number to behind the last */
};

/* What is wrong with an operation, or with a graph; "": nothing. */
std::string fault_of_operation(const described *operation);
std::string fault_of_graph(const described *graph);
/* Tensors of a graph that are not virtual, by id; does it write the tensor? */
std::map<int64_t, const described *> operands_of(const described *graph);
bool writes(const described *graph, const described *tensor);
/* One operation after the other, in fp32, with what is bf16 rounded. data: by id. */
void compute(const described *graph, const std::map<int64_t, char *> &data);

} // namespace dbl

#endif
