package process

// Reading tells whether a read of the process's mappings is under way.
func (p *Process) Reading() bool { return p.reading }
