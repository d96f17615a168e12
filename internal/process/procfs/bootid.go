package procfs

import "strings"

// BootID is what tells this boot of this host from all others; empty if it can't be read.
func (fs *FS) BootID() string {
	b, err := fs.readSmall("sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
