unit_test(compare LIBS core)
unit_test(plots LIBS plots)
