package model

// Memory keeps what was made of immutable values, so that the next generation makes only what changed: what is made of
// the same is the same pointer again. A nil Memory keeps nothing. It belongs to one goroutine.
//
// Nobody lists by hand what a value is made of. It is either the one argument of the function that makes it (Recall),
// or the answers of a Scope that records them (RecallScoped).
type Memory struct {
	last, sibling, now map[string]*cell
	made               int
}

// cell is shared by all memories that know its value.
type cell struct {
	key    string
	inputs any // what the value was made of; *Dependencies by RecallScoped
	value  any
}

// NewMemory returns a Memory that also knows what last was asked for, and no more: what is not asked for in one
// generation is forgotten. It knows by Recall what sibling was asked for, too, which is complete and of the same
// generation. Both may be nil.
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

// Made is how many values were not known yet.
func (m *Memory) Made() int { return m.made }

// Forget ends the memory's hold on the generation before, and on the sibling.
func (m *Memory) Forget() { m.last, m.sibling = nil, nil }

// Inputs is what a value is made of. Same may compare pointers, as all that they point to is immutable.
type Inputs[I any] interface{ Same(other I) bool }

// Recall returns what was made under key of the same inputs, else makes it. build must read nothing but its argument: it
// is best a function that has a name, for such a one captures nothing.
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

// RecallScoped returns what was made under key if s still gives every answer that it was made of, else makes it. build
// must read nothing of the mesh but by the scope that it is given; what else it uses must be a part of key.
func RecallScoped[T any](m *Memory, key string, s *Scope, build func(*Scope) T) T {
	if m == nil {
		return build(s.recording(&Dependencies{}))
	}
	if known := m.last[key]; known != nil && known.inputs.(*Dependencies).same(s) {
		m.now[known.key] = known
		return known.value.(T)
	}
	asked := &Dependencies{}
	value := build(s.recording(asked))
	asked.known = nil
	return m.keep(key, asked, value).(T)
}

func (m *Memory) keep(key string, inputs, value any) any {
	m.made++
	m.now[key] = &cell{key, inputs, value}
	return value
}
