add_library(promise STATIC promise.c promise_search.c)
target_link_libraries(promise PUBLIC study PRIVATE m)
