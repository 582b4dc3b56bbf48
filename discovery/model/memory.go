package model

// Memory keeps what was made of immutable values, so that the next generation makes only what changed: what is made of
// the same is the same pointer again. A nil Memory keeps nothing. It belongs to one goroutine.
//
// Nobody lists by hand what a value is made of. It is either the one argument of the function that makes it (Recall),
// or the answers of a Scope that notes what it is asked (RecallAsked).
type Memory struct {
	last, now map[string]cell
	made      int
}

type cell struct {
	inputs any // what the value was made of; an *Asked by RecallAsked
	value  any
}

// NewMemory returns a Memory that also knows what last was asked for, and no more: what is not asked for in one
// generation is forgotten.
func NewMemory(last *Memory) *Memory {
	m := &Memory{now: map[string]cell{}}
	if last != nil {
		m.last = last.now
		m.now = make(map[string]cell, len(last.now))
	}
	return m
}

// Made is how many values were not known yet.
func (m *Memory) Made() int { return m.made }

// Forget ends the memory's hold on the generation before.
func (m *Memory) Forget() { m.last = nil }

// Inputs is what a value is made of. Same may compare pointers, as all that they point to is immutable.
type Inputs[I any] interface{ Same(other I) bool }

// Recall returns what was made under key of the same inputs, else makes it. build must read nothing but its argument: it
// is best a function that has a name, for such a one captures nothing.
func Recall[I Inputs[I], T any](m *Memory, key string, inputs I, build func(I) T) T {
	if m == nil {
		return build(inputs)
	}
	if known, ok := m.last[key]; ok && known.inputs.(I).Same(inputs) {
		m.now[key] = known
		return known.value.(T)
	}
	return m.keep(key, inputs, build(inputs)).(T)
}

// RecallAsked returns what was made under key if s still gives every answer that it was made of, else makes it. build
// must read nothing of the mesh but by the scope that it is given; what else it uses must be a part of key.
func RecallAsked[T any](m *Memory, key string, s *Scope, build func(*Scope) T) T {
	if m == nil {
		return build(s.asking(&Asked{}))
	}
	if known, ok := m.last[key]; ok && known.inputs.(*Asked).same(s) {
		m.now[key] = known
		return known.value.(T)
	}
	asked := &Asked{}
	value := build(s.asking(asked))
	asked.known = nil
	return m.keep(key, asked, value).(T)
}

func (m *Memory) keep(key string, inputs, value any) any {
	m.made++
	m.now[key] = cell{inputs, value}
	return value
}
