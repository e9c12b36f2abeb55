add_subdirectory(double)

# The surroundings of GPUs on the double: what users read, what profilers and logs are told, and the script
# for machines with GPUs.
set(bin ${PROJECT_BINARY_DIR}/bin)
add_test(NAME double.messages COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/double_messages.sh ${bin})
add_test(NAME double.calls COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/double_calls.sh ${bin})
set_tests_properties(double.messages double.calls PROPERTIES TIMEOUT 900)
set_tests_properties(double.calls PROPERTIES LABELS long) # 48 s
if(NOT FORELINE_SANITIZE) # it packs the command with its libraries, and takes minutes
    add_test(NAME bench.gpu COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/bench_gpu.sh ${bin}/foreline
        ${bin}/foreline-worker-double ${PROJECT_SOURCE_DIR}/bench/gpu.sh)
    set_tests_properties(bench.gpu PROPERTIES LABELS long TIMEOUT 1200)
endif()
find_program(FORELINE_NVCC_HERE nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES bin)
add_test(NAME double.ptx COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/ptx.sh ${PROJECT_SOURCE_DIR} ${FORELINE_NVCC_HERE})
set_tests_properties(double.ptx PROPERTIES TIMEOUT 600 SKIP_RETURN_CODE 77 LABELS long)
if(NVTX_INCLUDE)
    add_library(nvtx_tool MODULE nvtx_tool.c)
    target_include_directories(nvtx_tool SYSTEM PRIVATE ${NVTX_INCLUDE})
    target_link_libraries(nvtx_tool PRIVATE flags)
    set_target_properties(nvtx_tool PROPERTIES C_VISIBILITY_PRESET default) # a profiler finds it by name
    add_test(NAME double.ranges COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/double_ranges.sh ${bin}
        $<TARGET_FILE:nvtx_tool>)
    set_tests_properties(double.ranges PROPERTIES TIMEOUT 300)
endif()
