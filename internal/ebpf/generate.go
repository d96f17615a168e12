package ebpf

// The two variants of the walk (bpf/core/drive.h), for each architecture. The objects are committed: building needs no
// clang.
//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -go-package abi -output-dir abi -target amd64,arm64 -type rule -type block -type go_table -type mapping -type process -type sample -type registers -type counters -type cfa_kind -type cfa_note -type ra_kind -type save_kind -type stop_reason -type frame_word -type limits -type mapping_flag -type sample_flag -type trigger -type walk_program -type runtime -type runtime_owner -type python_proc -type python_thread -type python_flag -type python_limits -type hotspot_proc -type hotspot_heap -type hotspot_kind -type hotspot_flag -type hotspot_limits -type v8_proc -type v8_part -type v8_frame -type v8_limits Loop ../../bpf/profiler.bpf.c -- -O2 -Wall -Werror -DVARIANT_LOOP -I/usr/include/x86_64-linux-gnu
//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -go-package abi -output-dir abi -target amd64,arm64 -no-global-types Tail ../../bpf/profiler.bpf.c -- -O2 -Wall -Werror -DVARIANT_TAIL -I/usr/include/x86_64-linux-gnu
