package config

import (
	"slices"
	"strings"
)

// suggest ends the message about an unknown name: with the known one that it is nearest to, else with all of them.
func suggest(name string, known []string) string {
	if near := nearest(name, known); near != "" {
		return `, did you mean "` + near + `"?`
	}
	if len(known) == 0 {
		return ""
	}
	known = slices.Sorted(slices.Values(known))
	return ", want one of " + strings.Join(known, ", ")
}

// nearest returns the known name that name is likely to mean, or nothing.
func nearest(name string, known []string) string {
	best, distance := "", 2+len(name)/4 // that many letters wrong is another word
	for _, candidate := range known {
		if d := edits(fold(name), fold(candidate)); d < distance {
			best, distance = candidate, d
		}
	}
	return best
}

// fold makes target_port, targetport and TargetPort one.
func fold(name string) string {
	if len(name) > 64 {
		name = name[:64] // longer than any name of Istio's
	}
	return strings.ToLower(strings.ReplaceAll(name, "_", ""))
}

// edits is Levenshtein's distance: how many letters to add, drop or change, to get from a to b.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
