package cert

import "testing"

func TestHashTellsContentsApart(t *testing.T) {
	contents := []map[string][]byte{
		{},
		{"a": nil},
		{"a": []byte("x")},
		{"ax": nil},
		{"a": []byte("x"), "b": []byte("y")},
		{"a": []byte("y"), "b": []byte("x")},
		{"a": []byte("xy"), "b": nil},
		{"a": nil, "b": []byte("xy")},
		{"a": []byte("xby")},
	}
	seen := map[string]int{}
	for i, c := range contents {
		h := Hash(c)
		if h != Hash(c) {
			t.Errorf("Hash(%q) is not always the same", c)
		}
		if j, known := seen[h]; known {
			t.Errorf("Hash(%q) = Hash(%q)", c, contents[j])
		}
		seen[h] = i
	}
}
