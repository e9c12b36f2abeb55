file(GLOB cases CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/cli/*/args)
foreach(args IN LISTS cases)
    get_filename_component(case ${args} DIRECTORY)
    get_filename_component(name ${case} NAME)
    if(name STREQUAL "algorithms" AND NOT METIS_LIBRARY)
        continue() # the table says otherwise there
    endif()
    if(name MATCHES "^lab-" AND NOT FORELINE_LAB)
        continue()
    endif()
    add_test(NAME cli.${name}
        COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/cli.sh $<TARGET_FILE:foreline> ${case})
    set_tests_properties(cli.${name} PROPERTIES LABELS "cli;golden" TIMEOUT 120)
endforeach()

add_test(NAME cli.help COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/cli_help.sh $<TARGET_FILE:foreline>)

add_test(NAME cli.limits COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/limits.sh $<TARGET_FILE:foreline>)
set_tests_properties(cli.limits PROPERTIES LABELS cli TIMEOUT 120)

add_test(NAME cli.paths COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/cli_paths.sh $<TARGET_FILE:foreline>)
set_tests_properties(cli.paths PROPERTIES LABELS cli TIMEOUT 120)

add_test(NAME docs.seeds COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/seeds.sh ${quick}/bin/foreline
    ${PROJECT_BINARY_DIR} ${PROJECT_SOURCE_DIR}/docs/results/seeds.md)
add_test(NAME cli.library COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/library.sh ${PROJECT_BINARY_DIR}
    ${CMAKE_C_COMPILER} -g $<IF:$<BOOL:${FORELINE_SANITIZE}>,-fsanitize=address$<COMMA>undefined,-O2>)
add_test(NAME cli.tutorial COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/tutorial.sh ${quick}/bin/foreline
    ${PROJECT_SOURCE_DIR}/docs/tutorial.md)
add_test(NAME docs.explain COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/tutorial.sh $<TARGET_FILE:foreline>
    ${PROJECT_SOURCE_DIR}/docs/planning.md Explaining)
set_tests_properties(cli.tutorial docs.explain PROPERTIES LABELS golden)
# After a change of what is printed: everything that shows it, golden files and pages; then read the difference.
add_custom_target(renew COMMAND ${CMAKE_COMMAND} -E env RENEW=1 ${CMAKE_CTEST_COMMAND} -L golden --output-on-failure
    DEPENDS foreline USES_TERMINAL)
add_test(NAME cli.install COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/install.sh ${PROJECT_BINARY_DIR})
add_test(NAME cli.yardstick COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/yardstick.sh $<TARGET_FILE:foreline>)
add_test(NAME cli.modules COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/modules.sh $<TARGET_FILE:foreline>)
set_tests_properties(cli.modules PROPERTIES LABELS cli)

add_test(NAME loop COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/loop.sh ${quick}/bin/foreline)
set_tests_properties(loop PROPERTIES LABELS loop TIMEOUT 300)

add_test(NAME cli.examples
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/cli_examples.sh $<TARGET_FILE:foreline> ${PROJECT_SOURCE_DIR})
set_tests_properties(cli.examples PROPERTIES LABELS "cli;long" TIMEOUT 1200)

add_test(NAME cli.completion COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/completion.sh $<TARGET_FILE:foreline>)
set_tests_properties(cli.completion PROPERTIES LABELS cli SKIP_RETURN_CODE 77 TIMEOUT 120)
