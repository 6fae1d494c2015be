# find_package(neuron-mem-nrt) gives the target neuron-mem::nrt. Installed in PREFIX/lib/cmake/neuron-mem-nrt.
get_filename_component(_neuron_mem_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET neuron-mem::nrt)
  add_library(neuron-mem::nrt SHARED IMPORTED)
  set_target_properties(neuron-mem::nrt PROPERTIES
    IMPORTED_LOCATION "${_neuron_mem_prefix}/lib/libnrt.so.1"
    IMPORTED_SONAME "libnrt.so.1"
    INTERFACE_INCLUDE_DIRECTORIES "${_neuron_mem_prefix}/include")
endif()
unset(_neuron_mem_prefix)
