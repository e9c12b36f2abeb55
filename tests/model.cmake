unit_test(zoo LIBS model sample)
unit_test(execution LIBS model sample)
unit_test(onnx LIBS model)
unit_test(architecture LIBS model)

add_test(NAME capture.traces COMMAND /usr/bin/python3 ${CMAKE_CURRENT_SOURCE_DIR}/import_traces.py $<TARGET_FILE:foreline> 60)
set_tests_properties(capture.traces PROPERTIES TIMEOUT 120)

# torch and the onnx package are the truth here; Debian's python3-torch and python3-onnx.
foreach(name onnx_random onnx_real export capture capture_model api validate)
    set(program $<TARGET_FILE:foreline>)
    if(name STREQUAL api) # it loads the library into a Python without sanitizers
        set(program ${quick}/bin/foreline)
    endif()
    add_test(NAME torch.${name} COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/torch/run ${name} ${program} ${FORELINE_WORKLOADS}/real)
    set_tests_properties(torch.${name} PROPERTIES LABELS torch TIMEOUT 300 SKIP_RETURN_CODE 77)
endforeach()
