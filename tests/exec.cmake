add_library(toy STATIC toy.c fake_device.c mesh.c)
target_link_libraries(toy PUBLIC core exec PRIVATE PkgConfig::cmocka Threads::Threads)

unit_test(window LIBS toy exec)
unit_test(element LIBS exec m)
unit_test(rounds LIBS exec)
unit_test(tcp_faults LIBS toy exec Threads::Threads)
unit_test(local LIBS toy exec Threads::Threads)
unit_test(tcp_delay LIBS toy exec Threads::Threads)
unit_test(rendezvous LIBS exec Threads::Threads)
unit_test(star LIBS exec Threads::Threads)
unit_test(executor LIBS toy exec Threads::Threads)
unit_test(executor_sums LIBS exec)
add_library(trained STATIC trained.c)
target_link_libraries(trained PUBLIC toy sample exec model partition Threads::Threads
    PRIVATE PkgConfig::cmocka)
target_compile_definitions(trained PRIVATE SOURCE_DIR="${PROJECT_SOURCE_DIR}")
unit_test(parallel_run LIBS trained)
unit_test(stashing LIBS trained)
unit_test(training_options LIBS exec)
unit_test(parallel_models LIBS trained)
unit_test(parallel_images LIBS trained)
unit_test(parallel_encoders LIBS trained)
target_compile_definitions(test_parallel_encoders PRIVATE SOURCE_DIR="${PROJECT_SOURCE_DIR}")
# One weight of thousands whose gradient nearly cancels tells kernels apart, since Adam divides by it:
# with those that the tolerance was found with (OpenBLAS), not with oneDNN's (docs/reference/numerics.md).
set_tests_properties(unit.parallel_run unit.parallel_models PROPERTIES
    ENVIRONMENT "DNNL_MAX_CPU_ISA=SSE41")
unit_test(parallel_drawn LIBS trained)
unit_test(parallel_bytes LIBS trained)
unit_test(zero_memory LIBS toy sample exec model partition Threads::Threads)
set_tests_properties(unit.zero_memory PROPERTIES TIMEOUT 300)
add_test(NAME unit.zero_memory_more COMMAND test_zero_memory 120)
set_tests_properties(unit.zero_memory_more PROPERTIES LABELS long TIMEOUT 1200)
unit_test(rehearse LIBS toy sample exec model partition Threads::Threads)
unit_test(whole_tensors LIBS sample exec model partition)
unit_test(checkpoint LIBS exec)
unit_test(hosts LIBS exec)
unit_test(calibrate LIBS model exec)
unit_test(profile LIBS model exec)
set_tests_properties(unit.calibrate unit.profile PROPERTIES TIMEOUT 300)
unit_test(team LIBS exec Threads::Threads)
unit_test(launch LIBS toy exec)

# Every transport that there is keeps the same promises; over MPI every process is a rank.
unit_test(transport_contract LIBS toy exec Threads::Threads)
target_sources(test_transport_contract PRIVATE contract_collectives.c)
set_tests_properties(unit.transport_contract PROPERTIES TIMEOUT 300)
add_test(NAME contract.tcp.dead COMMAND test_transport_contract tcp dead)
add_test(NAME contract.local COMMAND test_transport_contract local)
add_test(NAME contract.local.dead COMMAND test_transport_contract local dead)
set_tests_properties(contract.local PROPERTIES TIMEOUT 300)
find_program(MPIRUN mpirun)
if(TARGET exec_mpi AND MPIRUN)
    target_link_libraries(test_transport_contract PRIVATE exec_mpi)
    target_compile_definitions(test_transport_contract PRIVATE WITH_MPI)
    foreach(ranks IN ITEMS 2 3 4)
        add_test(NAME contract.mpi.${ranks}
            COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/mpirun.sh ${ranks}
                $<TARGET_FILE:test_transport_contract> mpi)
        set_tests_properties(contract.mpi.${ranks} PROPERTIES TIMEOUT 300 SKIP_RETURN_CODE 77)
    endforeach()
    set_tests_properties(contract.mpi.3 contract.mpi.4 PROPERTIES LABELS long) # over 60 s with sanitizers
    add_test(NAME contract.mpi.dead
        COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/mpirun_dead.sh
            $<TARGET_FILE:test_transport_contract> mpi dead)
    set_tests_properties(contract.mpi.dead PROPERTIES TIMEOUT 120 SKIP_RETURN_CODE 77)
