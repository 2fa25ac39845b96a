/** Which walls this machine has, before any process needs them: the kernel is asked, and nothing is shut in. */
import { LANDLOCK_MISSING, landlockVersion } from './landlock.ts'
import { type Libc, loadLibc } from './libc.ts'
import { filtersAreKnown } from './seccomp.ts'
import type { Wall } from './walls.ts'

/** The walls of `NEEDED_WALLS`. A process that cannot put one up all the same says so itself. */
export function kernelWalls(): readonly Wall[] {
  const libc = libcHere()
  const noLandlock = libc !== null && landlockVersion(libc) < 1 ? LANDLOCK_MISSING : null
  const noFilter = libc !== null && !filtersAreKnown(libc) ? 'the kernel has no seccomp filters' : null
  const nothing = libc === null ? `there are no walls on ${process.platform}` : null
  return [
    wall('files', nothing ?? noLandlock),
    wall('network', nothing ?? noFilter),
    wall('processes', nothing ?? noFilter),
  ]
}

function wall(name: Wall['name'], why: string | null): Wall {
  return why === null ? { name, up: true } : { name, up: false, why }
}

function libcHere(): Libc | null {
  if (process.platform !== 'linux') return null
  try {
    return loadLibc()
  } catch {
    // Then no wall is up, and each says so.
    return null
  }
}
