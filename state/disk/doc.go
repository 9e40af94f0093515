// Package disk keeps a batch's state on disk. No other package knows its file names:
// the folder, lock, ledger, logs and attempt folders.
package disk
