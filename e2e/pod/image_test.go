//go:build pod

package pod

import (
	"debug/elf"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// image is a built one, unpacked.
type image struct {
	digest string
	names  [2]string // the image's, and that of its archive
	size   int64     // of the archive
	root   string
	config imageConfig
}

type imageConfig struct {
	Architecture string
	Config       struct {
		User            string
		Entrypoint, Cmd []string
		Labels          map[string]string
	}
}

// builds are made once for all tests, by their settings.
var builds = map[string]map[string]*image{}

// built returns an image of this tree: settings are variables of envoy-tools/image. No two tests may build at a time, for
// there is one run/image.
func built(t *testing.T, name string, settings ...string) *image {
	t.Helper()
	needs(t, "buildah", "mmdebstrap", "tar")
	key := strings.Join(settings, " ")
	if builds[key] == nil {
		images, err := buildImages(lab.Command(t, "README.md", "make image"), settings)
		check(t, err)
		builds[key] = images
	}
	return builds[key][name]
}

func buildImages(build string, settings []string) (map[string]*image, error) {
	pattern := lab.Path("run", "image", "*.tar")
	old, err := filepath.Glob(pattern)
	if err != nil {
		return nil, err
	}
	for _, archive := range old {
		if err := os.Remove(archive); err != nil {
			return nil, err
		}
	}
	command := exec.Command("sh", "-ec", build)
	command.Dir = lab.Path()
	command.Env = append(os.Environ(), settings...)
	if output, err := command.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build images: %w:\n%s", err, output)
	}
	archives, err := filepath.Glob(pattern)
	if err != nil {
		return nil, err
	}
	images := map[string]*image{}
	for _, archive := range archives {
		info, err := os.Stat(archive)
		if err != nil {
			return nil, err
		}
		name, _, _ := strings.Cut(filepath.Base(archive), "-")
		dir, err := os.MkdirTemp(lab.Programs(), name+"-")
		if err != nil {
			return nil, err
		}
		images[name] = &image{size: info.Size(), root: filepath.Join(dir, "root"), names: [2]string{"", filepath.Base(archive)}}
		if err := os.Chmod(dir, 0o755); err != nil {
			return nil, err
		}
		if err := images[name].unpack(archive, filepath.Join(dir, "layout")); err != nil {
			return nil, err
		}
	}
	return images, nil
}

// unpack reads an OCI archive: index, manifest, configuration, layers.
func (i *image) unpack(archive, layout string) error {
	for _, dir := range []string{layout, i.root} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if output, err := exec.Command("tar", "-xf", archive, "-C", layout).CombinedOutput(); err != nil {
		return fmt.Errorf("unpack %s: %w: %s", archive, err, output)
	}
	type descriptor struct {
		Digest      string
		Annotations map[string]string
	}
	blob := func(d descriptor) string {
		return filepath.Join(layout, "blobs", strings.Replace(d.Digest, ":", "/", 1))
	}
	var index struct{ Manifests []descriptor }
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	if err := readJSON(filepath.Join(layout, "index.json"), &index); err != nil {
		return err
	}
	i.digest = index.Manifests[0].Digest
	i.names[0] = path.Base(index.Manifests[0].Annotations["org.opencontainers.image.ref.name"])
	if err := readJSON(blob(index.Manifests[0]), &manifest); err != nil {
		return err
	}
	if err := readJSON(blob(manifest.Config), &i.config); err != nil {
		return err
	}
	for _, layer := range manifest.Layers {
		if output, err := exec.Command("tar", "-xzpf", blob(layer), "-C", i.root).CombinedOutput(); err != nil {
			return fmt.Errorf("unpack layer %s: %w: %s", layer.Digest, err, output)
		}
	}
	return os.RemoveAll(layout)
}

func readJSON(path string, into any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

// files lists an image's files with their sizes.
func (i *image) files(t *testing.T) map[string]int64 {
	t.Helper()
	files := map[string]int64{}
	check(t, filepath.WalkDir(i.root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		files[strings.TrimPrefix(path, i.root)] = info.Size()
		return err
	}))
	return files
}

