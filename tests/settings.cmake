# Every option of every command: read, obeyed or refused.
unit_test(settings LIBS study)
unit_test(strategy LIBS study)
unit_test(rules LIBS study)
unit_test(run_config LIBS study)
unit_test(framework_choice LIBS study random_plan)
unit_test(matching LIBS study random_plan)
unit_test(launchable LIBS study)
add_test(NAME cli.options COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/options.sh $<TARGET_FILE:foreline>)
set_tests_properties(cli.options PROPERTIES LABELS cli TIMEOUT 120)

add_executable(list_options list_options.c)
target_link_libraries(list_options PRIVATE study)
foreach(command IN ITEMS bench calibrate compare emulate measurement model plan plot report run simulate sweep topology validate)
    set(walked $<TARGET_FILE:foreline>)
    if(command MATCHES "^(bench|simulate)$") # hundreds of calls, each with a process for SimGrid
        set(walked ${quick}/bin/foreline)
    endif()
    add_test(NAME options.${command} COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/walk_options.sh
        ${walked} $<TARGET_FILE:list_options> ${command})
    set_tests_properties(options.${command} PROPERTIES LABELS cli TIMEOUT 600)
endforeach()
# Minutes each: every option of them is tried in several runs of workers or searches.
set_tests_properties(options.calibrate options.emulate options.plan options.run options.validate
    PROPERTIES LABELS "cli;long" TIMEOUT 1800)
