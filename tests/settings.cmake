# Every option of every command: read, obeyed or refused.
unit_test(settings LIBS study)
add_test(NAME cli.options COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/options.sh $<TARGET_FILE:foreline>)
set_tests_properties(cli.options PROPERTIES LABELS cli TIMEOUT 120)
