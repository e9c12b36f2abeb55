# The layers and the stage once more with `real` = double, to compare with finite differences.
include(${PROJECT_SOURCE_DIR}/exec/device/cpu/sources.cmake)
add_library(cpu_double STATIC ${CPU_SOURCES} ${PROJECT_SOURCE_DIR}/exec/element.c)
target_compile_definitions(cpu_double PUBLIC EXEC_REAL=double)
target_link_libraries(cpu_double PUBLIC core PRIVATE ${CPU_LIBRARIES})

add_library(tiny OBJECT tiny.c)
target_link_libraries(tiny PUBLIC core)

unit_test(corpus LIBS exec)
unit_test(cpu_layers LIBS exec tiny)
target_sources(test_cpu_layers PRIVATE layer_call.c) # in float
add_library(layer_call OBJECT layer_call.c)
target_link_libraries(layer_call PUBLIC cpu_double)
unit_test(cpu_gradients LIBS cpu_double model tiny layer_call)
add_library(kind_case OBJECT kind_case.c)
target_link_libraries(kind_case PUBLIC cpu_double model layer_call)
unit_test(cpu_kinds LIBS kind_case layer_call cpu_double model)
unit_test(cpu_images LIBS kind_case layer_call cpu_double model)
unit_test(cpu_routing LIBS kind_case layer_call cpu_double model)
unit_test(cpu_device LIBS exec tiny)
unit_test(cpu_open LIBS exec tiny)
unit_test(paced LIBS exec tiny)
