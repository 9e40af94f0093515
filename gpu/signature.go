package gpu

import (
	"bytes"
	"slices"
)

// A Signature identifies program failures caused by a device, or by the host's setup of its
// devices. A device is also at fault if it is lost, or if its count of uncorrectable ECC errors
// rises.
type Signature struct {
	Xid    int    // number of a critical error reported by the driver, or
	Log    string // text printed by the program
	Source string
}

// Contained is the Xid of an error that killed a program but left the device sound.
const Contained = 94

// xids is NVIDIA's catalog: docs.nvidia.com/deploy/xid-errors. Most other errors, such as 13 and
// 31, are caused by the program; 63 reports that a memory row was replaced in time.
const xids = "NVIDIA Xid catalog"

// Signatures are all known signatures.
var Signatures = []Signature{
	{Xid: 48, Source: xids},        // double-bit ECC error
	{Xid: 64, Source: xids},        // a row of memory could not be replaced
	{Xid: 74, Source: xids},        // NVLink error
	{Xid: 79, Source: xids},        // fallen off the bus
	{Xid: Contained, Source: xids}, // contained memory error
	{Xid: 95, Source: xids},        // uncontained memory error
	{Xid: 119, Source: xids},       // its system processor does not respond
	{Xid: 120, Source: xids},       // its system processor has an error
	{Log: "uncorrectable ECC error encountered", Source: "cudaErrorECCUncorrectable (214)"},
	{Log: "GPU has fallen off the bus", Source: "the driver, with Xid 79"},
	{Log: "all CUDA-capable devices are busy or unavailable", Source: "cudaErrorDevicesUnavailable (46)"},
	{Log: "system not yet initialized", Source: "cudaErrorSystemNotReady (802)"},
}

// XidCounts reports whether a critical error is in Signatures.
func XidCounts(xid int) bool {
	return slices.ContainsFunc(Signatures, func(s Signature) bool { return s.Xid == xid && xid > 0 })
}

// LogBlames reports whether the log of a failed program contains a signature.
func LogBlames(log []byte) bool {
	return slices.ContainsFunc(Signatures, func(s Signature) bool { return s.Log != "" && bytes.Contains(log, []byte(s.Log)) })
}
