package fill

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
)

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
