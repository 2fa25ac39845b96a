/** What the system tells about another process; null wherever it tells nothing. */
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/**
 * A text that is equal for the same process and differs between two processes that had the same id one after the other:
 * boot and clock tick of its start on Linux, the start's second elsewhere.
 */
export function processStartTime(pid: number): string | null {
  if (process.platform !== 'linux') return ps(pid, 'lstart=')
  try {
    // The name of the command may hold spaces and brackets; the fields after its last bracket do not.
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const ticks = stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19]
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
    return ticks === undefined ? null : `${boot}:${ticks}`
  } catch {
    return null
  }
}

/** The command line, its words separated by spaces. */
export function commandLine(pid: number): string | null {
  if (process.platform !== 'linux') return ps(pid, 'command=')
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trim()
  } catch {
    return null
  }
}

function ps(pid: number, field: string): string | null {
  const result = spawnSync('ps', ['-p', String(pid), '-o', field], { encoding: 'utf8', env: { PATH: '/bin:/usr/bin' } })
  const text = result.status === 0 ? result.stdout.trim() : ''
  return text === '' ? null : text
}
