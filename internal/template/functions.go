package template

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"sort"
	"text/template"
)

// builtin returns the functions of the language but for and, or, which do not evaluate all arguments, and call: plain values
// hold no functions.
func builtin() Functions {
	return Functions{
		"not":   func(args ...any) (any, error) { return one(args, func(v any) (any, error) { return !truth(v), nil }) },
		"len":   func(args ...any) (any, error) { return one(args, length) },
		"index": index,
		"slice": slice,
		"eq":    eq,
		"ne": func(args ...any) (any, error) {
			return two(args, func(a, b any) (bool, error) { same, err := equal(a, b); return !same, err })
		},
		"lt": func(args ...any) (any, error) { return two(args, less) },
		"le": func(args ...any) (any, error) { return two(args, lessOrEqual) },
		"gt": func(args ...any) (any, error) {
			return two(args, func(a, b any) (bool, error) { is, err := lessOrEqual(a, b); return !is && err == nil, err })
		},
		"ge": func(args ...any) (any, error) {
			return two(args, func(a, b any) (bool, error) { is, err := less(a, b); return !is && err == nil, err })
		},
		"print":    func(args ...any) (any, error) { return fmt.Sprint(args...), nil },
		"println":  func(args ...any) (any, error) { return fmt.Sprintln(args...), nil },
		"printf":   printf,
		"html":     func(args ...any) (any, error) { return template.HTMLEscaper(args...), nil },
		"js":       func(args ...any) (any, error) { return template.JSEscaper(args...), nil },
		"urlquery": func(args ...any) (any, error) { return template.URLQueryEscaper(args...), nil },
	}
}

// takes is how many arguments those functions have that do not take any number.
var takes = map[string]int{"not": 1, "len": 1, "ne": 2, "lt": 2, "le": 2, "gt": 2, "ge": 2}

func wrong(got int, want string) error {
	return fmt.Errorf("wrong number of args: want %s got %d", want, got)
}

func one(args []any, f func(any) (any, error)) (any, error) { return f(args[0]) }

func two(args []any, f func(a, b any) (bool, error)) (any, error) { return f(args[0], args[1]) }

func printf(args ...any) (any, error) {
	if len(args) == 0 {
		return nil, wrong(0, "at least 1")
	}
	format, is := args[0].(string)
	if !is {
		return nil, fmt.Errorf("wrong type for value; expected string; got %T", args[0])
	}
	return fmt.Sprintf(format, args[1:]...), nil
}

func length(value any) (any, error) {
	switch v := indirect(value); v.Kind() {
	case reflect.String, reflect.Slice, reflect.Array, reflect.Map:
		return v.Len(), nil
	case reflect.Invalid:
		return nil, errors.New("len of nil pointer")
	default:
		return nil, fmt.Errorf("len of type %T", value)
	}
}

// place returns an index of a list or a text that has so many elements; with end, the place behind the last one too.
func place(value any, elements int, end bool) (int, error) {
	v := indirect(value)
	var at int64
	switch {
	case v.CanInt():
		at = v.Int()
	case v.CanUint():
		at = int64(v.Uint()) // one that overflows is negative
	case !v.IsValid():
		return 0, errors.New("cannot index slice/array with nil")
	default:
		return 0, fmt.Errorf("cannot index slice/array with type %T", value)
	}
	if at < 0 || at > int64(elements) || at == int64(elements) && !end {
		return 0, fmt.Errorf("index out of range: %d", at)
	}
	return int(at), nil
}

func whole(v reflect.Value) bool { return v.CanInt() || v.CanUint() }

// index returns the element of an element, by its indexes and keys. A key that a map does not have gives its zero value.
func index(args ...any) (any, error) {
	if len(args) == 0 {
		return nil, wrong(0, "at least 1")
	}
	value := args[0]
	if value == nil {
		return nil, errors.New("index of untyped nil")
	}
	for _, by := range args[1:] {
		switch v := indirect(value); v.Kind() {
		case reflect.String, reflect.Slice, reflect.Array:
			at, err := place(by, v.Len(), false)
			if err != nil {
				return nil, err
			}
			value = plain(v.Index(at))
		case reflect.Map:
			key := reflect.ValueOf(by)
			switch kind := v.Type().Key(); {
			case key.IsValid() && key.Type().AssignableTo(kind):
			case whole(key) && whole(reflect.Zero(kind)):
				key = key.Convert(kind)
			default:
				return nil, fmt.Errorf("value has type %T; should be %s", by, kind)
			}
			if entry := v.MapIndex(key); entry.IsValid() {
				value = plain(entry)
			} else {
				value = plain(reflect.Zero(v.Type().Elem()))
			}
		case reflect.Invalid:
			return nil, errors.New("index of nil pointer")
		default:
			return nil, fmt.Errorf("can't index item of type %T", value)
		}
	}
	return value, nil
}

