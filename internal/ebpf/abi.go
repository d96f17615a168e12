package ebpf

import "github.com/hostprofiles/hostprofiles/internal/ebpf/abi"

// Shorter names for what crosses between kernel and Go; bpf/abi.h says what each is.
type (
	block     = abi.LoopBlock
	counters  = abi.LoopCounters
	goTable   = abi.LoopGoTable
	mapping   = abi.LoopMapping
	process   = abi.LoopProcess
	registers = abi.LoopRegisters
	rule      = abi.LoopRule
	sample    = abi.LoopSample
	scratch   = abi.LoopScratch
)

const (
	blockRows     = int(abi.LoopLimitsBLOCK_ROWS)
	maxRules      = int(abi.LoopLimitsMAX_RULES)
	rowRuleBits   = uint(abi.LoopLimitsROW_RULE_BITS)
	tablePageBits = uint(abi.LoopLimitsTABLE_PAGE_BITS)
)
