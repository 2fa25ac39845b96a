import { readFileSync } from 'node:fs'
import type { Wall } from './walls.ts'

const POLL_MS = 50

/**
 * Calls `exceeded` when the process holds more than `memoryBytes` above what it holds now. DuckDB's own limit leaves
 * out strings and lists, so the process is looked at from outside. Without /proc it does nothing.
 */
export function watchMemory(pid: number, memoryBytes: number, stop: AbortSignal, exceeded: () => void): void {
  const baseline = residentBytes(pid)
  if (baseline === null) return
  const timer = setInterval(() => {
    if ((residentBytes(pid) ?? 0) - baseline > memoryBytes) exceeded()
  }, POLL_MS)
  timer.unref()
  stop.addEventListener('abort', () => clearInterval(timer), { once: true })
}

/** What the process holds now; null where it is gone, or there is no /proc. In kibibytes whatever the size of a page. A read of /proc never waits for a disk. */
export function residentBytes(pid: number): number | null {
  try {
    const held = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1]
    return held === undefined ? null : Number(held) * 1024
  } catch {
    return null
  }
}

export function memoryWatchWall(): Wall {
  const up = residentBytes(process.pid) !== null
  return up ? { name: 'memory-watch', up } : { name: 'memory-watch', up, why: 'there is no /proc' }
}
