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
# Pages that show commands run them. What pages show is read again when one of them changes.
file(GLOB_RECURSE pages RELATIVE ${PROJECT_SOURCE_DIR}/docs CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/*.md)
list(FILTER pages EXCLUDE REGEX "^(results|decisions)/")
foreach(page IN LISTS pages ITEMS ../README.md)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/${page})
    file(STRINGS ${PROJECT_SOURCE_DIR}/docs/${page} shown LIMIT_COUNT 1 REGEX "^    [$] ")
    if(shown)
        string(REGEX REPLACE "^[.][.]/|[.]md$" "" name ${page})
        string(REPLACE "/" "." name ${name})
        add_test(NAME docs.page.${name} COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/page.sh ${quick}/bin/foreline
            ${PROJECT_SOURCE_DIR}/docs/${page})
        set_tests_properties(docs.page.${name} PROPERTIES LABELS golden TIMEOUT 120)
    endif()
endforeach()
add_test(NAME docs.commands COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/shown_commands.py $<TARGET_FILE:foreline>
    ${PROJECT_SOURCE_DIR})
# The calls that no page runs by "    $ ": the quick ones here, all of them in docs.run_commands_all.
set(run_commands ${CMAKE_CURRENT_SOURCE_DIR}/run_commands.py ${quick}/bin/foreline ${PROJECT_SOURCE_DIR})
add_test(NAME docs.run_commands COMMAND ${run_commands} --short)
add_test(NAME docs.run_commands_all COMMAND ${run_commands})
set_tests_properties(docs.run_commands_all PROPERTIES LABELS long TIMEOUT 1200)
add_test(NAME docs.llms COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/llms.py ${quick}/bin/foreline ${PROJECT_SOURCE_DIR}/llms.txt)
add_test(NAME docs.site COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/site.sh $<TARGET_FILE:foreline> ${PROJECT_SOURCE_DIR})
set_tests_properties(docs.site PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 300)
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
