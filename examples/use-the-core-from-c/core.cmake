# foreline-core: core and partition as one shared library, which needs libm, jansson, nettle and the C library
# only, and an example that plans and simulates with it.
add_library(foreline-core SHARED $<TARGET_OBJECTS:core> $<TARGET_OBJECTS:partition>)
target_link_libraries(foreline-core PUBLIC flags PRIVATE packaged_jansson packaged_nettle m)
target_link_options(foreline-core PRIVATE -Wl,--no-undefined)
set_target_properties(foreline-core PROPERTIES LINKER_LANGUAGE C)
add_executable(core_plan examples/use-the-core-from-c/core_plan.c)
target_link_libraries(core_plan PRIVATE foreline-core)
if(BUILD_TESTING)
    add_test(NAME core.plan COMMAND ${PROJECT_SOURCE_DIR}/tests/core_plan.sh $<TARGET_FILE:core_plan>
        ${PROJECT_SOURCE_DIR}/examples/use-the-core-from-c/core_plan.json $<TARGET_FILE:foreline-core>)
endif()
