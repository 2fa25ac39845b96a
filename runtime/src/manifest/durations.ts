const UNIT_MS = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const

/** `30s`, `15m`, `24h`, `7d` → milliseconds; null for anything else, zero included. */
export function parseDuration(text: string): number | null {
  const match = /^([1-9]\d{0,5})([smhd])$/.exec(text)
  return match ? Number(match[1]) * UNIT_MS[match[2] as keyof typeof UNIT_MS] : null
}

/** Milliseconds as `parseDuration` reads them, of the largest unit that tells them. */
export function durationText(ms: number): string {
  const [unit, unitMs] = Object.entries(UNIT_MS).findLast(([, each]) => ms % each === 0) ?? ['s', 1000]
  return `${ms / unitMs}${unit}`
}

const UNIT_BYTES = { MB: 1e6, GB: 1e9, MiB: 1 << 20, GiB: 1 << 30 } as const

/** `512MB`, `2GiB` → bytes; null for anything else. */
export function parseMemory(text: string): number | null {
  const match = /^([1-9]\d{0,5})(MB|GB|MiB|GiB)$/.exec(text)
  return match ? Number(match[1]) * UNIT_BYTES[match[2] as keyof typeof UNIT_BYTES] : null
}
