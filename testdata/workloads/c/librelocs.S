// A library of RELOCS functions, named relocs_0 and so on, and as many words that hold their addresses.
	.altmacro
	.macro one n
	.globl relocs_\n
	.type relocs_\n, %function
relocs_\n:
	ret
	.size relocs_\n, . - relocs_\n
	.endm
	.macro word n
	.quad relocs_\n
	.endm

	.text
	.set i, 0
	.rept RELOCS
	one %i
	.set i, i + 1
	.endr

	.data
	.balign 8
	.set i, 0
	.rept RELOCS
	word %i
	.set i, i + 1
	.endr

	.section .note.GNU-stack, "", %progbits
