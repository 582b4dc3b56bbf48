package golden

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

// Stored compares a JSON form that outlives its process with the test's golden file: the value encodes to the file, byte for
// byte but for spacing, and the file decodes to the value. No field may be zero, and each has its name by a tag, so that it can
// be renamed in Go. -update writes a missing file, and replaces none: what earlier versions have written must stay readable.
func Stored[T any](t *testing.T, value T) {
	t.Helper()
	for _, field := range untagged(reflect.TypeFor[T](), map[reflect.Type]bool{}) {
		t.Errorf("%s is stored, and has no name in a json tag", field)
	}
	for _, field := range zeros(reflect.ValueOf(value), reflect.TypeFor[T]().String()) {
		t.Errorf("%s is zero, so the file says nothing of it", field)
	}
	StoredNumbers(t, value)
}

// StoredNumbers is Stored for the values of constants, of which one may be zero.
func StoredNumbers[T any](t *testing.T, value T) {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var now, was bytes.Buffer
	if err := json.Indent(&now, append(text, '\n'), "", "  "); err != nil {
		t.Fatal(err)
	}
	path := file(t)
	if _, err := os.Stat(path); os.IsNotExist(err) && *update {
		write(t, path, now.Bytes())
	}
	stored := read(t, path)
	if !bytes.Equal(stored, now.Bytes()) {
		t.Errorf("%s is not what is written now:\n%s", path, now.Bytes())
	}
	if err := json.Compact(&was, stored); err != nil {
		t.Fatal(err)
	}
	var back T
	if err := json.Unmarshal(was.Bytes(), &back); err != nil || !reflect.DeepEqual(back, value) {
		t.Errorf("%s is read as %+v, %v, want %+v", path, back, err, value)
	}
}

// Tagged reports each field that a JSON form of T names after Go.
func Tagged[T any](t *testing.T) {
	t.Helper()
	for _, field := range untagged(reflect.TypeFor[T](), map[reflect.Type]bool{}) {
		t.Errorf("%s has no name in a json tag", field)
	}
}

// Filled returns a value without a zero field, except those that JSON leaves out. leaves are the values of their types.
func Filled[T any](leaves ...any) (out T) {
	f := filler{leaves: map[reflect.Type]reflect.Value{}}
	for _, leaf := range append([]any{json.RawMessage("[1]"), time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)}, leaves...) {
		f.leaves[reflect.TypeOf(leaf)] = reflect.ValueOf(leaf)
	}
	f.fill(reflect.ValueOf(&out).Elem(), "")
	return out
}

// filler numbers the values that it makes.
type filler struct {
	leaves map[reflect.Type]reflect.Value
	n      int
}

func (f *filler) fill(v reflect.Value, name string) {
	if leaf, is := f.leaves[v.Type()]; is {
		v.Set(leaf)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem(), name)
	case reflect.Array:
		for i := range v.Len() {
			f.fill(v.Index(i), name)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(name))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		f.fill(v.Index(0), name)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		f.fill(key, name)
		f.fill(value, name)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for _, field := range stored(v.Type()) {
			f.fill(v.FieldByIndex(field.Index), field.Name)
		}
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		f.n++
		v.SetString(fmt.Sprint(name, " ", f.n))
	default:
		f.n++
		if v.CanInt() {
			v.SetInt(int64(f.n))
		} else {
			v.SetUint(uint64(f.n)) // panics for a kind that no form has yet
		}
	}
}

// stored returns the fields of a struct that JSON has, those of embedded structs in place of these.
func stored(of reflect.Type) (out []reflect.StructField) {
	seen := map[string]bool{}
	for _, field := range reflect.VisibleFields(of) { // an outer one before those of the structs within
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		inlined := field.Anonymous && name == "" && field.Type.Kind() == reflect.Struct
		if inlined || !field.IsExported() || name == "-" {
			continue
		}
		if at, is := of.FieldByName(field.Name); !is || !reflect.DeepEqual(at.Index, field.Index) || seen[field.Name] {
			continue // another one has its name
		}
		seen[field.Name] = true
		out = append(out, field)
	}
	return out
}

// untagged returns the fields that are stored below a type and have no name in a tag.
func untagged(of reflect.Type, seen map[reflect.Type]bool) (out []string) {
	switch of.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return untagged(of.Elem(), seen)
	case reflect.Struct:
	default:
		return nil
	}
	if seen[of] || itself(of) {
		return nil
	}
	seen[of] = true
	for _, field := range stored(of) {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name == "" {
			out = append(out, of.String()+"."+field.Name)
		}
		out = append(out, untagged(field.Type, seen)...)
	}
	return out
}

// itself reports whether values of a type encode themselves.
func itself(of reflect.Type) bool {
	return of.Implements(reflect.TypeFor[json.Marshaler]()) || of.Implements(reflect.TypeFor[encoding.TextMarshaler]())
}

// zeros returns the fields of a value that are zero.
func zeros(v reflect.Value, path string) (out []string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return zeros(v.Elem(), path)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			out = append(out, zeros(v.Index(i), fmt.Sprint(path, "[", i, "]"))...)
		}
	case reflect.Map:
		for all := v.MapRange(); all.Next(); {
			out = append(out, zeros(all.Value(), path+"[]")...)
		}
	case reflect.Struct:
		if itself(v.Type()) {
			break
		}
		for _, field := range stored(v.Type()) {
			out = append(out, zeros(v.FieldByIndex(field.Index), path+"."+field.Name)...)
		}
	}
	if v.IsZero() {
		out = append(out, path)
	}
	return out
}
