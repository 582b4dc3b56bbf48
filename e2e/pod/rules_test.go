//go:build pod

package pod

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// everyBackend runs a test in a scene of its own for each backend.
func everyBackend(t *testing.T, test func(t *testing.T, s *scene, b backend)) {
	for _, b := range backends(t) {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			test(t, newScene(t), b)
		})
	}
}

// says runs pod-init, which must succeed and say so.
func (s *scene) says(b backend, want string, words ...string) {
	s.t.Helper()
	output, err := b.run(s.pod, words...)
	if err != nil || !strings.Contains(output, want) {
		s.t.Fatalf("pod-init %q: %v, want %q:\n%s", words, err, want, output)
	}
}

// refuses runs pod-init, which must exit with the status, say why, and change nothing.
func (s *scene) refuses(b backend, status int, want string, words ...string) {
	s.t.Helper()
	before := s.listing()
	output, err := b.run(s.pod, words...)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != status || !strings.Contains(output, want) {
		s.t.Errorf("pod-init %q: %v, want status %d and %q:\n%s", words, err, status, want, output)
	}
	// Handles differ where rules were put back.
	if after := s.listing(); withoutHandles(after) != withoutHandles(before) {
		s.t.Errorf("pod-init %q has changed something:\n%s\nbefore:\n%s", words, after, before)
	}
}

// withoutHandles is a listing whose tables are in the order of their names, so that those put back look as they did.
func withoutHandles(listing string) string {
	var tables []string
	for table := range strings.SplitSeq(listing, "table inet ") {
		var out strings.Builder
		for line := range strings.Lines(table) {
			line, _, _ = strings.Cut(line, " # handle")
			out.WriteString(strings.TrimSpace(line) + "\n")
		}
		tables = append(tables, out.String())
	}
	slices.Sort(tables)
	return strings.Join(tables, "")
}

// A second run changes nothing, down to the kernel's handles, and says so. Rules that somebody has touched are put right.
func TestASecondRunChangesNothing(t *testing.T) {
	everyBackend(t, func(t *testing.T, s *scene, b backend) {
		for _, words := range [][]string{
			{"-d", "8080", "-i", "10.1.2.3/8,fd00:0:0::/16", "-x", "10.66.0.0/24"}, // the kernel writes these otherwise
			{"-m", "TPROXY"},
			nil,
		} {
			s.says(b, "redirected: ", words...)
			before := s.listing()
			s.says(b, "unchanged: ", words...)
			if after := s.listing(); after != before {
				t.Errorf("%q: the second run has changed\n%s\nto\n%s", words, before, after)
			}
		}
		want := s.listing()
		if b.name == "nft" {
			s.pod.Must("nft", "flush", "chain", "inet", "pilotlight", "guard")
		} else {
			s.pod.Must("env", "PATH="+b.path, "ip6tables", "-D", "INPUT", "-p", "tcp", "-j", "pilotlight-guard")
		}
		s.says(b, "redirected: ")
		if got := s.listing(); withoutHandles(got) != withoutHandles(want) {
			t.Errorf("after a repair:\n%s\nwant:\n%s", got, want)
		}
	})
}

// Our rules are removed, the others stay as they are.
func TestCleanTakesItsOwnOnly(t *testing.T) {
	everyBackend(t, func(t *testing.T, s *scene, b backend) {
		s.foreign()
		before := s.listing()
		for _, words := range [][]string{nil, {"-m", "TPROXY"}} {
			s.says(b, "redirected: ", words...)
			if !strings.Contains(s.listing(), "pilotlight") {
				t.Error("there are no rules")
			}
			s.says(b, "cleaned: ", "clean")
			if after := s.listing(); after != before {
				t.Errorf("%q, cleaned:\n%s\nbefore:\n%s", words, after, before)
			}
		}
		s.says(b, "unchanged: nothing of ours is there", "clean")
	})
}

// A run that fails, at whichever of its steps, leaves rules, routes and addresses as they were.
func TestAFailureChangesNothing(t *testing.T) {
	everyBackend(t, func(t *testing.T, s *scene, b backend) {
		s.foreign()
		for _, before := range [][]string{{"-o", "443"}, {"-m", "TPROXY"}} {
			s.says(b, "", before...)
			s.refuses(b, 64, "-i 10.0.0.0/8,10.0.0.300: 10.0.0.300: want", "-i", "10.0.0.0/8,10.0.0.300")
			for _, after := range [][]string{{"-o", "9000"}, {"-m", "TPROXY", "-o", "9000"}, {"clean"}} {
				steps := 0
				for _, program := range []string{"nft", "iptables-restore", "ip6tables-restore", "ip"} {
					steps += s.failAtEachCall(b, program, after)
					s.says(b, "", before...)
				}
				t.Logf("from %q to %q: failed at %d steps", before, after, steps)
				if steps == 0 {
					t.Errorf("from %q to %q: nothing could be made to fail", before, after)
				}
			}
		}
	})
}

