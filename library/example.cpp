// The search with its progress, and a simulation as JSON: c++ example.cpp $(pkg-config --cflags
// --libs foreline), then ./a.out gpt2-small rail:nodes=2,gpus=4 64. Ctrl-C takes the best so far.
#include <foreline.h>

#include <csignal>
#include <cstdio>
#include <memory>

static volatile std::sig_atomic_t interrupted;

static int tell(void *, double done, double)
{
    std::fprintf(stderr, "\r%.0f plans", done);
    return interrupted;
}

template <class T> using owned = std::unique_ptr<T, void (*)(T *)>;

int main(int argc, char **argv)
{
    if (argc != 4) {
        std::fprintf(stderr, "usage: %s MODEL PLATFORM BATCH\n", argv[0]);
        return 2;
    }
    std::signal(SIGINT, [](int) { interrupted = 1; });
    foreline_error error;
    foreline_model *m = nullptr;
    foreline_platform *p = nullptr;
    foreline_plan *found = nullptr;
    char *json = nullptr;
    const foreline_setting settings[] = {{"batch", argv[3]}};
    foreline_options options = {settings, 1, tell, nullptr};
    bool ok = foreline_model_load(argv[1], &m, &error) == FORELINE_OK;
    owned<foreline_model> model(m, foreline_model_free);
    ok = ok && foreline_platform_load(argv[2], &p, &error) == FORELINE_OK;
    owned<foreline_platform> platform(p, foreline_platform_free);
    ok = ok && foreline_plan_find(m, p, &options, &found, &error) == FORELINE_OK;
    owned<foreline_plan> plan(found, foreline_plan_free);
    ok = ok && foreline_simulate(found, nullptr, &json, &error) == FORELINE_OK;
    owned<char> text(json, foreline_text_free);
    std::fprintf(stderr, "\n");
    if (ok)
        std::fputs(json, stdout);
    else
        std::fprintf(stderr, "%s: %s\n", argv[0], error.message);
    return !ok;
}
