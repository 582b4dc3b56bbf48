package model

import "testing"

func TestForeignCommand(t *testing.T) {
	for value, want := range map[string]string{
		"": "", "plain": "", "100%%": "", "%REQ(:path)%": "", "%PROTOCOL% %START_TIME(%s)%": "", "%%ENVIRONMENT(A)%%": "",
		"%ENVIRONMENT(A)%": "ENVIRONMENT", "%ENVIRONMENT(A):5%": "ENVIRONMENT", "x%ENVIRONMENT(A)%y": "ENVIRONMENT", "%%%ENVIRONMENT(A)%": "ENVIRONMENT",
		"%ENVIRONMENT(A%B)%": "ENVIRONMENT", "%START_TIME(%%ENVIRONMENT(A)%)%": "%", "50% off": "% off",
		"%PROTOCOL%%ENVIRONMENT(A)%": "ENVIRONMENT", "%FILE_CONTENT(/etc/passwd)%": "FILE_CONTENT", "%SECRET(x)%": "SECRET", "%REQ(a)%%COALESCE({})%": "COALESCE",
	} {
		if got := ForeignCommand(value); got != want {
			t.Errorf("%s has the foreign command %q, want %q", value, got, want)
		}
	}
}
