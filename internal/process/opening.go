package process

// StartOpening tells whether e should be opened now, and if so notes that it is being opened; Opened or Fail follows. That
// is the case if it never was, if an earlier try failed and its time has come again, or if the file may have changed.
func (x *Executables[T]) StartOpening(e *Executable[T]) bool {
	if e.checking || e.replaced {
		return false
	}
	switch e.state {
	case Unopened:
		e.state = Opening
	case Failed:
		if e.permanent || x.tick < e.retryTick {
			return false
		}
		e.state = Opening
	case Ready:
		if !e.recheck || x.tick < max(e.retryTick, e.laterTick) {
			return false
		}
	case Opening:
		return false
	}
	e.checking, e.lookTick = true, x.tick
	return true
}

// StartChecking tells whether e, which is ready and was sampled, should be opened to see whether it was rewritten in place since
// somebody else mapped it, and if so notes that it is being opened; Opened, Fail or FailCheck follows. Within a tick it is not
// asked again.
func (x *Executables[T]) StartChecking(e *Executable[T]) bool {
	if e.state != Ready || !e.InDoubt() || e.checking || e.replaced || x.tick < e.laterTick {
		return false
	}
	e.checking, e.lookTick = true, x.tick
	return true
}

// InDoubt tells whether e was mapped after the last look at its file: it may have been rewritten in place.
func (e *Executable[T]) InDoubt() bool { return e.mapTick > e.checkTick }

// Opened tells that e's file was opened and is id. If e was opened before and the file is another by now, e is replaced:
// the result is a new executable in the state Opening, whose payload is to be made; otherwise the result is e. A payload
// comes with SetPayload. Whoever mapped the file in a later tick than that in which the opening began may have other contents: that is
// to be checked again.
func (x *Executables[T]) Opened(e *Executable[T], id Identity) *Executable[T] {
	e.checking, e.recheck = false, false
	e.failures, e.unchecked, e.err = 0, 0, nil
	e.checkTick = e.lookTick
	x.stats.Opened++
	if e.replaced {
		return e
	}
	if e.identified && !e.identity.Same(id) {
		x.stats.Replaced++
		e = x.replace(e)
	}
	e.identity, e.identified = id, true
	x.noteIdle(e)
	return e
}

// replace puts a new executable in the place of e.
func (x *Executables[T]) replace(e *Executable[T]) *Executable[T] {
	f := e.File
	x.drop(e)
	e.replaced = true
	x.unused.Remove(e)
	x.bytes -= fileCost(f)
	n := x.newExecutable(f)
	n.state, n.checking = Opening, true
	n.mapTick, n.lookTick, n.checkTick = e.mapTick, e.lookTick, e.lookTick
	if f.refs == 0 {
		x.unused.Add(n, struct{}{})
	}
	return n
}

// SetPayload makes e ready; bytes is what the payload takes. It returns false, and keeps nothing, if e was replaced or
// forgotten in the meantime.
func (x *Executables[T]) SetPayload(e *Executable[T], payload T, bytes uint64) bool {
	e.checking = false
	if e.replaced {
		return false
	}
	e.Payload = payload
	e.state = Ready
	x.noteIdle(e)
	x.SetBytes(e, bytes)
	return true
}

// Fail tells that opening or reading e failed. A permanent failure (it is no ELF file) holds as long as something maps the file.
// Others are tried again after one tick, then two, up to 64, or in the next tick once another process maps the file. An
// executable that was ready stays so.
func (x *Executables[T]) Fail(e *Executable[T], err error, permanent bool) {
	x.stats.OpenFailures++
	e.checking, e.wanted = false, false
	e.err = err
	e.retryTick = x.tick + 1<<e.failures
	e.failures = min(e.failures+1, 6)
	if e.state == Ready {
		return
	}
	e.state, e.permanent = Failed, permanent
}

// FailCheck tells that it could not be found out whether the file of e, which is ready and open, is what it was: most often the
// processes through which it can be opened are gone. What is known of it stays. It is tried again as after Fail, but nothing else
// waits for that.
func (x *Executables[T]) FailCheck(e *Executable[T]) {
	e.checking, e.wanted = false, false
	e.laterTick = x.tick + 1<<e.unchecked
	e.unchecked = min(e.unchecked+1, 6)
}

// Reopen tells that e's file was closed (see TakeIdle) and is wanted again: StartOpening will say that it is to be opened.
func (x *Executables[T]) Reopen(e *Executable[T]) { e.recheck, e.wanted, e.laterTick = true, true, 0 }

// TakeWanted tells whether Reopen was called since it was asked last, and no opening has failed since.
func (x *Executables[T]) TakeWanted(e *Executable[T]) bool {
	wanted := e.wanted
	e.wanted = false
	return wanted
}
