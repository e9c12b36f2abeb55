/* cases.h - tests of the double itself. Each case runs in a process of its own, because what the
 * double finds ends one. */
#ifndef DOUBLE_CASES_H
#define DOUBLE_CASES_H

#include <cuda_runtime_api.h>
#include <functional>
#include <stdio.h>
#include <stdlib.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

extern int failures;
void test_graphs(); /* test_graphs.cpp */

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            printf("%s:%d: %s\n", __FILE__, __LINE__, #what);                                      \
            fflush(stdout);                                                                        \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

/* What a case's process leaves behind. */
struct outcome {
    int status;
    std::string text;
};

inline outcome run(const std::function<void()> &body)
{
    int ends[2];
    if (pipe(ends))
        abort();
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        alarm(20);
        body();
        _exit(0);
    }
    close(ends[1]);
    outcome o;
    char buffer[4096];
    for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;)
        o.text.append(buffer, (size_t)n);
    close(ends[0]);
    waitpid(child, &o.status, 0);
    return o;
}

/* `expected`: words of the line that it must end with; NULL: it must pass. */
inline void test(const char *name, const char *expected, const std::function<void()> &body)
{
    outcome o = run(body);
    bool good = expected ? o.status != 0 && o.text.find(expected) != std::string::npos
                         : o.status == 0 && o.text.empty();
    printf("%s %s%s%s\n", good ? "ok  " : "FAIL", name, good ? "" : ": ",
           good             ? ""
           : o.text.empty() ? "no word"
                            : o.text.c_str());
    failures += !good;
}

inline float *device_floats(size_t n)
{
    void *data = NULL;
    CHECK(cudaMalloc(&data, n * sizeof(float)) == cudaSuccess);
    CHECK(cudaMemset(data, 0, n * sizeof(float)) == cudaSuccess);
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    return (float *)data;
}

inline cudaStream_t new_stream()
{
    cudaStream_t s;
    CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking) == cudaSuccess);
    return s;
}

inline cudaEvent_t new_event()
{
    cudaEvent_t e;
    CHECK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming) == cudaSuccess);
    return e;
}

#endif
