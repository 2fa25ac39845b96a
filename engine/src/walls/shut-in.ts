/** Shuts the process that it runs in behind walls, for good. */
import { fchownSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { isRefused, Landlock, type OpenPaths } from './landlock.ts'
import { type Libc, loadLibc } from './libc.ts'
import { ProcessLimits } from './limits.ts'
import { processesAreRefused, refuseSystemCalls, type SystemCall, socketsAreRefused } from './seccomp.ts'
import type { Wall, WallName } from './walls.ts'

export interface Native {
  readonly libc: Libc
  readonly limits: ProcessLimits
  readonly parentPid: number
}

/** Null where there is nothing to build walls with: not on Linux, or without koffi's native part. */
export function openNative(): Native | null {
  if (process.platform !== 'linux') return null
  try {
    const libc = loadLibc()
    const limits = new ProcessLimits(libc)
    const parentPid = process.ppid
    limits.dieWithParent(parentPid)
    return { libc, limits, parentPid }
  } catch {
    return null
  }
}

export interface Enclosure {
  /** What stays open. */
  readonly open: OpenPaths
  /** The user and group to become; null: none of its own. */
  readonly userId: number | null
  /** Descriptors that are opened anew by name, as that user. */
  readonly pipes: readonly number[]
  /** What the process may allocate on top of what it holds. */
  readonly moreBytes: number
  /** System calls that are refused besides those that are refused to everybody. */
  readonly refused?: readonly SystemCall[]
  /** The event loop needs what the filter refuses: it is left away, and its walls are down. */
  readonly keepsRing?: boolean
}

/**
 * Shuts this process in, for good. A wall that the machine does not have is reported, and the others stand without it.
 */
export async function shutIn(enclosure: Enclosure, native: Native | null): Promise<readonly Wall[]> {
  if (!native) return allDown()
  const { libc, limits, parentPid } = native
  const walls: Wall[] = []
  const landlock = attempt(() => Landlock.prepare(libc, enclosure.open))
  limits.noCoreDumps()
  walls.push(ownUser(enclosure, limits))
  walls.push(wall('parent-death', limits.dieWithParent(parentPid), 'the kernel refused it'))
  walls.push(wall('memory-limit', limits.boundMemory(enclosure.moreBytes), 'the kernel refused it'))
  walls.push(await fileWall(landlock))
  const filter = attempt(() => {
    if (enclosure.keepsRing) throw new Error('the event loop kept its io_uring')
    refuseSystemCalls(libc, enclosure.refused)
  })
  walls.push(wall('network', socketsAreRefused(libc), reason(filter)))
  walls.push(wall('processes', processesAreRefused(libc), reason(filter)))
  return walls
}

/** A file that every user may read, so that only this wall can be what refuses it. */
const OPEN_TO_ALL = '/proc/version'

type Attempt<T> = { readonly value: T } | { readonly error: unknown }

function attempt<T>(action: () => T): Attempt<T> {
  try {
    return { value: action() }
  } catch (error) {
    return { error }
  }
}

function reason(result: Attempt<unknown>): string {
  if ('value' in result) return 'a try was not refused'
  return result.error instanceof Error ? result.error.message : String(result.error)
}

function wall(name: WallName, up: boolean, why: string): Wall {
  return up ? { name, up } : { name, up, why }
}

export function allDown(): readonly Wall[] {
  const names: WallName[] = ['own-user', 'files', 'network', 'processes', 'memory-limit', 'parent-death']
  return names.map((name) => wall(name, false, `there are no walls on ${process.platform}`))
}

function ownUser({ userId, pipes }: Enclosure, limits: ProcessLimits): Wall {
  if (userId === null) return wall('own-user', false, 'the runtime was not started as root')
  const changed = attempt(() => {
    for (const pipe of pipes) fchownSync(pipe, userId, userId)
    process.setgroups?.([])
    process.setgid?.(userId)
    process.setuid?.(userId)
  })
  limits.keepOwnProc()
  const back = attempt(() => process.setuid?.(0))
  return wall('own-user', process.getuid?.() === userId && 'error' in back, reason(changed))
}

/** On the main thread and on the pool's; the threads that DuckDB makes later come from these. */
async function fileWall(landlock: Attempt<Landlock>): Promise<Wall> {
  if ('error' in landlock) return wall('files', false, reason(landlock))
  const here = landlock.value.restrictThisThread()
  const there = await landlock.value.restrictPoolThread()
  if (!here || !there) return wall('files', false, 'the kernel refused it')
  const tries = await Promise.all(Array.from({ length: 4 }, () => isRefusedOnPool(OPEN_TO_ALL)))
  const up = isRefused(OPEN_TO_ALL) && tries.every(Boolean)
  return wall('files', up, 'a try was not refused')
}

async function isRefusedOnPool(path: string): Promise<boolean> {
  try {
    await (await open(path)).close()
    return false
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EACCES'
  }
}
