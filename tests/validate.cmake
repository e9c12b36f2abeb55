# What does not need the whole command is tested apart from it.
unit_test(validate LIBS study)
unit_test(point_runs LIBS study sample)
target_sources(test_point_runs PRIVATE point_device.c)

add_test(NAME validate
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/validate.sh $<TARGET_FILE:foreline>)
set_tests_properties(validate PROPERTIES LABELS cli TIMEOUT 300)
