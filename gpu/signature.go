package gpu

import (
	"bytes"
	"slices"
)

// These are signatures of program failures caused by a device, or by the host's setup of its devices.
// A device is also at fault if it is lost, or if its count of uncorrectable ECC errors rises.

// Contained is the Xid of an error that killed a program but left the device sound.
const Contained = 94

// xids are the numbers of critical errors reported by the driver, from NVIDIA's catalog:
// docs.nvidia.com/deploy/xid-errors. Most other errors, such as 13 and 31, are caused by the program;
// 63 reports that a memory row was replaced in time.
var xids = []int{
	48,        // double-bit ECC error
	64,        // a row of memory could not be replaced
	74,        // NVLink error
	79,        // fallen off the bus
	Contained, // contained memory error
	95,        // uncontained memory error
	119,       // the GPU's system processor does not respond
	120,       // the GPU's system processor has an error
}

// faultTexts are the signatures in programs' logs.
var faultTexts = []string{
	"uncorrectable ECC error encountered",              // cudaErrorECCUncorrectable (214)
	"GPU has fallen off the bus",                       // the driver, with Xid 79
	"all CUDA-capable devices are busy or unavailable", // cudaErrorDevicesUnavailable (46)
	"system not yet initialized",                       // cudaErrorSystemNotReady (802)
}

// XidCounts reports whether a critical error is a signature.
func XidCounts(xid int) bool { return slices.Contains(xids, xid) }

// LogBlames reports whether the log of a failed program contains a signature.
func LogBlames(log []byte) bool {
	return slices.ContainsFunc(faultTexts, func(text string) bool { return bytes.Contains(log, []byte(text)) })
}
