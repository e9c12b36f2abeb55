unit_test(tcp LIBS exec)
