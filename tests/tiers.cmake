unit_test(tiers LIBS partition sim topologies sample)
unit_test(hierarchical LIBS partition sample)
