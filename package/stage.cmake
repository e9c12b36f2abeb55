# Between installation and packing: what Debian wants in every package (copyright, changelog, compressed manuals), and what is
# linked, with its licence: NOTICE and an SBOM (SPDX 2.3) of each package that has programs.
set(version ${CPACK_DEBIAN_PACKAGE_VERSION})
string(TIMESTAMP when "%a, %d %b %Y %H:%M:%S +0000" UTC) # of SOURCE_DATE_EPOCH, which deb.cmake sets
foreach(component IN LISTS CPACK_COMPONENTS_ALL)
    string(TOUPPER ${component} upper)
    set(name ${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
    set(root ${CPACK_TEMPORARY_DIRECTORY}/${component})
    set(doc ${root}/usr/share/doc/${name})
    file(MAKE_DIRECTORY ${doc})
    file(COPY ${CPACK_FORELINE_SOURCE}/package/copyright DESTINATION ${doc})
    file(WRITE ${doc}/changelog "foreline (${version}) unstable; urgency=medium

  * Built from the commit that the version names; what is new is said by
    CHANGELOG.md of foreline-doc.

 -- ${CPACK_DEBIAN_PACKAGE_MAINTAINER}  ${when}
")
    file(GLOB pages ${root}/usr/share/man/man*/*.[0-9])
    execute_process(COMMAND gzip -9nf ${doc}/changelog ${pages} COMMAND_ERROR_IS_FATAL ANY)
    execute_process(COMMAND ${CPACK_FORELINE_SOURCE}/package/sbom.sh ${root} ${name} ${version} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
