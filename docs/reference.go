// Package docs has the reference pages, which gpurun help prints.
package docs

import "embed"

// Reference is the folder reference.
//
//go:embed reference
var Reference embed.FS
