const MAX_LENGTH = 64

/** `did you mean "limit"?`, where one of the known names is close to the given one; else what is known. */
export function suggestion(given: string, known: readonly string[]): string {
  if (known.length === 0) return 'nothing is expected here'
  const name = given.slice(0, MAX_LENGTH).toLowerCase()
  let best: string | undefined
  let bestDistance = Math.max(2, Math.floor(name.length / 3)) + 1
  for (const candidate of known) {
    const distance = editDistance(name, candidate.toLowerCase())
    if (distance < bestDistance) {
      best = candidate
      bestDistance = distance
    }
  }
  return best === undefined ? `known here: ${known.join(', ')}` : `did you mean "${best}"?`
}

/** Levenshtein. */
function editDistance(left: string, right: string): number {
  let previous = Array.from({ length: right.length + 1 }, (_, index) => index)
  for (let i = 0; i < left.length; i++) {
    const current = [i + 1]
    for (let j = 0; j < right.length; j++) {
      const substitution = (previous[j] as number) + (left[i] === right[j] ? 0 : 1)
      current.push(Math.min(substitution, (previous[j + 1] as number) + 1, (current[j] as number) + 1))
    }
    previous = current
  }
  return previous[right.length] as number
}
