/**
 * The validator in If-None-Match that names this one; weak and strong ones compare alike there (RFC 9110, 13.1.2). Null
 * where there is none.
 */
export function matchedEtag(header: string | undefined, etag: string): string | null {
  if (header === undefined) return null
  const quoted = `"${etag}"`
  if (header.trim() === '*') return quoted
  const candidates = header.split(',').map((candidate) => candidate.trim())
  return candidates.find((candidate) => candidate.replace(/^W\//, '') === quoted) ?? null
}
