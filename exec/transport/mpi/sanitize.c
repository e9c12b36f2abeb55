/* Open MPI keeps what it allocates until the process ends, partly in plugins that are unloaded by
 * then: LeakSanitizer's report would be about it, so executables with MPI do without. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}
