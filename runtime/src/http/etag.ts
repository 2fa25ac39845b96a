/** Whether a validator stands in If-None-Match; weak and strong ones compare alike there (RFC 9110, 13.1.2). */
export function matchesEtag(header: string | undefined, etag: string): boolean {
  if (header === undefined) return false
  if (header.trim() === '*') return true
  const quoted = `"${etag}"`
  return header.split(',').some((candidate) => candidate.trim().replace(/^W\//, '') === quoted)
}
