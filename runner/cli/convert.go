package cli

import (
	"fmt"
	"os"

	"gpurun/jobspec"
	"gpurun/runner/batches"
)

type convertCmd struct {
	batchFlags `embed:""`
}

func (convertCmd) Help() string {
	return helpText("Save the output in the old file's folder, because paths are relative to that folder.",
		"gpurun convert --lines cmds.txt -m 8GiB -j 4 > cmds.yaml",
		"gpurun convert command.txt > command.yaml",
		"gpurun convert sweep.yaml > jobs.yaml         # a W&B sweep")
}

func (c *convertCmd) Run(a *app) error {
	if a.settings["work-dir"] != "" {
		return &batches.Failure{Code: batches.ExitUsage, Text: "--work-dir is relative to the current folder, but work_dir in a job file is relative to that file", Hint: "write work_dir into the converted file"}
	}
	batch, err := a.load(&c.batchFlags)
	if err != nil {
		return err
	}
	if len(batch.Files) > 1 {
		return &batches.Failure{Code: batches.ExitUsage, Text: "cannot convert several files at once", Hint: "convert one file at a time"}
	}
	a.warnings(batch)
	f := batch.Files[0]
	if f.Dialect == "native" {
		if len(a.settings)+len(c.Param) > 0 {
			return &batches.Failure{Code: batches.ExitUsage, Text: f.Path + " is already YAML, so convert would ignore these flags", Hint: "add their values to the file"}
		} else if batch.Sweep != "" {
			_, err = fmt.Fprintf(a.out, "# %s (W&B sweep) as native YAML, by gpurun convert. Keep this file in the same folder.\n%s", f.Path, batch.Sweep)
			return err
		}
		data, err := os.ReadFile(f.Path)
		if err == nil {
			_, err = a.out.Write(data)
		}
		return err
	}
	fmt.Fprintf(a.out, "# %s (%s) as native YAML, by gpurun convert. Keep this file in the same folder.\n", f.Path, f.Dialect)
	for _, note := range jobspec.Unlike(f.Dialect) {
		fmt.Fprintln(a.out, "# Difference: "+note+".")
	}
	_, err = a.out.Write(jobspec.Print(batch))
	return err
}