else()
    add_test(NAME contract.mpi
        COMMAND sh -c "echo 'skipped: Open MPI is not installed (libopenmpi-dev openmpi-bin)'; exit 77")
    set_tests_properties(contract.mpi PROPERTIES SKIP_RETURN_CODE 77)
endif()

add_executable(fake_worker fake_worker.c)
target_link_libraries(fake_worker PRIVATE toy exec PkgConfig::cmocka)
add_dependencies(test_launch fake_worker)
target_compile_definitions(test_launch PRIVATE FAKE_WORKER="$<TARGET_FILE:fake_worker>")

add_executable(failing_worker_tcp failing_worker_tcp.c failing_worker.c)
target_link_libraries(failing_worker_tcp PRIVATE exec)
if(TARGET exec_mpi)
    add_executable(failing_worker_mpi failing_worker_mpi.c failing_worker.c)
    target_link_libraries(failing_worker_mpi PRIVATE exec_mpi)
endif()
foreach(transport IN ITEMS tcp mpi)
    add_test(NAME exec.failures.${transport}
        COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/exec_failures.sh ${PROJECT_BINARY_DIR}/bin
            ${CMAKE_CURRENT_BINARY_DIR} ${transport})
    set_tests_properties(exec.failures.${transport} PROPERTIES TIMEOUT 300 SKIP_RETURN_CODE 77)
endforeach()

add_test(NAME exec.checkpoint
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/exec_checkpoint.sh ${PROJECT_BINARY_DIR}/bin
        ${CMAKE_CURRENT_BINARY_DIR})
set_tests_properties(exec.checkpoint PROPERTIES TIMEOUT 300)

add_test(NAME exec.graph
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/exec_graph.sh ${PROJECT_BINARY_DIR}/bin)
set_tests_properties(exec.graph PROPERTIES TIMEOUT 300)

add_test(NAME exec.pipedream
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/exec_pipedream.sh ${PROJECT_BINARY_DIR}/bin)
set_tests_properties(exec.pipedream PROPERTIES TIMEOUT 300)
add_test(NAME exec.clip
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/exec_clip.sh $<TARGET_FILE:foreline>
        ${CMAKE_CURRENT_SOURCE_DIR}/models)
set_tests_properties(exec.clip PROPERTIES TIMEOUT 300)
add_test(NAME exec.validate
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/exec_validate.sh ${PROJECT_BINARY_DIR}/bin)
set_tests_properties(exec.validate PROPERTIES TIMEOUT 300)
add_test(NAME exec.three_ways
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/exec_three_ways.sh ${PROJECT_BINARY_DIR}/bin)
# Pairs of settings that differ, over --launcher env.
set(ranks_agree /usr/bin/python3 ${CMAKE_CURRENT_SOURCE_DIR}/ranks_agree.py ${PROJECT_BINARY_DIR}/bin)
add_test(NAME exec.ranks_agree COMMAND ${ranks_agree} --pairs 5 --seed 3)
add_test(NAME exec.ranks_agree.long COMMAND ${ranks_agree} --pairs 80 --seed 7)
set_tests_properties(exec.ranks_agree.long PROPERTIES LABELS long TIMEOUT 600)
unit_test(agreement LIBS toy exec)
unit_test(reports LIBS toy exec)
add_test(NAME exec.core_type COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/core_type.sh $<TARGET_FILE:foreline>)
add_test(NAME exec.capacity COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/capacity.sh $<TARGET_FILE:foreline>)
set_tests_properties(exec.core_type PROPERTIES SKIP_RETURN_CODE 77)
add_test(NAME exec.refused COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/exec_refused.sh $<TARGET_FILE:foreline>)
add_test(NAME exec.interrupt COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/run_interrupt.sh $<TARGET_FILE:foreline>)
add_test(NAME exec.interrupt.long COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/run_interrupt.sh $<TARGET_FILE:foreline>)
set_tests_properties(exec.interrupt.long PROPERTIES LABELS long TIMEOUT 3600 ENVIRONMENT MILLION=1)
add_test(NAME exec.full_disk
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/exec_full_disk.sh ${PROJECT_BINARY_DIR}/bin)
set_tests_properties(exec.three_ways PROPERTIES TIMEOUT 300)
set_tests_properties(exec.full_disk PROPERTIES TIMEOUT 120 SKIP_RETURN_CODE 77)

