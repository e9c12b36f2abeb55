# foreline-explore: the page of `foreline explore`, as a browser and as others ask it.
if(FORELINE_EXPLORE)
    add_test(NAME cli.explore COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/explore.py $<TARGET_FILE:foreline>)
    set_tests_properties(cli.explore PROPERTIES LABELS cli TIMEOUT 120)
    # In Chromium, with screenshots in this tree.
    add_test(NAME explore.page COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/explore_page.py $<TARGET_FILE:foreline>
        ${CMAKE_CURRENT_BINARY_DIR}/explore-page)
    set_tests_properties(explore.page PROPERTIES LABELS long TIMEOUT 600 SKIP_RETURN_CODE 77 RUN_SERIAL TRUE)
endif()
