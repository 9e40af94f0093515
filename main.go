// Command gpurun runs batch job files on the GPUs of a shared machine. See README.md.
package main

import (
	"os"

	"gpurun/runner/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:])) }
