# Plans from and to the arguments of other frameworks.
unit_test(frameworks LIBS random_plan study)
unit_test(launch_files LIBS study)
