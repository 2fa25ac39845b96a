import { SluiceError } from '@sluice/sdk'

/** One layer between a tenant's statement and the machine. */
export interface Wall {
  readonly name: WallName
  /** True only where the child has tried the forbidden thing and was refused, where that can be tried. */
  readonly up: boolean
  /** Why it is down. */
  readonly why?: string
}

export const WALL_NAMES = [
  /** A user id of its own, which owns nothing (only where the runtime is started as root). */
  'own-user',
  /** No file opens but the job's. */
  'files',
  /** No socket can be made. */
  'network',
  /** No program starts, no process is made, traced or signalled. */
  'processes',
  /** The kernel refuses memory far over the job's limit. */
  'memory-limit',
  /** The parent ends a child that holds more memory than its limit. */
  'memory-watch',
  /** The kernel ends the child when its parent is gone. */
  'parent-death',
] as const

/**
 * Between tenants: without one of these, a statement or a source that takes over its process reaches what the runtime
 * can reach.
 */
export const NEEDED_WALLS: readonly WallName[] = ['files', 'network', 'processes']

/** Throws CONFIG `walls_missing` where one of those is down. */
export function requireWalls(walls: readonly Wall[], needed: readonly WallName[]): void {
  const down = walls.filter(({ name, up }) => !up && needed.includes(name)).map(({ name }) => name)
  if (down.length === 0) return
  throw new SluiceError('CONFIG', `a process could not put up walls that it needs: ${down.join(', ')}`, {
    code: 'walls_missing',
    remedy: 'Use a kernel with Landlock and seccomp, or set walls: not_required where all tenants trust each other.',
  })
}

export type WallName = (typeof WALL_NAMES)[number]
