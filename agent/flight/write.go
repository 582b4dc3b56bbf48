package flight

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Write writes a record into dir, which it makes, and returns its path. It keeps the newest records, as many as keep,
// and never leaves half a record. If it has written the record but cannot remove older ones, it returns both a path and
// an error.
func Write(dir string, r Record, keep int) (path string, err error) {
	data, err := json.MarshalIndent(r.bounded(), "", indent)
	if err != nil {
		return "", fmt.Errorf("write flight record: %w", err)
	}
	name := fmt.Sprintf("%s-epoch%d.json", r.Time.UTC().Format("20060102T150405.000000000Z"), r.Epoch)
	path = filepath.Join(dir, name)
	if err := place(path, append(data, '\n')); err != nil {
		return "", fmt.Errorf("write flight record: %w", err)
	}
	if err := removeOldest(dir, keep); err != nil {
		return path, fmt.Errorf("remove old flight records: %w", err)
	}
	return path, nil
}

const unfinished = ".unfinished-*"

// place writes a temporary file in the same directory and renames it.
func place(path string, data []byte) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	file, err := os.CreateTemp(dir, unfinished) // 0600
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		os.Remove(file.Name())
	}
	return err
}

// removeOldest removes the oldest records by their names, which begin with a time. It touches no other file.
func removeOldest(dir string, keep int) error {
	records, err := filepath.Glob(filepath.Join(dir, "*Z-epoch*.json"))
	if err != nil {
		return err
	}
	leftover, err := filepath.Glob(filepath.Join(dir, unfinished))
	if err != nil {
		return err
	}
	slices.Sort(records)
	var errs []error
	for _, path := range append(leftover, records[:max(0, len(records)-keep)]...) {
		errs = append(errs, os.Remove(path))
	}
	return errors.Join(errs...)
}
