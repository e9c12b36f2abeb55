add_library(sample STATIC sample.c)
target_link_libraries(sample PUBLIC core PRIVATE m)
target_compile_definitions(sample PRIVATE _DEFAULT_SOURCE)

unit_test(units LIBS sample)
unit_test(files LIBS sample)
unit_test(program LIBS sample)
unit_test(engines LIBS sim sample)
unit_test(partition LIBS partition sample)
