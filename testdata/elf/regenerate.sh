#!/bin/sh
# Compiles src into the small ELF files of this directory and writes the golden tables of internal/unwind/ehframe anew.
# Needs gcc, clang, their cross compilers for arm64, lld and mold (Debian: gcc clang llvm lld mold
# gcc-aarch64-linux-gnu); what is committed was made with gcc 12.2, clang and lld 14, mold 1.10.
set -eu
cd "$(dirname "$0")"

small="-shared -nostdlib -fPIC -Wl,--build-id=none -Wl,-z,noseparate-code -Wl,-z,max-page-size=4096 -Wl,-z,norelro -Wl,--hash-style=gnu"
arm=aarch64-linux-gnu

gcc $small -s -O2 -Wl,-z,lazy -o gcc_amd64.elf src/frames.c
gcc $small -s -O2 -Wl,-z,lazy -fcf-protection=full -Wl,-z,ibtplt -o ibt_amd64.elf src/frames.c
gcc $small -s -O0 -o frame_pointer_amd64.elf src/frames.c
# (the linker complains about an unknown instruction, which is there on purpose)
gcc $small -s -o cfi_amd64.elf src/cfi_amd64.s
clang $small -s -O2 -o clang_amd64.elf src/frames.c

$arm-gcc $small -s -O2 -mbranch-protection=standard -o gcc_arm64.elf src/frames.c
clang --target=$arm -fuse-ld="$(command -v $arm-ld)" $small -s -O2 -o clang_arm64.elf src/frames.c
$arm-gcc $small -s -o cfi_arm64.elf src/cfi_arm64.s

# linkers that do not describe the stubs of imported functions
lld="$small -s -O2 -fuse-ld=lld -Wl,-z,lazy"
clang $lld -o lld_amd64.elf src/frames.c
gcc $lld -fcf-protection=full -Wl,-z,force-ibt -o lld_ibt_amd64.elf src/frames.c
gcc $small -s -O2 -fuse-ld=mold -Wl,-z,lazy -o mold_amd64.elf src/frames.c
clang --target=$arm $lld -o lld_arm64.elf src/frames.c
$arm-gcc $small -s -O2 -mbranch-protection=standard -Wl,-z,lazy -Wl,-z,force-bti -o bti_arm64.elf src/frames.c

# .debug_frame instead of .eh_frame, in the versions of DWARF and ways of compression
plain="-O2 -g -fno-asynchronous-unwind-tables -fno-unwind-tables -Wl,-z,lazy"
gcc $small $plain -gdwarf-3 -gz=none -o dwarf3_amd64.elf src/frames.c
gcc $small $plain -gdwarf-5 -gz=zlib -o dwarf5_amd64.elf src/frames.c
$arm-gcc $small $plain -gdwarf-4 -gz=zlib-gnu -o dwarf4_arm64.elf src/frames.c
for f in dwarf3_amd64.elf dwarf5_amd64.elf; do
	objcopy -R .debug_info -R .debug_abbrev -R .debug_line -R .debug_str -R .debug_line_str -R .debug_aranges \
		-R .debug_loclists -R .debug_rnglists -R .debug_loc -R .debug_ranges -R .comment $f
done
$arm-objcopy -R .zdebug_info -R .zdebug_abbrev -R .zdebug_line -R .zdebug_str -R .zdebug_loclists -R .zdebug_aranges \
	-R .zdebug_loc -R .comment dwarf4_arm64.elf

# no section headers: .eh_frame is found by its program header
llvm-objcopy --strip-sections gcc_amd64.elf sectionless_amd64.elf


(cd ../../internal/unwind/ehframe && go test -run TestGolden -update .)
