package model

// Memory caches values that are made from immutable inputs, so that the next generation makes only the changed ones:
// unchanged inputs give the same pointer again. A nil Memory caches nothing. It must be used by one goroutine only.
//
// The inputs of a value need no list written by hand. They are either the one argument of the function that makes the
// value (Recall), or the answers that a recording Scope gave while the value was made (RecallScoped).
type Memory struct {
	last, sibling, now map[string]*cell
	made               int
}

// cell holds one value. All memories that hold the value share its cell.
type cell struct {
	key    string
	inputs any // the inputs of the value; *Dependencies if it was made by RecallScoped
	value  any
}

// NewMemory returns a Memory that can reuse the values that were read from or added to last, and no older ones: a value
// that is not used in one generation is dropped. Recall also reuses the values of sibling, which must be complete and
// of the same generation. Both may be nil.
func NewMemory(last, sibling *Memory) *Memory {
	m := &Memory{now: map[string]*cell{}}
	for _, known := range []*Memory{sibling, last} {
		if known != nil {
			m.now = make(map[string]*cell, len(known.now))
		}
	}
	if last != nil {
		m.last = last.now
	}
	if sibling != nil {
		m.sibling = sibling.now
	}
	return m
}

// Made returns how many values were not in the cache and had to be made.
func (m *Memory) Made() int { return m.made }

// Forget drops the references to the generation before and to the sibling.
func (m *Memory) Forget() { m.last, m.sibling = nil, nil }

// Inputs are the inputs of a value. Same may compare pointers, since the values behind them are immutable.
type Inputs[I any] interface{ Same(other I) bool }

// Recall returns the value that was made under key from the same inputs, or else makes it. build must read only its
// argument: use a named function, since it captures no variables.
func Recall[I Inputs[I], T any](m *Memory, key string, inputs I, build func(I) T) T {
	if m == nil {
		return build(inputs)
	}
	for _, before := range []map[string]*cell{m.last, m.sibling} {
		if known := before[key]; known != nil && known.inputs.(I).Same(inputs) {
			m.now[known.key] = known
			return known.value.(T)
		}
	}
	return m.keep(key, inputs, build(inputs)).(T)
}

// RecallScoped returns the value that was made under key if s still gives all answers that it was made from, or else
// makes it. build must read the mesh only through the scope that it receives; all its other inputs must be part of key.
func RecallScoped[T any](m *Memory, key string, s *Scope, build func(*Scope) T) T {
	if m == nil {
		return build(s.recording(&Dependencies{}))
	}
	if known := m.last[key]; known != nil && known.inputs.(*Dependencies).Same(s) {
		m.now[known.key] = known
		return known.value.(T)
	}
	value, asked := Recorded(s, build)
	return m.keep(key, asked, value).(T)
}

// Recorded makes a value, and returns with it the answers that it was made from. build must read the mesh only through the scope
// that it receives.
func Recorded[T any](s *Scope, build func(*Scope) T) (T, *Dependencies) {
	asked := &Dependencies{}
	value := build(s.recording(asked))
	asked.known = nil
	return value, asked
}

func (m *Memory) keep(key string, inputs, value any) any {
	m.made++
	m.now[key] = &cell{key, inputs, value}
	return value
}
