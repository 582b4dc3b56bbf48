package fill

import (
	"errors"
	"fmt"
	"reflect"
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
