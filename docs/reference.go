// Package docs has the reference pages, which gpurun help prints.
package docs

import "embed"

// Reference contains the folder docs/reference.
//
//go:embed reference
var Reference embed.FS
