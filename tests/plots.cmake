unit_test(compare LIBS core)
unit_test(plots LIBS plots)
unit_test(plot_kinds LIBS plots)
unit_test(page LIBS plots)