// The image of the proxy holds what runs, says what it is, and what it is made of.
func TestProxyImage(t *testing.T) {
	i := built(t, "proxy")
	if want := [2]string{"proxy:dev", "proxy-" + runtime.GOARCH + ".tar"}; i.names != want {
		t.Errorf("the names are %q, want %q", i.names, want)
	}
	if got := i.config.Config; got.User != "1337:1337" || !slices.Equal(got.Entrypoint,
		[]string{"/usr/local/bin/agent"}) || !slices.Equal(got.Cmd, []string{"proxy", "sidecar"}) {
		t.Errorf("user, entry point and arguments are %+v", got)
	}
	for _, label := range []string{"title", "description", "licenses", "version", "revision", "created"} {
		if i.config.Config.Labels["org.opencontainers.image."+label] == "" {
			t.Errorf("label %s is missing: %v", label, i.config.Config.Labels)
		}
	}
	files := i.files(t)
	var total int64
	for _, size := range files {
		total += size
	}
	for _, path := range []string{
		"/usr/local/bin/agent", "/usr/local/bin/envoy", "/usr/local/bin/pod-init",
		"/usr/sbin/nft", "/bin/sh", "/bin/flock", "/usr/share/pilotlight/sidecar.json.tmpl", "/etc/passwd",
	} {
		if _, ok := files[path]; !ok {
			t.Errorf("%s is missing", path)
		}
	}
	base := total - files["/usr/local/bin/envoy"] - files["/usr/local/bin/agent"]
	t.Logf("archive %d bytes; files %d: Envoy %d, agent %d, all else %d", i.size, total, files["/usr/local/bin/envoy"],
		files["/usr/local/bin/agent"], base)
	// Its size is a budget: additions are deliberate.
	for _, budget := range []struct {
		what        string
		size, limit int64
	}{
		{"the archive", i.size, 50 << 20},
		{"the agent", files["/usr/local/bin/agent"], 12 << 20},
		{"what is beside agent and Envoy", base, 9 << 20},
	} {
		if budget.size > budget.limit {
			t.Errorf("%s has %d bytes, the budget is %d", budget.what, budget.size, budget.limit)
		}
	}
	var contents struct {
		SPDXVersion string
		Packages    []struct{ Name, VersionInfo string }
	}
	check(t, readJSON(i.root+"/usr/share/pilotlight/contents.spdx.json", &contents))
	named := map[string]bool{}
	for _, p := range contents.Packages {
		named[p.Name] = p.VersionInfo != ""
	}
	for _, name := range []string{"envoy", "libc6", "nftables", "busybox-static", "github.com/spf13/cobra", "go"} {
		if !named[name] {
			t.Errorf("the list of contents lacks %s: %v", name, named)
		}
	}
	i.hasLicences(t, "github.com/spf13/cobra", "go go1.")
	i.isVersion(t, "agent")
	for path, owner := range map[string]uint32{"/etc": 0, "/etc/istio": 0, "/etc/istio/proxy": proxyUID} {
		info, err := os.Stat(i.root + path)
		check(t, err)
		if got := info.Sys().(*syscall.Stat_t).Uid; got != owner {
			t.Errorf("%s belongs to user %d, want %d", path, got, owner)
		}
	}
	// Nothing of the machine that built it: no source of packages, no cache, no path.
	for path := range files {
		if strings.HasPrefix(path, "/etc/apt") || strings.HasPrefix(path, "/var") || strings.HasPrefix(path, "/root") {
			t.Errorf("%s does not belong there", path)
		}
	}
}

// hasLicences holds the image to the licences of what is linked, whole: a few words of the Apache licence and of others.
func (i *image) hasLicences(t *testing.T, names ...string) {
	t.Helper()
	text, err := os.ReadFile(i.root + "/usr/share/pilotlight/licences.txt")
	check(t, err)
	for _, want := range append(names, "Redistribution and use in source and binary forms", "Apache License") {
		if !strings.Contains(string(text), want) {
			t.Errorf("licences.txt lacks %q", want)
		}
	}
}

// isVersion holds a program's own word to the image's label.
func (i *image) isVersion(t *testing.T, program string) {
	t.Helper()
	output, err := exec.Command("chroot", "--userspec=1337:1337", i.root, "/usr/local/bin/"+program, "version").CombinedOutput()
	label := func(name string) string { return i.config.Config.Labels["org.opencontainers.image."+name] }
	if want := fmt.Sprintf("%s (%s)", label("version"), label("revision")); err != nil || !strings.Contains(string(output), want) {
		t.Errorf("%s version: %v: %q, want %q as the labels say", program, err, output, want)
	}
}

// The same inputs make the same image, whatever was built before, and as any user.
func TestImagesAreReproducible(t *testing.T) {
	first := map[string]*image{"proxy": built(t, "proxy"), "discovery": built(t, "discovery")}
	check(t, os.RemoveAll(lab.Path("run", "image")))
	for name := range first {
		second := built(t, name, "HOSTNAME=elsewhere", "TZ=Asia/Tokyo")
		if first[name].digest != second.digest {
			t.Errorf("%s: built twice, digests %s and %s", name, first[name].digest, second.digest)
		}
		t.Logf("%s: %s, twice", name, second.digest)
	}
}

// An image for another architecture needs no machine of that kind. Without pod-init there is no shell in it.
func TestImageVariants(t *testing.T) {
	arm := built(t, "proxy", "ARCH=arm64", "IMAGES=proxy")
	for path := range arm.files(t) {
		file, err := elf.Open(arm.root + path)
		if err == nil && file.Machine != elf.EM_AARCH64 {
			t.Errorf("arm64: %s is for %s", path, file.Machine)
		}
	}
	if arm.config.Architecture != "arm64" {
		t.Errorf("the image is said to be for %q", arm.config.Architecture)
	}
	for _, path := range []string{"agent", "envoy"} {
		if _, err := elf.Open(arm.root + "/usr/local/bin/" + path); err != nil {
			t.Errorf("arm64: %v", err)
		}
	}
	bare := built(t, "proxy", "INIT=no", "IMAGES=proxy")
	if want := [2]string{"proxy-noinit:dev", "proxy-noinit-" + runtime.GOARCH + ".tar"}; bare.names != want {
		t.Errorf("without pod-init: the names are %q, want %q", bare.names, want)
	}
	for path := range bare.files(t) {
		for _, word := range []string{"/sh", "busybox", "nft", "pod-init"} {
			if strings.Contains(path, word) && !strings.Contains(path, "/usr/share") {
				t.Errorf("without pod-init: %s is there", path)
			}
		}
	}
	output, err := exec.Command("chroot", "--userspec=1337:1337", bare.root, "/usr/local/bin/envoy",
		"--version").CombinedOutput()
	if err != nil || !strings.Contains(string(output), "1.40.0") {
		t.Errorf("without pod-init: envoy --version: %v: %s", err, output)
	}
}

// The image of discovery is a binary, and the user that it runs as.
func TestDiscoveryImage(t *testing.T) {
	i := built(t, "discovery")
	files := i.files(t)
	if len(files) > 7 {
		t.Errorf("it holds %v", files)
	}
	i.hasLicences(t, "google.golang.org/grpc", "istio.io/api")
	i.isVersion(t, "discovery")
	t.Logf("archive %d bytes, binary %d", i.size, files["/usr/local/bin/discovery"])
}
