package lab

import "testing"

// Java is the beginning of a command that starts a small Java program, which leaves nothing in the machine's directory for temporary files.
func Java(t testing.TB) []string {
	return []string{"java", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Djava.io.tmpdir=" + t.TempDir()}
}