// slice returns a part of a list or a text.
func slice(args ...any) (any, error) {
	if len(args) == 0 {
		return nil, wrong(0, "at least 1")
	}
	v := indirect(args[0])
	var most int
	switch v.Kind() {
	case reflect.String:
		if most = v.Len(); len(args) == 4 {
			return nil, errors.New("cannot 3-index slice a string")
		}
	case reflect.Slice:
		most = v.Cap()
	default:
		return nil, fmt.Errorf("can't slice item of type %T", args[0])
	}
	if len(args) > 4 {
		return nil, fmt.Errorf("too many slice indexes: %d", len(args)-1)
	}
	at := [3]int{0, v.Len()}
	for i, by := range args[1:] {
		place, err := place(by, most, true)
		if err != nil {
			return nil, err
		}
		at[i] = place
	}
	switch {
	case at[0] > at[1]:
		return nil, fmt.Errorf("invalid slice index: %d > %d", at[0], at[1])
	case len(args) < 4:
		return plain(v.Slice(at[0], at[1])), nil
	case at[1] > at[2]:
		return nil, fmt.Errorf("invalid slice index: %d > %d", at[1], at[2])
	default:
		return plain(v.Slice3(at[0], at[1], at[2])), nil
	}
}

var (
	errTypes   = errors.New("incompatible types for comparison")
	errNoOrder = errors.New("invalid type for comparison")
)

// eq reports whether the first argument equals any other.
func eq(args ...any) (any, error) {
	if len(args) < 2 {
		return nil, errors.New("missing argument for comparison")
	}
	for _, other := range args[1:] {
		if same, err := equal(args[0], other); same || err != nil {
			return same, err
		}
	}
	return false, nil
}

// equal compares two values. Numbers of all integer types compare by value, those of other kinds with their own only.
func equal(a, b any) (bool, error) {
	v, w := reflect.ValueOf(a), reflect.ValueOf(b)
	if order, err := compare(v, w); err == nil {
		return order == 0, nil
	}
	switch {
	case !v.IsValid() || !w.IsValid():
		return empty(v) && empty(w), nil
	case v.Kind() == reflect.Bool && w.Kind() == reflect.Bool:
		return v.Bool() == w.Bool(), nil
	case v.CanComplex() && w.CanComplex():
		return v.Complex() == w.Complex(), nil
	case basic(v) || basic(w):
		return false, errTypes
	case v.Type() != w.Type():
		return false, errTypes
	case !v.Comparable() || !w.Comparable():
		if empty(v) || empty(w) {
			return empty(v) && empty(w), nil
		}
		return false, fmt.Errorf("non-comparable type %T: %v", a, v.Type())
	default:
		return a == b, nil
	}
}

// empty reports whether a value is nil.
func empty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Invalid:
		return true
	case reflect.Chan, reflect.Func, reflect.Interface, reflect.Map, reflect.Pointer, reflect.Slice:
		return v.IsNil()
	default:
		return false
	}
}

func basic(v reflect.Value) bool {
	return v.Kind() == reflect.Bool || v.Kind() == reflect.String || v.CanInt() || v.CanUint() || v.CanFloat() || v.CanComplex()
}

func less(a, b any) (bool, error) {
	order, err := compare(reflect.ValueOf(a), reflect.ValueOf(b))
	return order < 0, err
}

func lessOrEqual(a, b any) (bool, error) {
	order, err := compare(reflect.ValueOf(a), reflect.ValueOf(b))
	return order <= 0, err
}

