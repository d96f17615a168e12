package dwarf

// Values of DWARF 5 (2017), section 7, as far as they are looked at. Those above 0x2000 (0x1f00 for forms) are GNU's: the
// DebugFission page of GCC's wiki, and the manual of dwz 0.15.
const (
	tagClassType         = 0x02
	tagEnumerationType   = 0x04
	tagLexicalBlock      = 0x0b
	tagStructureType     = 0x13
	tagUnionType         = 0x17
	tagInlinedSubroutine = 0x1d
	tagModule            = 0x1e
	tagSubprogram        = 0x2e
	tagCatchBlock        = 0x25
	tagTryBlock          = 0x32
	tagInterfaceType     = 0x38
	tagNamespace         = 0x39
	tagPartialUnit       = 0x3c

	atSibling          = 0x01
	atName             = 0x03
	atStmtList         = 0x10
	atLowPC            = 0x11
	atHighPC           = 0x12
	atLanguage         = 0x13
	atCompDir          = 0x1b
	atAbstractOrigin   = 0x31
	atArtificial       = 0x34
	atDeclFile         = 0x3a
	atDeclLine         = 0x3b
	atSpecification    = 0x47
	atRanges           = 0x55
	atCallColumn       = 0x57
	atCallFile         = 0x58
	atCallLine         = 0x59
	atLinkageName      = 0x6e
	atStrOffsetsBase   = 0x72
	atAddrBase         = 0x73
	atRnglistsBase     = 0x74
	atDwoName          = 0x76
	atMIPSLinkageName  = 0x2007
	atGNUDwoName       = 0x2130
	atGNUDwoID         = 0x2131
	atGNURangesBase    = 0x2132
	atGNUAddrBase      = 0x2133
	formAddr           = 0x01
	formBlock2         = 0x03
	formBlock4         = 0x04
	formData2          = 0x05
	formData4          = 0x06
	formData8          = 0x07
	formString         = 0x08
	formBlock          = 0x09
	formBlock1         = 0x0a
	formData1          = 0x0b
	formFlag           = 0x0c
	formSdata          = 0x0d
	formStrp           = 0x0e
	formUdata          = 0x0f
	formRefAddr        = 0x10
	formRef1           = 0x11
	formRef2           = 0x12
	formRef4           = 0x13
	formRef8           = 0x14
	formRefUdata       = 0x15
	formIndirect       = 0x16
	formSecOffset      = 0x17
	formExprloc        = 0x18
	formFlagPresent    = 0x19
	formStrx           = 0x1a
	formAddrx          = 0x1b
	formRefSup4        = 0x1c
	formStrpSup        = 0x1d
	formData16         = 0x1e
	formLineStrp       = 0x1f
	formRefSig8        = 0x20
	formImplicitConst  = 0x21
	formLoclistx       = 0x22
	formRnglistx       = 0x23
	formRefSup8        = 0x24
	formStrx1          = 0x25
	formStrx2          = 0x26
	formStrx3          = 0x27
	formStrx4          = 0x28
	formAddrx1         = 0x29
	formAddrx2         = 0x2a
	formAddrx3         = 0x2b
	formAddrx4         = 0x2c
	formGNUAddrIndex   = 0x1f01
	formGNUStrIndex    = 0x1f02
	formGNURefAlt      = 0x1f20
	formGNUStrpAlt     = 0x1f21
	unitType           = 0x02
	unitSkeleton       = 0x04
	unitSplitCompile   = 0x05
	unitSplitType      = 0x06
	rleEndOfList       = 0x00
	rleBaseAddressx    = 0x01
	rleStartxEndx      = 0x02
	rleStartxLength    = 0x03
	rleOffsetPair      = 0x04
	rleBaseAddress     = 0x05
	rleStartEnd        = 0x06
	rleStartLength     = 0x07
	lnsCopy            = 0x01
	lnsAdvancePC       = 0x02
	lnsAdvanceLine     = 0x03
	lnsSetFile         = 0x04
	lnsSetColumn       = 0x05
	lnsConstAddPC      = 0x08
	lnsFixedAdvancePC  = 0x09
	lnsSetISA          = 0x0c
	lneEndSequence     = 0x01
	lneSetAddress      = 0x02
	lneDefineFile      = 0x03
	lnctPath           = 0x1
	lnctDirectoryIndex = 0x2
)

// plainLanguage: functions have plain names in the language of a unit (DWARF 5, table 7.17, and the later list on
// dwarfstd.org), or in Go's case DW_AT_name has all of it.
func plainLanguage(lang uint64) bool {
	switch lang {
	case 0x01, 0x02, 0x0c, 0x1d, 0x2c, 0x3e, // C89, C, C99, C11, C17, C23
		0x05, 0x06, 0x07, 0x08, // Cobol74, Cobol85, Fortran77, Fortran90
		0x10, 0x12, 0x15, 0x16, // ObjC, UPC, OpenCL, Go
		0x31, 0x8001: // assembly
		return true
	}
	return false
}

func adaLanguage(lang uint64) bool {
	switch lang {
	case 0x03, 0x0d, 0x2e, 0x2f: // Ada83, Ada95, Ada2005, Ada2012
		return true
	}
	return false
}

// separator is what the language puts between the parts of a name. It is that of C++ and Rust in languages not listed.
func separator(lang uint64) string {
	if adaLanguage(lang) {
		return "."
	}
	switch lang {
	case 0x09, 0x0a, 0x17, // Pascal, Modula-2, Modula-3
		0x0b, 0x13, // Java, D
		0x14, 0x18, 0x1b, 0x1e, 0x1f, // Python, Haskell, OCaml, Swift, Julia
		0x26, 0x27: // Kotlin, Zig
		return "."
	}
	return "::"
}
