import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import type { Wall } from './walls.ts'

const POLL_MS = 50
/** statm counts pages; 4 KiB on x64 and on nearly all arm64 systems. */
const PAGE_BYTES = 4096

/**
 * Calls `exceeded` when the process holds more than `memoryBytes` above what it held at the first look. DuckDB's own
 * limit leaves out strings and lists, so the process is looked at from outside. Without /proc it does nothing.
 */
export function watchMemory(pid: number, memoryBytes: number, stop: AbortSignal, exceeded: () => void): void {
  let baseline: number | null = null
  const timer = setInterval(async () => {
    const held = await residentBytes(pid)
    if (held === null || stop.aborted) return
    baseline ??= held
    if (held - baseline > memoryBytes) exceeded()
  }, POLL_MS)
  timer.unref()
  stop.addEventListener('abort', () => clearInterval(timer), { once: true })
}

async function residentBytes(pid: number): Promise<number | null> {
  try {
    const statm = await readFile(`/proc/${pid}/statm`, 'latin1')
    return Number(statm.split(' ')[1]) * PAGE_BYTES
  } catch {
    return null
  }
}

export function memoryWatchWall(): Wall {
  const up = existsSync('/proc/self/statm')
  return up ? { name: 'memory-watch', up } : { name: 'memory-watch', up, why: 'there is no /proc' }
}
