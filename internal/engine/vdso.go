package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/hostprofiles/hostprofiles/internal/process"
	"github.com/hostprofiles/hostprofiles/internal/process/procfs"
)

// loadVDSO reads the vdso out of this process's own memory: it is the same in every 64-bit process.
func (l *loader) loadVDSO() (*loaded, error) {
	image, err := ownVDSO()
	if err != nil {
		return nil, err
	}
	if len(l.candidates) > 0 {
		if c := l.candidates[0]; int(c.End-c.Start) != len(image) {
			return nil, fmt.Errorf("reading the vdso: it has %d bytes in process %d, %d here", c.End-c.Start, c.PID, len(image))
		}
	}
	out, err := l.build(context.Background(), bytes.NewReader(image), int64(len(image)))
	if err != nil {
		return nil, err
	}
	out.identity = process.Identity{Size: int64(len(image))}
	return out, nil
}

func ownVDSO() ([]byte, error) {
	maps, err := procfs.New("/proc").Maps(uint32(os.Getpid()))
	if err != nil {
		return nil, fmt.Errorf("finding the vdso: %w", err)
	}
	for _, m := range maps {
		if m.Path != process.PathVDSO {
			continue
		}
		mem, err := os.Open("/proc/self/mem")
		if err != nil {
			return nil, fmt.Errorf("reading the vdso: %w", err)
		}
		defer mem.Close()
		image := make([]byte, m.End-m.Start)
		if _, err := mem.ReadAt(image, int64(m.Start)); err != nil {
			return nil, fmt.Errorf("reading the vdso: %w", err)
		}
		return image, nil
	}
	return nil, errors.New("this process has no vdso")
}
