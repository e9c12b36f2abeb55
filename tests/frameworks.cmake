# Plans from and to the arguments of other frameworks.
unit_test(frameworks LIBS random_plan study)
unit_test(launch_files LIBS study)
# Exports of each framework against the table of its arguments, and that against their sources
add_test(NAME plan.launch_arguments
  COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/launch_arguments.py $<TARGET_FILE:foreline> 8)
add_test(NAME plan.launch_arguments_many
  COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/launch_arguments.py $<TARGET_FILE:foreline> 60)
add_test(NAME plan.launch_definitions COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/launch_definitions.py)
set_tests_properties(plan.launch_arguments_many PROPERTIES LABELS long TIMEOUT 1800)
set_tests_properties(plan.launch_definitions PROPERTIES LABELS long SKIP_RETURN_CODE 77)
# Megatron-LM's own parser, where $FORELINE_MEGATRON_LM names a checkout
add_test(NAME plan.megatron_arguments
  COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/megatron_arguments.py $<TARGET_FILE:foreline> 30)
set_tests_properties(plan.megatron_arguments PROPERTIES LABELS long SKIP_RETURN_CODE 77 TIMEOUT 1800)
# DeepSeek-V3 as published: 80 s without sanitizers
add_test(NAME plan.deepseek_v3 COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/deepseek_v3.py $<TARGET_FILE:foreline>)
set_tests_properties(plan.deepseek_v3 PROPERTIES LABELS long TIMEOUT 1800)
