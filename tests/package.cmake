# Packages: built twice and looked at, then installed on a bare Debian.
set(packages ${CMAKE_CURRENT_BINARY_DIR}/packages)
add_test(NAME package.build COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/package.sh ${PROJECT_SOURCE_DIR} ${packages})
set_tests_properties(package.build PROPERTIES LABELS long SKIP_RETURN_CODE 77 TIMEOUT 1800 FIXTURES_SETUP packages)
add_test(NAME package.chroot
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/package_chroot.sh ${packages})
set_tests_properties(package.chroot PROPERTIES LABELS long SKIP_RETURN_CODE 77 TIMEOUT 900 FIXTURES_REQUIRED packages)
