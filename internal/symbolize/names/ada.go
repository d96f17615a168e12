package names

import "strings"

// ada undoes GNAT's names (GCC 12, ada/exp_dbug.ads): lower-case, __ for the dot, O and a word for an operator, X with b and n for what is
// in a body, __ or $ and a number for an overloaded one, _ada_ before a library procedure.
func ada(symbol string) (string, bool) {
	if rest, ok := strings.CutPrefix(symbol, "_ada_"); ok {
		symbol = rest
		if !strings.Contains(symbol, "__") {
			return symbol, adaName(symbol)
		}
	}
	attribute := ""
	for _, of := range [...][2]string{{"___elabb", "'Elab_Body"}, {"___elabs", "'Elab_Spec"}} {
		if rest, ok := strings.CutSuffix(symbol, of[0]); ok {
			symbol, attribute = rest, of[1]
		}
	}
	symbol, _, _ = strings.Cut(symbol, ".") // nested procedures have a number behind a dot
	symbol, _, _ = strings.Cut(symbol, "$")
	parts := strings.Split(symbol, "__")
	if n := len(parts); n > 2 && digits(parts[n-1]) {
		parts = parts[:n-1]
	}
	if len(parts) < 2 && attribute == "" {
		return "", false
	}
	for i, p := range parts {
		p = strings.TrimSuffix(p, "TKB") // a task's body
		if k := strings.LastIndexByte(p, 'X'); k > 0 && strings.Trim(p[k+1:], "bn") == "" {
			p = p[:k]
		}
		if operator, ok := adaOperator(p); ok && i == len(parts)-1 {
			p = `"` + operator + `"`
		} else if !adaName(p) {
			return "", false
		}
		parts[i] = p
	}
	return strings.Join(parts, ".") + attribute, true
}

func adaName(s string) bool {
	if s == "" || !lower(s[0]) {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !lower(c) && !digit(c) && c != '_' {
			return false
		}
	}
	return true
}

func adaOperator(s string) (string, bool) {
	switch s {
	case "Oabs", "Oand", "Omod", "Onot", "Oor", "Orem", "Oxor":
		return s[1:], true
	case "Oeq":
		return "=", true
	case "One":
		return "/=", true
	case "Olt":
		return "<", true
	case "Ole":
		return "<=", true
	case "Ogt":
		return ">", true
	case "Oge":
		return ">=", true
	case "Oadd":
		return "+", true
	case "Osubtract":
		return "-", true
	case "Oconcat":
		return "&", true
	case "Omultiply":
		return "*", true
	case "Odivide":
		return "/", true
	case "Oexpon":
		return "**", true
	}
	return "", false
}
