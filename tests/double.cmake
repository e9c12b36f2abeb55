add_subdirectory(double)
