# What does not need the whole command is tested apart from it.
unit_test(validate LIBS sim partition)
target_sources(test_validate PRIVATE
    ${PROJECT_SOURCE_DIR}/cli/grid.c
    ${PROJECT_SOURCE_DIR}/cli/option.c
    ${PROJECT_SOURCE_DIR}/cli/plan_options.c
    ${PROJECT_SOURCE_DIR}/cli/validate_table.c)

add_test(NAME validate
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/validate.sh $<TARGET_FILE:foreline>)
set_tests_properties(validate PROPERTIES LABELS cli TIMEOUT 300)
