/** Patterns of PostgreSQL as the engine's expressions (RE2) have them. */

/** What RE2 has not. Null: the pattern can be said. */
export function missingIn(pattern: string): string | null {
  const escaped = pattern.replace(/\\\\/g, '')
  if (/\(\?<?[=!]/.test(escaped)) return 'a look ahead or behind in a pattern'
  if (/\\[1-9]/.test(escaped)) return 'a back reference in a pattern'
  if (escaped.startsWith('***')) return 'a pattern that begins with ***'
  return null
}

const WORD_BOUNDARIES: Readonly<Record<string, string>> = { y: '\\b', Y: '\\B', Z: '\\z', m: '\\b', M: '\\b' }

/** `\y` and its like; `\m` and `\M` stand before or behind a word, and so at one of its ends. */
export function asRe2(pattern: string): string {
  const named = pattern.replace(/\[\[:[<>]:\]\]/g, '\\b')
  return named.replace(/\\([^])/g, (all, letter: string) => WORD_BOUNDARIES[letter] ?? all)
}

/** The whole of a text: `%` any letters, `_` one. Null where `escape` stands at the end. */
export function similarAsRe2(pattern: string, escape: string): string {
  let told = ''
  let isInBrackets = false
  for (let at = 0; at < pattern.length; at += 1) {
    const letter = pattern[at] as string
    if (letter === escape && escape !== '') {
      at += 1
      told += (pattern[at] ?? '').replace(/[^\p{L}\p{N}\s]/u, '\\$&')
    } else if (isInBrackets) {
      if (letter === ']') isInBrackets = false
      told += letter === '\\' ? '\\\\' : letter
    } else if (letter === '[') {
      isInBrackets = true
      told += letter
    } else if (letter === '%') told += '.*'
    else if (letter === '_') told += '.'
    else told += /[.^$\\]/.test(letter) ? `\\${letter}` : letter
  }
  return told
}
