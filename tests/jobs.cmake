# Several jobs on one platform.
unit_test(jobs LIBS lowered random_plan study)
