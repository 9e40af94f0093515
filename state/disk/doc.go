// Package disk is the only one that knows the file names of a batch's state: its
// folder, lock, ledger, logs and attempt folders (behaviour.md section 2).
package disk
