# foreline-lab: the scoreboard of published runs and fits of constants; and a foreline without it.
add_test(NAME lab.call COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/lab.sh $<TARGET_FILE:foreline>)
set_tests_properties(lab.call PROPERTIES LABELS cli TIMEOUT 60)
if(FORELINE_LAB)
    unit_test(published LIBS lab)
    unit_test(published_fit LIBS lab)
    unit_test(kernel_fit LIBS random_plan lab)
    foreach(part IN ITEMS small page)
        add_test(NAME lab.kernel_tables.${part} COMMAND /usr/bin/env python3 ${CMAKE_CURRENT_SOURCE_DIR}/kernel_tables.py
            ${PROJECT_SOURCE_DIR} $<TARGET_FILE:foreline> ${part})
        set_tests_properties(lab.kernel_tables.${part} PROPERTIES LABELS cli SKIP_RETURN_CODE 77)
    endforeach()
    set_tests_properties(lab.kernel_tables.page PROPERTIES LABELS long TIMEOUT 1800)
    foreach(command IN ITEMS kernels scoreboard)
        add_test(NAME options.${command} COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/walk_options.sh
            $<TARGET_FILE:foreline> $<TARGET_FILE:list_options> ${command})
        set_tests_properties(options.${command} PROPERTIES LABELS cli TIMEOUT 600)
    endforeach()
    set_tests_properties(options.scoreboard PROPERTIES LABELS "cli;long") # each call predicts ten runs
endif()
