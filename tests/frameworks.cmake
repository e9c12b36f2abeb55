# Plans from and to the arguments of other frameworks.
unit_test(frameworks LIBS random_plan study)
unit_test(launch_files LIBS study)
# Megatron-LM's own parser, where $FORELINE_MEGATRON_LM names a checkout
add_test(NAME plan.megatron_arguments
  COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/megatron_arguments.py $<TARGET_FILE:foreline> 30)
set_tests_properties(plan.megatron_arguments PROPERTIES LABELS long SKIP_RETURN_CODE 77 TIMEOUT 1800)
