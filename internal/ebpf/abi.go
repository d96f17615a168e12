package ebpf

import (
	"github.com/hostprofiles/hostprofiles/internal/ebpf/abi"
	"github.com/hostprofiles/hostprofiles/internal/unwind/layout"
)

// Shorter names for what crosses between kernel and Go; bpf/abi.h says what each is.
type (
	block     = layout.Block
	counters  = abi.LoopCounters
	mapping   = abi.LoopMapping
	process   = abi.LoopProcess
	registers = abi.LoopRegisters
	rule      = layout.Rule
	sample    = abi.LoopSample
)
