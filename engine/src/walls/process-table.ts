/** What the system tells about another process; null wherever it tells nothing. */
import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'

/** False for a process that has ended and only waits for its parent to notice: it holds nothing any more. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EPERM') return false
  }
  return statFields(pid)?.[0] !== 'Z'
}

/**
 * A text that is equal for the same process and differs between two processes that had the same id one after the other:
 * boot and clock tick of its start on Linux, the start's second elsewhere.
 */
export function processStartTime(pid: number): string | null {
  if (process.platform !== 'linux') return ps(pid, 'lstart=')
  const ticks = statFields(pid)?.[19]
  if (ticks === undefined) return null
  return `${readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()}:${ticks}`
}

/** Null where there is no such process, and elsewhere than on Linux. */
export function parentOf(pid: number): number | null {
  const parent = statFields(pid)?.[1]
  return parent === undefined ? null : Number(parent)
}

/** Those that have ended and were not waited for among them. The kernel's own list may leave out some while others end. */
export function childrenOf(parent: number): readonly number[] {
  return allProcesses().filter((pid) => parentOf(pid) === parent)
}

/** Those that work in that folder, whoever their parent is; none elsewhere than on Linux. */
export function workingIn(folder: string): readonly number[] {
  if (process.platform !== 'linux') return []
  return allProcesses().filter((pid) => {
    try {
      return readlinkSync(`/proc/${pid}/cwd`) === folder
    } catch {
      return false
    }
  })
}

function allProcesses(): readonly number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
}

/** From the state on: the name of the command before it may hold spaces and brackets. Null elsewhere than on Linux. */
function statFields(pid: number): readonly string[] | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')
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
