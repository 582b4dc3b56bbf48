package hotrestart

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// segmentOf lays out a segment; its mutexes are full of ones, which no repair may touch.
func segmentOf(size, version, flags uint64, length int) []byte {
	data := []byte(strings.Repeat("\x01", segmentSize))
	binary.LittleEndian.PutUint64(data, size)
	binary.LittleEndian.PutUint64(data[8:], version)
	binary.LittleEndian.PutUint64(data[flagsOffset:], flags)
	return append(data, make([]byte, segmentSize)...)[:length]
}

func TestParseFlagsRefusesWhatItDoesNotKnow(t *testing.T) {
	for _, test := range []struct {
		name    string
		segment []byte
		want    uint64
		err     string
	}{
		{"at rest", segmentOf(104, 11, 0, 104), 0, ""},
		{"initializing", segmentOf(104, 11, 1, 104), 1, ""},
		{"empty", nil, 0, "0 bytes"},
		{"shorter", segmentOf(104, 11, 1, 103), 0, "103 bytes"},
		{"longer", segmentOf(104, 11, 1, 105), 0, "105 bytes"},
		{"says another size", segmentOf(120, 11, 1, 104), 0, "size 120"},
		{"another version", segmentOf(104, 12, 1, 104), 0, "version 12"},
		{"another flag", segmentOf(104, 11, 3, 104), 0, "flags 0x3"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := parseFlags(test.segment)
			if got != test.want || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("parseFlags: got %d, %v; want %d, %q", got, err, test.want, test.err)
			}
		})
	}
}

func TestClearInitializingChangesOneByte(t *testing.T) {
	f := newBaseID(t)
	if _, err := f.ClearInitializing(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a segment: %v, want fs.ErrNotExist", err)
	}
	if err := os.WriteFile(f.Segment(), segmentOf(104, 11, 1, 104), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, want := range []bool{true, false} {
		if was, err := f.ClearInitializing(); was != want || err != nil {
			t.Errorf("ClearInitializing: got %t, %v; want %t", was, err, want)
		}
	}
	if got, _ := os.ReadFile(f.Segment()); string(got) != string(segmentOf(104, 11, 0, 104)) {
		t.Errorf("segment after the repair: % x", got)
	}
	strange := segmentOf(104, 12, 1, 104)
	if err := os.WriteFile(f.Segment(), strange, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.ClearInitializing(); err == nil {
		t.Error("ClearInitializing of an unknown layout: want an error")
	}
	if got, _ := os.ReadFile(f.Segment()); string(got) != string(strange) {
		t.Errorf("unknown layout was changed: % x", got)
	}
}

func TestSweepSparesASegmentThatIsOpen(t *testing.T) {
	f := newBaseID(t)
	if err := f.Sweep(); err != nil {
		t.Errorf("Sweep of nothing: %v", err)
	}
	file, err := os.Create(f.Segment())
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Sweep(); !errors.Is(err, ErrInUse) {
		t.Errorf("Sweep of an open segment: %v, want ErrInUse", err)
	}
	file.Close()
	if err := f.Sweep(); err != nil {
		t.Errorf("Sweep: %v", err)
	}
	if taken, err := f.InUse(); taken || err != nil {
		t.Errorf("after Sweep: taken %t, %v", taken, err)
	}
}

func TestSharedMemorySaysWhatIsInTheWay(t *testing.T) {
	if err := SharedMemory(); err != nil {
		t.Errorf("SharedMemory: %v", err)
	}
	dir := t.TempDir()
	if err := writable(dir); err != nil {
		t.Errorf("writable: %v", err)
	}
	empty(t, dir)
	missing := filepath.Join(dir, "missing")
	if err := writable(missing); err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("writable: %v, want an error that names %s", err, missing)
	}
}

func open(t *testing.T, path string) *os.File {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return file
}
