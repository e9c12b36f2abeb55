unit_test(compare LIBS core)
