package engine

import (
	"context"

	"go.uber.org/zap"
)

const (
	// rootGroup is the id of the root of the unified hierarchy: the control group of all processes on hosts that use
	// version 1.
	rootGroup = 1
	maxGroups = 4096
)

// containers remembers which container a control group belongs to, so that processes which are gone before /proc could be
// read of them are told apart all the same. Keys are ids of control groups.
type containers map[uint64]string

func (c containers) learn(group uint64, id string) {
	if group <= rootGroup {
		return
	}
	if len(c) >= maxGroups {
		clear(c)
	}
	c[group] = id
}

// containerByGroup finds the container of a process that is gone, by the control group that its samples were taken in.
func (e *Engine) containerByGroup(st *processState) {
	group := st.cgroup
	if group <= rootGroup {
		return
	}
	if id, ok := e.containers[group]; ok {
		st.resource.ContainerID = id
		return
	}
	proc := e.proc
	st.identifying++
	e.jobs.submit(aboutProcess(st.p.PID, "control group"), procTimeout,
		func(context.Context) (any, error) {
			g, err := proc.CgroupByID(group)
			return g.ContainerID, err
		},
		func(v any, err error) {
			st.identifying--
			if err != nil { // it is gone, too
				e.log.Debug("finding a control group", zap.Uint64("cgroup", group), zap.Error(err))
				return
			}
			st.resource.ContainerID = v.(string)
			e.containers.learn(group, st.resource.ContainerID)
		})
}
