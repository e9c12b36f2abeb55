add_library(sample STATIC sample.c)
target_link_libraries(sample PUBLIC core PRIVATE m)
target_compile_definitions(sample PRIVATE _DEFAULT_SOURCE)

unit_test(units LIBS sample)
unit_test(files LIBS sample)
unit_test(program LIBS sample)
unit_test(engines LIBS sim sample)
unit_test(partition LIBS partition sample)
unit_test(shipped LIBS model partition sim topologies)

add_test(NAME lint.layers COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/lint_layers.sh ${PROJECT_SOURCE_DIR})
add_test(NAME lint.format COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/lint_format.sh ${PROJECT_SOURCE_DIR})
set_tests_properties(lint.layers lint.format PROPERTIES LABELS lint SKIP_RETURN_CODE 77)
