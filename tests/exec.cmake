add_library(toy STATIC toy.c fake_device.c mesh.c)
target_link_libraries(toy PUBLIC core exec PRIVATE PkgConfig::cmocka Threads::Threads)

unit_test(tcp LIBS toy exec Threads::Threads)
unit_test(tcp_faults LIBS toy exec Threads::Threads)
unit_test(rendezvous LIBS exec Threads::Threads)
unit_test(executor LIBS toy exec Threads::Threads)
unit_test(calibrate LIBS model exec)
unit_test(launch LIBS toy exec)

add_executable(fake_worker fake_worker.c)
target_link_libraries(fake_worker PRIVATE toy exec PkgConfig::cmocka)
add_dependencies(test_launch fake_worker)
target_compile_definitions(test_launch PRIVATE FAKE_WORKER="$<TARGET_FILE:fake_worker>")

add_test(NAME exec.run
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/exec_run.sh ${PROJECT_BINARY_DIR}/bin)
add_test(NAME exec.calibrate
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/exec_calibrate.sh ${PROJECT_BINARY_DIR}/bin)
set_tests_properties(exec.run exec.calibrate PROPERTIES TIMEOUT 300)
