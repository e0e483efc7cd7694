// Package nearest finds the word that somebody may have meant.
package nearest

import "strings"

// longest is how many bytes of a word are compared. Somebody else may have written a million.
const longest = 256

// Word returns the known word that takes the fewest edits to get from word,
// ignoring case; none when none is known.
func Word(word string, known []string) string {
	word = word[:min(len(word), longest)]
	best, least := "", -1
	for _, k := range known {
		if d := Edits(word, k); least < 0 || d < least {
			best, least = k, d
		}
	}
	return best
}

// Edits returns how many bytes are to be inserted, removed or replaced to get from one word
// to the other, ignoring case.
func Edits(a, b string) int {
	a, b = strings.ToLower(a), strings.ToLower(b)
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			substituted := diagonal
			if a[i] != b[j] {
				substituted++
			}
			diagonal = row[j+1]
			row[j+1] = min(substituted, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
