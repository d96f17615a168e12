# Call frame information that compilers rarely or never write.
	.text
	.cfi_sections .eh_frame

	.globl root
root:	.cfi_startproc
	.cfi_undefined rip
	nop
	.cfi_endproc

	.globl states
states:	.cfi_startproc
	push %rbx
	.cfi_adjust_cfa_offset 8
	.cfi_offset rbx, -16
	.cfi_remember_state
	push %rbp
	.cfi_adjust_cfa_offset 8
	.cfi_offset rbp, -24
	nop
	pop %rbp
	.cfi_restore_state
	pop %rbx
	.cfi_adjust_cfa_offset -8
	.cfi_restore rbx
	ret
	.cfi_endproc

	.globl in_registers
in_registers: .cfi_startproc
	pop %rdi
	.cfi_adjust_cfa_offset -8
	.cfi_register rip, rdi
	nop
	.cfi_register rbp, r9
	nop
	.cfi_same_value rbp
	push %rdi
	.cfi_adjust_cfa_offset 8
	.cfi_offset rip, -8
	nop
	.cfi_undefined rbp
	ret
	.cfi_endproc

# rbp and rbx by expressions relative to rbp, the CFA from memory there
	.globl realigned
realigned: .cfi_startproc
	nop
	.cfi_escape 0x0f, 3, 0x76, 0x78, 0x06		# CFA = *(rbp-8)
	.cfi_escape 0x10, 6, 2, 0x76, 0			# rbp at rbp+0
	.cfi_escape 0x10, 3, 2, 0x76, 0x70		# rbx at rbp-16
	nop
	.cfi_escape 0x0f, 5, 0x77, 0x88, 0x01, 0x06, 0x96	# CFA = *(rsp+136), nop
	nop
	.cfi_escape 0x0f, 6, 0x77, 16, 0x06, 0x23, 0xc0, 0	# CFA = *(rsp+16) + 64
	nop
	.cfi_escape 0x0f, 5, 0x92, 13, 8, 0x38, 0x22	# CFA = r13+8 + 8
	ret
	.cfi_endproc

# what no rule can say
	.globl strange
strange: .cfi_startproc
	nop
	.cfi_escape 0x0f, 7, 0x77, 8, 0x79, 0, 0x38, 0x1e, 0x22	# rsp+8 + r9*8
	nop
	.cfi_def_cfa rsp, 8
	.cfi_val_offset rip, -8
	nop
	.cfi_offset rip, -8
	.cfi_register rsp, r8
	nop
	.cfi_val_offset rsp, 0
	.cfi_offset rbp, -16
	.cfi_escape 0x16, 3, 2, 0x77, 0			# rbx is rsp+0
	nop
	.cfi_escape 0x1f				# an unknown instruction
	nop
	.cfi_endproc

	.globl restorer
	nop
	.cfi_startproc simple
	.cfi_signal_frame
	.cfi_escape 0x0f, 4, 0x77, 0xa0, 0x01, 0x06
	.cfi_escape 0x10, 16, 3, 0x77, 0xa8, 0x01
	nop
restorer:
	mov $15, %rax
	syscall
	.cfi_endproc

# 'S' alone does not make a signal frame of ordinary code
	.globl exact
exact:	.cfi_startproc
	.cfi_signal_frame
	nop
	ret
	.cfi_endproc

# no call frame information
	.skip 20, 0x90

	.globl personality
personality: .cfi_startproc
	.cfi_personality 0x9b, there
	.cfi_lsda 0x1b, lsda
	push %rbp
	.cfi_def_cfa_offset 16
	.cfi_offset rbp, -16
	mov %rsp, %rbp
	.cfi_def_cfa_register rbp
	.cfi_escape 0x2e, 16				# DW_CFA_GNU_args_size
	leave
	.cfi_def_cfa rsp, 8
	ret
	.cfi_endproc

	.data
there:	.quad 0
lsda:	.long 0
