// Package cli is the command line: one file a command, and the exit codes.
package cli

// Main runs one command line, without the program's name, and says the exit status.
func Main(args []string) int { panic("unwritten") }
