pkg_check_modules(ZLIB REQUIRED IMPORTED_TARGET zlib)
pkg_check_modules(SQLITE REQUIRED IMPORTED_TARGET sqlite3)
unit_test(measured LIBS measured PkgConfig::ZLIB)
unit_test(measured_layers LIBS measured PkgConfig::SQLITE)
unit_test(measured_nsys LIBS measured PkgConfig::SQLITE)

# Traces of other people's runs, where there are some beside the project, against a count of its own.
add_test(NAME measured.real_traces COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/real_traces.sh $<TARGET_FILE:foreline>
    ${FORELINE_WORKLOADS}/real)
set_tests_properties(measured.real_traces PROPERTIES TIMEOUT 300 SKIP_RETURN_CODE 77)
