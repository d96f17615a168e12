package conformance

import (
	"testing"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// TestAppendValue: values are told apart by their type too, however deep.
func TestAppendValue(t *testing.T) {
	seen := map[string]int{}
	for i, raw := range []any{
		nil, "", "0", int64(0), 0.0, false, []byte{}, []byte("0"), []any{}, []any{int64(0)}, []any{0.0}, []any{"0"}, []any{[]any{}}, []any{nil},
		map[string]any{}, map[string]any{"a": int64(0)}, map[string]any{"a": 0.0}, map[string]any{"a": []any{"b", "c"}},
		[]any{"a", "b"}, []any{"ab"}, []any{"a", "", "b"},
	} {
		v := pcommon.NewValueEmpty()
		if err := v.FromRaw(raw); err != nil {
			t.Fatal(err)
		}
		key := string(appendValue(nil, v))
		if j, known := seen[key]; known {
			t.Errorf("values %d and %d are the same", i, j)
		}
		seen[key] = i
		again := pcommon.NewValueEmpty()
		v.CopyTo(again)
		if string(appendValue(nil, again)) != key {
			t.Errorf("value %d is not the same as itself", i)
		}
	}
}
