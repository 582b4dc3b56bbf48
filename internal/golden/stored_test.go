package golden

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"
	"time"
)

type inner struct {
	Shadowed string `json:"Shadowed"`
	Kept     string
}

type outer struct {
	inner
	Shadowed string          `json:"Shadowed"`
	Renamed  int             `json:",omitempty"`
	List     []map[string]*e `json:"list"`
	Raw      json.RawMessage `json:"raw"`
	At       time.Time       `json:"at"`
	Left     string          `json:"-"`
	hidden   string
}

type e struct{ On bool }

// Each field that JSON names after Go is found, wherever it is, and each one that a value leaves out.
func TestFieldsOfAStoredForm(t *testing.T) {
	if got, want := untagged(reflect.TypeFor[outer](), map[reflect.Type]bool{}), []string{"golden.outer.Kept", "golden.outer.Renamed", "golden.e.On"}; !slices.Equal(got, want) {
		t.Errorf("without a name are %q, want %q", got, want)
	}
	full := Filled[outer]()
	if got := zeros(reflect.ValueOf(full), "x"); len(got) > 0 || full.inner.Shadowed != "" || full.hidden != "" {
		t.Errorf("%+v has zeros %q", full, got)
	}
	full.Kept, full.At, full.List[0] = "", time.Time{}, map[string]*e{"a": {}}
	if got, want := zeros(reflect.ValueOf(full), "x"), []string{"x.Kept", "x.List[0][].On", "x.List[0][]", "x.At"}; !slices.Equal(got, want) {
		t.Errorf("zero are %q, want %q", got, want)
	}
}
