# foreline-explore: the page of `foreline explore`, as a browser and as others ask it.
if(FORELINE_EXPLORE)
    add_test(NAME cli.explore COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/explore.py $<TARGET_FILE:foreline>)
    set_tests_properties(cli.explore PROPERTIES LABELS cli TIMEOUT 120)
endif()
