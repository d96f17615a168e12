// Package registry lists the plug-ins for language runtimes.
package registry

import (
	"github.com/hostprofiles/hostprofiles/internal/runtimes"
	"github.com/hostprofiles/hostprofiles/internal/runtimes/python"
)

// Plugins returns all of them, by ID.
func Plugins() []runtimes.Runtime {
	return []runtimes.Runtime{python.Runtime{}}
}
