package spelling

import "strings"

// longest is longer than any name that a person types; the rest of a longer name is not compared.
const longest = 64

// Nearest returns the known name that name is likely to mean, or nothing. Case and the separators of words do not count.
func Nearest(name string, known []string) string {
	name = fold(name)
	best, distance := "", 2+len(name)/4 // a name with that many wrong letters is another word
	for _, candidate := range known {
		folded := fold(candidate)
		if max(len(name)-len(folded), len(folded)-len(name)) >= distance {
			continue // as many letters are to add or to drop
		}
		if d := edits(name, folded); d < distance {
			best, distance = candidate, d
		}
	}
	return best
}

// fold makes target_port, target-port and targetPort equal.
func fold(name string) string {
	name = name[:min(len(name), longest)]
	return strings.ToLower(strings.ReplaceAll(strings.ReplaceAll(name, "_", ""), "-", ""))
}

// edits returns Levenshtein's distance: how many letters to add, drop or change to get from a to b.
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
