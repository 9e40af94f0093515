#include "textflag.h"

// The return address stays in the link register, which each side has for itself.

// func vfork(flags uintptr) (pid int)
TEXT ·vfork(SB), NOSPLIT|NOFRAME, $0-16
	MOVD flags+0(FP), R0
	MOVD ZR, R1
	MOVD ZR, R2
	MOVD ZR, R3
	MOVD ZR, R4
	MOVD $220, R8 // SYS_clone
	SVC  $0
	MOVD R0, pid+8(FP)
	RET
