package fill

import (
	"fmt"
	"iter"
	"reflect"
	"sort"
	"text/template"
)

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
