/** Which versions of the contract a manifest's range holds. The part of npm's ranges that manifests are written in. */

type Version = readonly [major: number, minor: number, patch: number]

/** Null where the range cannot be read. */
export function rangeHolds(range: string, version: string): boolean | null {
  const wanted = parseVersion(version)
  const alternatives = range.split('||').map((part) => part.trim().split(/\s+/).filter(Boolean))
  if (wanted === null || alternatives.some((parts) => parts.length === 0)) return null
  const answers = alternatives.map((parts) => parts.map((part) => comparatorHolds(part, wanted)))
  if (answers.flat().includes(null)) return null
  return answers.some((parts) => parts.every((holds) => holds === true))
}

function comparatorHolds(comparator: string, version: Version): boolean | null {
  if (comparator === '*') return true
  const match = /^(\^|~|>=|<=|>|<|=)?v?(\d.*)$/.exec(comparator)
  const base = parseVersion(match?.[2] ?? '')
  if (base === null) return null
  const order = compare(version, base)
  switch (match?.[1]) {
    case '^':
      return order >= 0 && compare(version, caretEnd(base)) < 0
    case '~':
      return order >= 0 && compare(version, [base[0], base[1] + 1, 0]) < 0
    case '>=':
      return order >= 0
    case '<=':
      return order <= 0
    case '>':
      return order > 0
    case '<':
      return order < 0
    default:
      return order === 0
  }
}

function caretEnd([major, minor, patch]: Version): Version {
  if (major > 0) return [major + 1, 0, 0]
  return minor > 0 ? [0, minor + 1, 0] : [0, 0, patch + 1]
}

export function parseVersion(text: string): Version | null {
  const match = /^(\d+)(?:\.(\d+|x))?(?:\.(\d+|x))?(?:[-+].*)?$/.exec(text)
  if (!match) return null
  const part = (digits: string | undefined) => (digits === undefined || digits === 'x' ? 0 : Number(digits))
  return [part(match[1]), part(match[2]), part(match[3])]
}

function compare(left: Version, right: Version): number {
  const index = left.findIndex((part, position) => part !== right[position])
  return index < 0 ? 0 : (left[index] ?? 0) - (right[index] ?? 0)
}
