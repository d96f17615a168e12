// Call frame information that compilers rarely or never write.
	.text
	.cfi_sections .eh_frame

	.globl root
root:	.cfi_startproc
	.cfi_undefined x30
	nop
	.cfi_endproc

	.globl signed
signed:	.cfi_startproc
	paciasp
	.cfi_negate_ra_state
	stp x29, x30, [sp, -32]!
	.cfi_def_cfa_offset 32
	.cfi_offset x29, -32
	.cfi_offset x30, -24
	mov x29, sp
	.cfi_remember_state
	ldp x29, x30, [sp], 32
	.cfi_restore x29
	.cfi_restore x30
	.cfi_def_cfa_offset 0
	autiasp
	.cfi_negate_ra_state
	ret
	.cfi_restore_state
	nop
	.cfi_endproc

	.globl with_b_key
with_b_key: .cfi_startproc
	.cfi_b_key_frame
	pacibsp
	.cfi_negate_ra_state
	nop
	.cfi_endproc

	.globl other_register
other_register: .cfi_startproc
	mov x15, x30
	.cfi_register x30, x15
	nop
	.cfi_endproc

	.globl large
large:	.cfi_startproc
	.cfi_def_cfa_offset 400000
	nop
	.cfi_offset x30, -399992
	nop
	.cfi_offset x30, -8
	.cfi_offset x29, -399992
	nop
	.cfi_endproc

	.globl sigreturn
	nop
	.cfi_startproc
	.cfi_signal_frame
	.cfi_def_cfa x29, 0
	.cfi_offset x29, 0
	.cfi_offset x30, 8
	nop
sigreturn:
	mov x8, 139
	svc 0
	.cfi_endproc
