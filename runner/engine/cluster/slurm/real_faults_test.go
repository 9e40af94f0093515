package slurm

import "testing"

func TestRealFolderGone(t *testing.T) { site.FolderGone(t, block, unblock) }