// failAtEachCall makes the first call of a program fail, then the second, until the run no longer has so many. It returns
// how many failed.
func (s *scene) failAtEachCall(b backend, program string, words []string) int {
	s.t.Helper()
	for call := 1; call < 30; call++ {
		path := failing(s.t, b.path, program, call)
		before := s.listing()
		output, err := b.run(s.pod, append([]string{"PATH=" + path}, words...)...)
		if err == nil {
			return call - 1
		}
		if after := s.listing(); withoutHandles(after) != withoutHandles(before) || !strings.Contains(output,
			"nothing is changed") {
			s.t.Fatalf("%q fails when %s is called for the %dth time, with\n%s\nand leaves\n%s\nbefore:\n%s", words, program,
				call, output, after, before)
		}
	}
	output, _ := b.run(s.pod, words...)
	s.t.Fatalf("%q never succeeds: %s", words, output)
	return 0
}

// failing returns a PATH where one call of a program fails, and the others do as ever.
func failing(t *testing.T, path, program string, call int) string {
	t.Helper()
	dir := t.TempDir()
	var found string
	for _, place := range strings.Split(path, ":") {
		if _, err := os.Stat(filepath.Join(place, program)); err == nil && found == "" {
			found = filepath.Join(place, program)
		}
	}
	const breaking = `#!/bin/sh
echo >>%[1]s/calls
[ $(wc -l <%[1]s/calls) != %[2]d ] || { cat >/dev/null; echo broken >&2; exit 1; }
exec %[3]s "$@"
`
	script := fmt.Sprintf(breaking, dir, call, found)
	check(t, os.WriteFile(filepath.Join(dir, program), []byte(script), 0o755))
	return dir + ":" + path
}

// Runs at the same time wait for each other, whichever backend each of them takes.
func TestRunsWaitForEachOther(t *testing.T) {
	everyBackend(t, func(t *testing.T, s *scene, b backend) {
		s.says(b, "redirected: ")
		want := s.listing()
		s.says(b, "cleaned: ", "clean")
		outputs, failed := make(chan string), 0
		const runs = 6
		for range runs {
			go func() {
				output, err := b.run(s.pod)
				if err == nil {
					output = ""
				}
				outputs <- output
			}()
		}
		for range runs {
			if output := <-outputs; output != "" {
				failed++
				t.Logf("a run failed: %s", output)
			}
		}
		if failed > 0 {
			t.Errorf("%d of %d parallel runs failed", failed, runs)
		}
		if got := s.listing(); withoutHandles(got) != withoutHandles(want) {
			t.Errorf("after parallel runs:\n%s\nwant:\n%s", got, want)
		}
	})
}

// One backend takes the place of another: two sets of rules would disagree.
func TestABackendTakesTheOthersPlace(t *testing.T) {
	s := newScene(t)
	names := []string{"nft", "iptables", "nft"}
	for i, name := range names {
		output, err := podInit(s.pod, "--backend", name, "-o", "443")
		if err != nil || !strings.Contains(output, "redirected: REDIRECT by "+name) {
			t.Fatalf("--backend %s: %v: %s", name, err, output)
		}
		listing := s.listing()
		tables, chains := strings.Contains(listing, "table inet pilotlight"), strings.Contains(listing, "-A pilotlight-")
		if tables != (name == "nft") || chains != (name == "iptables") {
			t.Errorf("after %q:\n%s", names[:i+1], listing)
		}
		if i > 0 && !strings.Contains(output, "the rules by "+names[i-1]+" are removed") {
			t.Errorf("nothing is said of the rules by %s: %s", names[i-1], output)
		}
	}
}

// The backend is what the machine has: nftables first.
func TestTheBackendIsWhatWorks(t *testing.T) {
	s := newScene(t)
	path := os.Getenv("PATH")
	for _, test := range []struct{ path, want string }{
		{path, "redirected: REDIRECT by nft,"},
		{failing(t, path, "nft", 1), "redirected: REDIRECT by iptables,"}, // a kernel without nftables
		{
			only(t, "sh", "env", "ip", "iptables-restore", "ip6tables-restore", "iptables-save", "ip6tables-save"),
			"unchanged: REDIRECT by iptables,",
		},
		{only(t, "sh", "env", "ip"), "neither nft nor iptables-restore is in PATH"},
	} {
		output, _ := podInit(s.pod, "PATH="+test.path)
		if !strings.Contains(output, test.want) {
			t.Errorf("PATH=%s: want %q:\n%s", test.path, test.want, output)
		}
	}
	// The rules of either are removed.
	output, err := podInit(s.pod, "clean")
	if err != nil || !strings.Contains(output, "cleaned: nft iptables") || strings.Contains(s.listing(), "pilotlight") {
		t.Errorf("clean: %v: %s\nleaves\n%s", err, output, s.listing())
	}
}

// only returns a PATH that has nothing but these programs.
func only(t *testing.T, programs ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, program := range programs {
		path, err := exec.LookPath(program)
		check(t, err)
		check(t, os.Symlink(path, filepath.Join(dir, program)))
	}
	return dir
}
