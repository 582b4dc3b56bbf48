package proxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/agent/handoff"
)

// filling sets each value of a state to another one.
type filling struct{ n int64 }

func (f *filling) fill(v reflect.Value) {
	f.n++
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(time.Unix(f.n, 0).UTC()))
		return
	case netip.AddrPort:
		v.Set(reflect.ValueOf(netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, 1}), uint16(f.n))))
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString(fmt.Sprint("text", f.n))
	case reflect.Int, reflect.Int64:
		v.SetInt(f.n)
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(f.n % 256))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		f.fill(v.Index(0))
	case reflect.Array:
		for i := range v.Len() {
			f.fill(v.Index(i))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		f.fill(key)
		f.fill(value)
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			f.fill(v.Field(i))
		}
	default:
		panic("a state has a " + v.Kind().String())
	}
}

// A state is written as agents of its format write it, with every field, and read alike: another text needs another number.
func TestStateOfFormat(t *testing.T) {
	var state carried
	new(filling).fill(reflect.ValueOf(&state).Elem())
	for name, state := range map[string]carried{"full": state, "empty": {}} {
		path := fmt.Sprintf("testdata/state-%d-%s.json", handoff.Format, name)
		got, err := json.Marshal(state)
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if want = bytes.TrimSuffix(want, []byte("\n")); !bytes.Equal(got, want) {
			t.Errorf("%s: it is written as\n%s", path, got)
		}
		var read carried
		if err := handoff.Strict(want, &read); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if again, err := json.Marshal(read); err != nil || !bytes.Equal(again, want) {
			t.Errorf("%s: it is read, and written as\n%s, %v", path, again, err)
		}
	}
}
