unit_test(compare LIBS core)
unit_test(plots LIBS plots measured)
unit_test(plot_kinds LIBS plots)
unit_test(plot_marks LIBS plots)
unit_test(page LIBS plots)
unit_test(plot_detail LIBS plots)
unit_test(plot_graph LIBS plots)

add_test(NAME plots.trace_large
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/trace_large.sh $<TARGET_FILE:foreline>)
set_tests_properties(plots.trace_large PROPERTIES LABELS long TIMEOUT 600 SKIP_RETURN_CODE 77)
add_test(NAME plots.pdf COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/plot_pdf.py $<TARGET_FILE:foreline>)
add_test(NAME plots.options COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/plot_options.py $<TARGET_FILE:foreline>)
set_tests_properties(plots.options PROPERTIES SKIP_RETURN_CODE 77)

# Reports in a browser.
add_test(NAME report.page COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/report_page.py $<TARGET_FILE:foreline>
    ${CMAKE_CURRENT_BINARY_DIR}/report-page)
set_tests_properties(report.page PROPERTIES LABELS long TIMEOUT 600 SKIP_RETURN_CODE 77 RUN_SERIAL TRUE)
