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

export type WallName = (typeof WALL_NAMES)[number]
