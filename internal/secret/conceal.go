package secret

import "strings"

// shortest is the length from which a secret is looked for in texts. A shorter one would
// be found in half of all texts, and is guessed sooner than read.
const shortest = 8

// Conceal masks secrets in a text that others wrote, such as the error of a server that
// repeats what it was sent.
func Conceal(text string, secrets ...Text) string {
	for _, s := range secrets {
		if len(s.Reveal()) >= shortest {
			text = strings.ReplaceAll(text, s.Reveal(), Mask)
		}
	}
	return text
}
