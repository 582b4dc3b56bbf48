package model

import "slices"

// Memory keeps what was made of immutable values, so that the next generation makes only what changed: equal inputs
// give the same pointer again. A nil Memory keeps nothing. It belongs to one goroutine.
type Memory struct {
	last, now map[string]cell
	made      int
}

type cell struct {
	inputs []any
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

// Recall returns what was made under key of the same inputs, else makes it. Inputs are compared with ==: pointers to
// immutable values, and plain values.
func Recall[T any](m *Memory, key string, inputs []any, build func() T) T {
	if m == nil {
		return build()
	}
	if known, ok := m.last[key]; ok && slices.Equal(known.inputs, inputs) {
		m.now[key] = known
		return known.value.(T)
	}
	value := build()
	m.made++
	m.now[key] = cell{inputs, value}
	return value
}
