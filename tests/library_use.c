/* What library/example.c does not call, on the plan that it wrote: library_use PLAN DEVICES prints the
 * time by the analytic engine. Exit status 1 with a line: something is not as library/foreline.h says. */
#include <foreline.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int expect(int right, const char *what)
{
    if (!right)
        printf("not so: %s\n", what);
    return !right;
}

int main(int argc, char **argv)
{
    int wrong = argc != 3;
    struct foreline_error e = {FORELINE_NOMEM, "before"};
    struct foreline_prediction exact, quick;
    foreline_plan *plan = NULL, *none = NULL;
    foreline_model *model = NULL;
    foreline_platform *platform = NULL;
    if (wrong || foreline_plan_read(argv[1], &plan, &e) != FORELINE_OK)
        return 1;
    wrong += expect(e.status == FORELINE_OK && !*e.message, "success leaves no message");
    wrong += expect(foreline_predict(plan, NULL, &exact, NULL) == FORELINE_OK, "NULL is simgrid");
    wrong += expect(foreline_predict(plan, "analytic", &quick, NULL) == FORELINE_OK, "analytic");
    wrong += expect(foreline_predict(plan, "abacus", &quick, &e) != FORELINE_OK && *e.message &&
                        !strchr(e.message, '\n'),
                    "an unknown engine is one line");
    wrong += expect(exact.busy + exact.exposed + exact.idle > 0.999 &&
                        exact.busy + exact.exposed + exact.idle < 1.001,
                    "shares are of the whole");
    wrong += expect(foreline_plan_read("nowhere.json", &none, &e) == FORELINE_IO && !none,
                    "no file is no plan");
    setenv("FORELINE_LIMITS", "json=0", 1);
    wrong += expect(foreline_plan_read(argv[1], &none, &e) == FORELINE_IO && !none &&
                        strstr(e.message, "larger than") != NULL,
                    "the environment says limits");
    setenv("FORELINE_LIMITS", "json=64", 1);
    wrong += expect(foreline_model_load("gpt-tiny", &model, NULL) == FORELINE_OK &&
                        foreline_model_describe(model).ops > 0 &&
                        foreline_model_describe(model).parameters > 0,
                    "a model has ops and parameters");
    wrong += expect(foreline_platform_load("two-racks", &platform, NULL) == FORELINE_OK &&
                        foreline_platform_devices(platform) == strtoul(argv[2], NULL, 10) &&
                        foreline_platform_device(platform, 0) &&
                        !foreline_platform_device(platform, foreline_platform_devices(platform)),
                    "a platform names its devices");
    const struct foreline_setting twice[] = {{"stages", "2"}, {"seed", "7"}, {"stagse", "2"}};
    wrong += expect(foreline_plan_make(model, platform, twice, 3, &none, &e) == FORELINE_USAGE &&
                        strstr(e.message, "stages"),
                    "a setting that is none, with the nearest");
    wrong += expect(foreline_plan_make(model, platform, twice, 2, &none, &e) == FORELINE_OK && none,
                    "two settings");
    wrong += expect(strstr(foreline_library_version(), "foreline") != NULL, "the version");
    printf("%.17g\n", quick.iteration_s);
    foreline_plan_free(none);
    foreline_plan_free(plan);
    foreline_plan_free(NULL);
    foreline_model_free(model);
    foreline_model_free(NULL);
    foreline_platform_free(platform);
    foreline_platform_free(NULL);
    return wrong > 0;
}
