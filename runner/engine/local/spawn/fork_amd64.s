#include "textflag.h"

// The child runs on the parent's stack and overwrites the return address that
// lies there, so it is carried over the call in a register of each side's own.

// func vfork(flags uintptr, pid *int32) (ret int)
TEXT ·vfork(SB), NOSPLIT|NOFRAME, $0-24
	MOVQ flags+0(FP), DI
	MOVQ pid+8(FP), DX
	XORL SI, SI
	XORL R10, R10
	XORL R8, R8
	XORL R9, R9
	MOVL $56, AX // SYS_clone
	POPQ R13
	SYSCALL
	PUSHQ R13
	MOVQ AX, ret+16(FP)
	RET

// func vfork3(args *cloneArgs) (ret int)
TEXT ·vfork3(SB), NOSPLIT|NOFRAME, $0-16
	MOVQ args+0(FP), DI
	MOVL $64, SI
	MOVL $435, AX // SYS_clone3
	POPQ R13
	SYSCALL
	PUSHQ R13
	MOVQ AX, ret+8(FP)
	RET
