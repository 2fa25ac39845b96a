/** Times as JSON: RFC 3339 in UTC. */

export const iso = (at: Date | null): string | null => at?.toISOString() ?? null