// compare orders two texts or two numbers.
func compare(v, w reflect.Value) (int, error) {
	switch {
	case v.Kind() == reflect.String && w.Kind() == reflect.String:
		return cmp.Compare(v.String(), w.String()), nil
	case v.CanFloat() && w.CanFloat():
		return cmp.Compare(v.Float(), w.Float()), nil
	case v.CanInt() && w.CanInt():
		return cmp.Compare(v.Int(), w.Int()), nil
	case v.CanUint() && w.CanUint():
		return cmp.Compare(v.Uint(), w.Uint()), nil
	case v.CanInt() && w.CanUint():
		if v.Int() < 0 {
			return -1, nil
		}
		return cmp.Compare(uint64(v.Int()), w.Uint()), nil
	case v.CanUint() && w.CanInt():
		order, err := compare(w, v)
		return -order, err
	case basic(v) && basic(w):
		return 0, errTypes
	default:
		return 0, errNoOrder
	}
}

// indirect follows pointers and interfaces to a value; the zero Value for nil.
func indirect(value any) reflect.Value {
	v := reflect.ValueOf(value)
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	return v
}

// truth reports whether a value counts as true: it is not false, 0, nil or empty.
func truth(value any) bool {
	is, _ := template.IsTrue(value)
	return is
}

// plain returns what a reflect.Value holds; nil for the zero one.
func plain(v reflect.Value) any {
	if !v.IsValid() {
		return nil
	}
	return v.Interface()
}

// field returns a field of a struct, or an entry of a map.
func field(value any, name string) (any, error) {
	v := indirect(value)
	switch v.Kind() {
	case reflect.Invalid:
		return nil, fmt.Errorf("nil data; no entry for key %q", name)
	case reflect.Struct:
		at, found := v.Type().FieldByName(name)
		switch {
		case !found:
		case !at.IsExported():
			return nil, fmt.Errorf("%s is an unexported field of struct type %T", name, value)
		default:
			f, err := v.FieldByIndexErr(at.Index)
			if err != nil {
				return nil, err
			}
			return plain(f), nil
		}
	case reflect.Map:
		key := reflect.ValueOf(name)
		if key.Type().AssignableTo(v.Type().Key()) {
			entry := v.MapIndex(key)
			if !entry.IsValid() {
				return nil, fmt.Errorf("map has no entry for key %q", name)
			}
			return plain(entry), nil
		}
	}
	return nil, fmt.Errorf("can't evaluate field %s in type %T", name, value)
}

// elementsOf returns the elements of a value with their keys, those of a map ordered by key. keyed is false for a number,
// whose elements have none.
func elementsOf(value any) (elements iter.Seq2[any, any], keyed bool, err error) {
	v := indirect(value)
	switch v.Kind() {
	case reflect.Invalid:
		return func(func(any, any) bool) {}, true, nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return func(yield func(any, any) bool) {
			for i := range v.Seq() {
				if !yield(nil, plain(i)) {
					return
				}
			}
		}, false, nil
	case reflect.Slice, reflect.Array:
		return func(yield func(any, any) bool) {
			for i := range v.Len() {
				if !yield(i, plain(v.Index(i))) {
					return
				}
			}
		}, true, nil
	case reflect.Map:
		keys, err := sorted(v)
		return func(yield func(any, any) bool) {
			for _, key := range keys {
				if !yield(plain(key), plain(v.MapIndex(key))) {
					return
				}
			}
		}, true, err
	default:
		return nil, false, fmt.Errorf("range can't iterate over %v", value)
	}
}

// sorted returns the keys of a map, which are texts or numbers, in their order.
func sorted(v reflect.Value) ([]reflect.Value, error) {
	keys := v.MapKeys()
	switch key := v.Type().Key(); {
	case key.Kind() == reflect.String:
		sort.Slice(keys, func(i, j int) bool { return keys[i].String() < keys[j].String() })
	case reflect.Zero(key).CanInt():
		sort.Slice(keys, func(i, j int) bool { return keys[i].Int() < keys[j].Int() })
	case reflect.Zero(key).CanUint():
		sort.Slice(keys, func(i, j int) bool { return keys[i].Uint() < keys[j].Uint() })
	default:
		return nil, fmt.Errorf("range can't iterate over a map of keys of type %s, want texts or numbers", key)
	}
	return keys, nil
}
