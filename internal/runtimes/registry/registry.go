// Package registry lists the plug-ins for language runtimes.
package registry

import (
	"github.com/hostprofiles/hostprofiles/internal/runtimes"
	"github.com/hostprofiles/hostprofiles/internal/runtimes/hotspot"
	"github.com/hostprofiles/hostprofiles/internal/runtimes/python"
	"github.com/hostprofiles/hostprofiles/internal/runtimes/v8"
)

// Plugins returns all of them, by ID.
func Plugins() []runtimes.Runtime {
	return []runtimes.Runtime{python.Runtime{}, hotspot.Runtime{}, v8.Runtime{}}
}
