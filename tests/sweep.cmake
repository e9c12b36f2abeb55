unit_test(auto_filters LIBS study sample)
# Searches every input many times, without one filter after the other: minutes.
set_tests_properties(unit.auto_filters PROPERTIES LABELS "unit;long" TIMEOUT 1200)
unit_test(auto_brute LIBS study)
set_tests_properties(unit.auto_brute PROPERTIES TIMEOUT 600)
add_test(NAME unit.auto_brute_more COMMAND test_auto_brute 40 1)
set_tests_properties(unit.auto_brute_more PROPERTIES LABELS long TIMEOUT 1200)
add_test(NAME plan.nested COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/nested.py ${quick}/bin/foreline few)
add_test(NAME plan.nested.long COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/nested.py $<TARGET_FILE:foreline> all)
set_tests_properties(plan.nested PROPERTIES TIMEOUT 300)
set_tests_properties(plan.nested.long PROPERTIES LABELS long TIMEOUT 1800)
foreach(case IN ITEMS "0 5 8 3" "5 60 8 3 gpipe" "60 120 8 4" "120 180 10 2 zb-h1" "180 220 10 3" "220 250 12 2")
    separate_arguments(words UNIX_COMMAND ${case})
    list(GET words 0 first)
    add_test(NAME plan.graphs.${first}
        COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/graphs.py ${quick}/bin/foreline exact ${words})
endforeach()
add_test(NAME plan.graphs.alone
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/graphs.py ${quick}/bin/foreline alone)
set_tests_properties(plan.graphs.5 plan.graphs.60 plan.graphs.120 plan.graphs.180 plan.graphs.220
    plan.graphs.alone PROPERTIES LABELS long TIMEOUT 3600)
add_test(NAME plan.workers COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/plan_workers.sh $<TARGET_FILE:foreline> few)
add_test(NAME plan.workers.long COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/plan_workers.sh ${quick}/bin/foreline all)
set_tests_properties(plan.workers.long PROPERTIES LABELS long TIMEOUT 3600)
unit_test(experiment LIBS study)
unit_test(sweep_database LIBS study)
target_compile_definitions(test_sweep_database PRIVATE _DEFAULT_SOURCE)
unit_test(pool LIBS study)

foreach(part IN ITEMS killed shards ranks interrupted faults runs pages retried progress examples hidup)
    set(command $<TARGET_FILE:foreline>)
    if(part STREQUAL "examples") # the shipped experiments
        set(command ${quick}/bin/foreline)
    endif()
    add_test(NAME sweep.${part}
        COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/sweep.sh ${command} ${part})
    set_tests_properties(sweep.${part} PROPERTIES LABELS sweep TIMEOUT 1200 SKIP_RETURN_CODE 77)
endforeach()
# Seven experiments of up to 120 plans.
set_tests_properties(sweep.hidup PROPERTIES LABELS "sweep;long")

add_test(NAME report.directory
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/report_directory.sh $<TARGET_FILE:foreline>)
set_tests_properties(report.directory PROPERTIES LABELS cli TIMEOUT 300 SKIP_RETURN_CODE 77)
add_test(NAME plan.recipes COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/recipes.py $<TARGET_FILE:foreline>)
set_tests_properties(plan.recipes PROPERTIES LABELS long TIMEOUT 3600)
