#include "textflag.h"

// The return address stays in the link register, which each side has for itself.

// func vfork(flags uintptr, pid *int32) (ret int)
TEXT ·vfork(SB), NOSPLIT|NOFRAME, $0-24
	MOVD flags+0(FP), R0
	MOVD ZR, R1
	MOVD pid+8(FP), R2
	MOVD ZR, R3
	MOVD ZR, R4
	MOVD $220, R8 // SYS_clone
	SVC  $0
	MOVD R0, ret+16(FP)
	RET

// func vfork3(args *cloneArgs) (ret int)
TEXT ·vfork3(SB), NOSPLIT|NOFRAME, $0-16
	MOVD args+0(FP), R0
	MOVD $64, R1
	MOVD $435, R8 // SYS_clone3
	SVC  $0
	MOVD R0, ret+8(FP)
	RET
