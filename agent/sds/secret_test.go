package sds

import "testing"

// An emptied directory withdraws no secret.
func TestCover(t *testing.T) {
	all, roots, none := NewSecrets([]byte("c"), []byte("k"), []byte("r")), NewSecrets(nil, nil, []byte("r")), Secrets{}
	for _, test := range []struct {
		name        string
		have, other Secrets
		want        bool
	}{
		{"the first", all, none, true},
		{"a rotation", all, all, true},
		{"a certificate comes later", all, roots, true},
		{"the certificate is gone", roots, all, false},
		{"everything is gone", none, roots, false},
	} {
		if got := test.have.Cover(test.other); got != test.want {
			t.Errorf("%s: Cover is %t, want %t", test.name, got, test.want)
		}
	}
}
