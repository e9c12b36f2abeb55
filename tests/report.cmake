unit_test(breakdown LIBS sim sample)
unit_test(perturb LIBS lowered)

add_test(NAME plan.interrupt
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/plan_interrupt.sh $<TARGET_FILE:foreline>)
add_test(NAME plan.cpu COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/plan_cpu.sh $<TARGET_FILE:foreline>)
unit_test(plan_text LIBS study)
unit_test(difference LIBS random_plan study)
set_tests_properties(plan.interrupt PROPERTIES LABELS cli TIMEOUT 120)
foreach(script IN ITEMS json interrupt)
    add_test(NAME simulate.${script}
        COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/simulate_${script}.sh $<TARGET_FILE:foreline>)
    set_tests_properties(simulate.${script} PROPERTIES LABELS cli TIMEOUT 120)
endforeach()
