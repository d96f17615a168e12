package procfs

// PIDNamespaceInode is the inode by which the kernel knows the collector's pid namespace.
func (fs *FS) PIDNamespaceInode() (uint32, error) {
	ino, err := inodeOf(fs.root + "/self/ns/pid")
	return uint32(ino), err
}