add_test(NAME exec.run
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/exec_run.sh ${PROJECT_BINARY_DIR}/bin)
add_test(NAME exec.half
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/exec_half.sh ${PROJECT_BINARY_DIR}/bin
        ${CMAKE_CURRENT_SOURCE_DIR}/models)
set_tests_properties(exec.half PROPERTIES TIMEOUT 300)
add_test(NAME exec.config
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/run_config.sh $<TARGET_FILE:foreline>)
add_test(NAME exec.mpi
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/exec_mpi.sh ${PROJECT_BINARY_DIR}/bin)
set_tests_properties(exec.mpi PROPERTIES TIMEOUT 300 SKIP_RETURN_CODE 77)
add_test(NAME exec.collective
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/exec_collective.sh ${PROJECT_BINARY_DIR}/bin)
set_tests_properties(exec.collective PROPERTIES TIMEOUT 300)
add_test(NAME exec.local
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/exec_local.sh ${PROJECT_BINARY_DIR}/bin)
set_tests_properties(exec.local PROPERTIES TIMEOUT 300)
add_test(NAME exec.today
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/exec_today.sh ${PROJECT_BINARY_DIR}/bin
            ${CMAKE_CURRENT_SOURCE_DIR}/models)
set_tests_properties(exec.today PROPERTIES LABELS long TIMEOUT 600)
add_test(NAME exec.pippy
    COMMAND ${PROJECT_SOURCE_DIR}/bench/pippy.sh $<TARGET_FILE:foreline>)
set_tests_properties(exec.pippy PROPERTIES TIMEOUT 600 LABELS long)
add_test(NAME exec.strategies
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/exec_strategies.sh ${PROJECT_BINARY_DIR}/bin)
set_tests_properties(exec.strategies PROPERTIES TIMEOUT 300)
add_test(NAME exec.nccl
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/exec_nccl.sh ${PROJECT_BINARY_DIR}/bin)
set_tests_properties(exec.nccl PROPERTIES TIMEOUT 600 SKIP_RETURN_CODE 77)
add_test(NAME exec.calibrate
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/exec_calibrate.sh ${PROJECT_BINARY_DIR}/bin)
add_test(NAME exec.profile
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/exec_profile.sh ${PROJECT_BINARY_DIR}/bin)
set_tests_properties(exec.run exec.config exec.calibrate exec.profile PROPERTIES TIMEOUT 300)

# The executor on SimGrid's MPI.
unit_test(smpi LIBS toy sim)
add_test(NAME emulate.smpi
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/emulate_smpi.sh $<TARGET_FILE:foreline>)
set_tests_properties(emulate.smpi PROPERTIES TIMEOUT 300 SKIP_RETURN_CODE 77)

# Launchers that people have, on two machines in namespaces.
foreach(launcher IN ITEMS ssh slurm)
    add_test(NAME exec.launch_${launcher}
        COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/launch_${launcher}.sh $<TARGET_FILE:foreline>)
    set_tests_properties(exec.launch_${launcher} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 420)
endforeach()

# Runs in which something goes wrong, one event each (tests/torture). What is loaded before them has no sanitizers.
add_library(torture_shim MODULE torture/shim.c)
set_target_properties(torture_shim PROPERTIES C_VISIBILITY_PRESET default C_EXTENSIONS ON)
target_link_libraries(torture_shim PRIVATE ${CMAKE_DL_LIBS})
set(torture /usr/bin/python3 ${CMAKE_CURRENT_SOURCE_DIR}/torture/torture.py ${PROJECT_BINARY_DIR}/bin
    $<TARGET_FILE:torture_shim>)
add_test(NAME exec.torture COMMAND ${torture} --events 14 --seed 50 --scenarios tcp,mpi,local,netns,nccl)
add_test(NAME exec.torture.long COMMAND ${torture} --events 300 --seed 2)
# A mpirun that is stopped and continued before its daemons are there; a rank over mpi that loses its daemon while MPI starts.
add_test(NAME exec.torture.mpirun COMMAND ${torture} --seed 20261128 --numbers 202,1379 --hang 40 --jobs 2)
# Calls that are interrupted or do half while a network is made and a machine measured; its first process, asked to end.
add_test(NAME exec.torture.netns COMMAND ${torture} --seed 20261129 --numbers 48,204,1070 --hang 40 --jobs 2)
set_tests_properties(exec.torture exec.torture.long exec.torture.mpirun exec.torture.netns
    PROPERTIES TIMEOUT 1800 SKIP_RETURN_CODE 77)
set_tests_properties(exec.torture.long PROPERTIES LABELS long)
