add_library(promise STATIC promise.c)
target_link_libraries(promise PUBLIC study PRIVATE m)
